"""A linear layer over sequences has one row a token in its loop nest, whatever axes its tensors have."""

from __future__ import annotations

import pytest

from monet.frontends import load_model
from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Group, Plan
from monet.training.step import training_step


def layers(*shape: int) -> Graph:
    """Two linear layers with an activation between, over inputs of a shape."""
    b = GraphBuilder("layers")
    x = b.input("x", (*shape, 96), "bf16")
    y = b.emit("gelu", b.emit("linear", x, b.parameter("v", (256, 96), "bf16"), name="up", transpose=False), name="act")
    return b.build([b.emit("linear", y, b.parameter("w", (96, 256), "bf16"), name="down", transpose=False)])


@pytest.mark.parametrize("hardware", ["edge-tpu", "tpu-v3", "simba", "fusemax"])
def test_axes_of_tokens_do_not_matter(hardware: str) -> None:
    accelerator = load_hardware(hardware)
    flat, *others = (evaluate(layers(*shape), accelerator, fusion="none") for shape in ((512,), (1, 512), (8, 64)))
    for one in others:
        assert one.latency_s == flat.latency_s
        assert one.energy_j == pytest.approx(flat.energy_j, rel=1e-9)
        assert one.dram_bytes == flat.dram_bytes


def test_layers_of_a_transformer_can_be_split() -> None:
    scheduler = Scheduler(training_step(load_model("gpt2-mini")), load_hardware("edge-tpu"))
    linear = [one for one in scheduler.workload.operators if one.op.kind.startswith("linear")]
    assert len(linear) > 20
    placed = scheduler.complete(Plan()).placements
    assert all(len(placed[one.op.name].cores) > 1 for one in linear)


@pytest.mark.parametrize("shape", [(512,), (1, 512)])
def test_they_fuse_token_by_token(shape: tuple[int, ...]) -> None:
    scheduler = Scheduler(layers(*shape), load_hardware("fusemax"))
    group = Group(("up", "act", "down"), (("N", 64),))
    schedule = scheduler.schedule(Plan((group,)))
    assert [len(one.classes) for one in schedule.expanded.operators] == [8, 8, 8]
