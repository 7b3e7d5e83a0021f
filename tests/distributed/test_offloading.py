"""What a device leaves with its host: the same step, less memory, time on the port."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from monet.distributed.costs.page_traffic import leaving_bytes
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import DistributedResult
from monet.errors import OptionError
from monet.frontends import load_model
from monet.graph import Graph
from monet.graph.tensor import Role
from monet.hardware import load_hardware
from monet.request.system_request import SystemRequest
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan
from monet.training.step import training_step
from monet.transforms.checkpoint_plan import CheckpointPlan, saved_tensors
from monet.transforms.offload import offload
from tests.distributed.proof import MODELS, difference, graphs_of

GPT = "gpt:layers=4,hidden=64,heads=4,vocabulary=64,positions=32,sequence=32"
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "activations": ("gpt", {"offload": "activations"}),
    "both, stages": ("gpt", {"offload": "both", "recompute": "full", "pipeline": 2, "passes": 2}),
    "both, parameters": (
        "llama", {"offload": "both", "data": 2, "shard": "parameters", "pipeline": 2, "interleave": 2, "passes": 2},
    ),
    "both, images": ("resnet", {"offload": "both", "data": 2, "shard": "gradients"}),
    "both, sequence": (
        "bert", {"offload": "both", "tensor": 2, "sequence_parallel": True, "recompute": "selective", "passes": 2},
    ),
}  # fmt: skip
EVERY_TIME = ("both, stages", "both, images")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EVERY_TIME else pytest.mark.slow) for name in PLANS]
)
def test_values_are_those_of_one_device(name: str) -> None:
    model, plan = PLANS[name]
    graphs = graphs_of(model, **plan)
    assert all(_pages(stage.micro) for stage in graphs.stages)
    assert all(_pages(stage.update) == _pages(stage.last) - _pages(stage.micro) for stage in graphs.stages)
    assert all(_pages(stage.update) for stage in graphs.stages) == (plan["offload"] == "both")
    assert difference(model, **plan) <= 1e-10


def _pages(graph: Graph) -> int:
    return sum(op.kind == "page_out" for op in graph.ops)


def test_a_checkpoint_plan_may_page_out_and_recompute_by_name() -> None:
    step = training_step(load_model(MODELS["gpt"], batch=2), optimizer="adam", precision="fp64")
    names = [saved.storage for saved in saved_tensors(step) if saved.storage.startswith("h.1.")]
    away, again = [name for name in names if ".attn" in name][:2], [name for name in names if ".mlp" in name][:1]
    chosen = CheckpointPlan({**dict.fromkeys(away, "offload"), **dict.fromkeys(again, "recompute")})
    graphs = graphs_of("gpt", recompute=chosen, pipeline=2, passes=2)
    assert _pages(graphs.stages[0].micro) == len(away)
    assert any(op.recompute for op in graphs.stages[0].micro.ops)
    assert difference("gpt", recompute=chosen, pipeline=2, passes=2) <= 1e-10


def system(host: str = "4 GB/s", capacity: str = "1 GiB") -> dict[str, Any]:
    changes = {"endpoints.host.bandwidth_bytes_per_s": host, "endpoints.host.capacity_bytes": capacity}
    return {
        "name": "boards",
        "devices": {"hardware": "edge-tpu", "set": changes},
        "network": {"board": {"size": 4, "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-6}},
    }


@cache
def result(host: str = "4 GB/s", capacity: str = "1 GiB", **given: Any) -> DistributedResult:
    values = {"batch": 8, "micro_batch": 2, "optimizer": "adam", "fusion": "none", "pipeline": 2, **given}
    return SystemRequest(GPT, system=system(host, capacity), **values).distribute()


def test_what_is_at_the_host_is_not_on_the_device() -> None:
    usual, away = result(), result(offload="both")
    for before, after in zip(usual.stages, away.stages, strict=True):
        kept, left = before.peak_memory_bytes, after.peak_memory_bytes
        assert left.activations < 0.1 * kept.activations
        assert left.optimizer_state < 0.1 * kept.optimizer_state
        assert (left.weights, left.gradients) == (kept.weights, kept.gradients)
        gone = kept.activations + kept.optimizer_state - left.activations - left.optimizer_state
        assert after.host_memory_bytes == pytest.approx(gone, rel=0.02)  # gradients of the loss stay where they are
        assert before.host_memory_bytes == 0
    states = result(offload="states").stages[0].peak_memory_bytes
    assert states.activations == usual.stages[0].peak_memory_bytes.activations


def test_small_states_stay() -> None:
    """What is less than a 64th of the largest is not worth a page."""
    for stage in graphs_of("gpt", offload="states", pipeline=2, passes=2).stages:
        made, tensors = stage.update.producer, stage.update.tensors.values()
        states = {each.name: each.bytes for each in tensors if each.role is Role.STATE and each.name not in made}
        paged = {op.inputs[0] for op in stage.update.ops if op.kind == "page_in"}
        least = max(states.values()) / 64
        assert paged == {name for name, size in states.items() if size >= least}
        assert any(size < least for size in states.values())


def test_a_page_on_its_way_does_not_wait_for_the_port() -> None:
    """What is to go beyond one page holds room: of a single page nothing does, of several on a slow port some do."""
    step = training_step(load_model("mlp-robot", batch=64))
    names = [saved.storage for saved in saved_tensors(step)]
    found = []
    for away in (names[:1], names):
        paged = offload(step, dict.fromkeys(away))
        slow = load_hardware("edge-tpu", {"endpoints.host.bandwidth_bytes_per_s": "1 MB/s"})
        scheduler = Scheduler(paged, slow)
        found.append(leaving_bytes(scheduler, scheduler.schedule(Plan())))
    assert found[0] == 0 < found[1] <= sum(saved.bytes for saved in saved_tensors(step))


def test_pages_take_the_port_and_a_faster_one_is_never_slower() -> None:
    slow, usual, fast = (result(host=rate, offload="both") for rate in ("0.1 GB/s", "4 GB/s", "400 GB/s"))
    assert result().latency_s <= fast.latency_s <= usual.latency_s < slow.latency_s
    rows = {row.kind: row for row in slow.communication if row.group == "host"}
    assert set(rows) == {"page_out", "page_in"}
    assert rows["page_out"].bytes == rows["page_in"].bytes == pytest.approx(rows["page_out"].seconds * 1e8, rel=0.05)
    assert sum(slow.time.communication[f"host {kind}"] for kind in rows) > 0.5 * slow.time.total
    assert slow.time.total == pytest.approx(slow.latency_s)
    late, prompt = (one.stages[0].peak_memory_bytes.workspace for one in (slow, fast))
    assert late > prompt  # what waits for the port holds room


def test_a_host_that_is_full_or_missing_says_so() -> None:
    full = result(offload="both", capacity="100 KiB")
    assert not full.feasible
    assert full.reason is not None
    assert full.reason.bytes_short == max(stage.host_memory_bytes for stage in full.stages[:1]) - 100 * 1024
    need = max(stage.host_memory_bytes for stage in result(offload="both").stages)
    short, enough = (result(offload="both", capacity=f"{need - less} B") for less in (1, 0))
    assert short.reason is not None
    assert short.reason.bytes_short == 1
    assert enough.feasible
    none = {**system(), "devices": "micro-npu"}
    with pytest.raises(OptionError, match="micro-npu describes no host"):
        SystemRequest(GPT, system=none, batch=8, offload="states").distribute()
    with pytest.raises(OptionError, match="did you mean 'states'"):
        ParallelPlan(offload="state")
