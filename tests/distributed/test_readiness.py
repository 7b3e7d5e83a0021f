"""Operators right behind what they wait for: a valid order, in which gradients leave before backward has ended."""

from __future__ import annotations

import pytest

from monet.distributed.plan import ParallelPlan
from monet.distributed.transform.ranks import rank_graphs
from monet.distributed.transform.readiness import as_soon_as_ready
from monet.frontends import load_model
from monet.graph import GraphBuilder
from monet.graph.op import Phase
from monet.graph.verify import verify
from monet.training.options import TrainingOptions

GPT = "gpt:layers=3,hidden=16,heads=2,vocabulary=32"


@pytest.mark.parametrize("shard", ["none", "states", "gradients", "parameters"])
def test_buckets_leave_before_backward_has_ended(shard: str) -> None:
    plan = ParallelPlan(data=2, shard=shard, bucket_bytes=2000)
    options = TrainingOptions(optimizer="adam", clip_norm=1.0)
    (stage,) = rank_graphs(load_model(GPT, batch=1, sequence=8), plan, options, 2).stages
    for graph in (stage.micro, stage.last):
        verify(graph)
    kinds = ("all_reduce", "reduce_scatter")
    leaving = [
        n for n, op in enumerate(stage.last.ops) if op.kind in kinds and op.inputs and op.attrs["group"] == "data"
    ]
    backward = [n for n, op in enumerate(stage.last.ops) if op.phase is Phase.BACKWARD]
    assert leaving[0] < backward[len(backward) // 2]
    updates = [n for n, op in enumerate(stage.last.ops) if op.kind.endswith("_update")]
    assert updates[0] > backward[-1]


def test_an_operator_stays_behind_all_that_touch_its_storages() -> None:
    builder = GraphBuilder("storages")
    x, y = builder.input("x", (4,)), builder.input("y", (4,))
    a = builder.emit("relu", x, name="a")
    b = builder.emit("add", a, y, name="b")
    c = builder.emit("add", b, y, name="c")
    over = builder.emit("add", a, x, name="over", inplace=True)  # over what b reads
    free = builder.emit("relu", a, name="free")
    graph = builder.build([c, over, free])
    moved = as_soon_as_ready(graph, {"over", "free"})
    assert [op.name for op in moved.ops] == ["a", "b", "over", "free", "c"]
    assert as_soon_as_ready(graph, ()) is graph


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_parameters_are_gathered_while_the_block_before_runs(recompute: str) -> None:
    plan = ParallelPlan(data=2, shard="parameters", recompute=recompute)
    (stage,) = rank_graphs(load_model(GPT, batch=1, sequence=8), plan, TrainingOptions(), 2).stages
    verify(stage.micro)
    place = {op.name: number for number, op in enumerate(stage.micro.ops)}
    products = [op for op in stage.micro.ops if op.kind == "linear" and not op.recompute]
    for backward, before in ((False, "h.0."), (True, "h.2.")):
        phase = [op for op in stage.micro.ops if (op.phase is Phase.BACKWARD) == backward]
        gathers = [op for op in phase if op.kind == "all_gather" and op.inputs[0].startswith("h.1.")]
        first = min(
            place[op.name]
            for op in products
            if (op.phase is Phase.BACKWARD) == backward and op.layer.startswith(before)
        )
        assert gathers
        assert all(place[op.name] < first for op in gathers)
        others = [op for op in phase if op.kind == "all_gather" and op.inputs[0].startswith(("h.2.", "h.0."))]
        ahead = [op for op in others if not op.inputs[0].startswith(before)]
        assert all(place[op.name] > first for op in ahead)  # two blocks at a time, not three
