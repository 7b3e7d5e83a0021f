"""Splits: along two dimensions, over like cores of any template, chosen by cost."""

from __future__ import annotations

import numpy as np
import pytest

from monet.frontends import load_model
from monet.graph import Graph, GraphBuilder
from monet.hardware import load_hardware
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Placement, Plan, PlanError
from monet.schedule.planning.splits import Ways, best_split, candidates
from monet.schedule.simulation import records as d
from monet.training.step import training_step
from tests.schedule.cases import accelerator


def convolution(channels: int = 8, out: int = 8, size: int = 8, batch: int = 2) -> Graph:
    builder = GraphBuilder("one")
    x = builder.input("image", (batch, channels, size, size))
    weight = builder.parameter("weight", (out, channels, 3, 3))
    x = builder.emit("conv", x, weight, stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1), groups=1, name="conv")
    return builder.build([x])


def test_both_halves_of_a_tpu_work() -> None:
    """Matrix and vector units that differ only in the memory they attach to are used together."""
    graph = training_step(load_model("resnet18-cifar", batch=16), precision="bf16")
    result = evaluate(graph, load_hardware("tpu-v3"), fusion="none")
    busy = {core.name: core.busy_s for core in result.cores}
    for first, second in (("mxu_0[0]", "mxu_1[0]"), ("mxu_0[1]", "mxu_1[1]"), ("vpu_0", "vpu_1")):
        assert busy[second] > 0.8 * busy[first] > 0, (first, second)


def test_each_core_of_two_dimensions_has_its_part_and_reads_come_once() -> None:
    """K in two parts, samples in two: what two cores want of weights and pixels leaves DRAM once for both."""
    roomy = accelerator("mesh", sram=65536)
    cores = tuple(core.name for core in roomy.cores if core.core.modes)
    scheduler = Scheduler(convolution(), roomy)
    (operator,) = scheduler.workload.operators
    for split in ((("N", 2), ("K", 2)), (("K", 2), ("N", 2))):
        schedule = scheduler.schedule(Plan((), {"conv": Placement(cores, split)}, boundary="dram"))
        (stepped,) = schedule.expanded.operators
        points = np.prod([high - low for low, high in stepped.steps.ranges.values()], axis=0)
        assert points.tolist() == [operator.nest.sizes["K"] // 2] * 4
        nodes = schedule.decided.events.nodes
        *read, _ = stepped.costs[0].operands
        assert int(nodes.bytes[nodes.kind == d.READ].sum()) == 2 * sum(operand.bytes for operand in read)
        assert int(nodes.bytes[nodes.kind == d.WRITE].sum()) == operator.output_bytes


def test_a_sum_and_a_result_are_cut_at_once() -> None:
    """C in two parts, K in two: two pairs of cores, each adds up its own half of the results."""
    roomy = accelerator("mesh", sram=65536)
    cores = tuple(core.name for core in roomy.cores if core.core.modes)
    scheduler = Scheduler(convolution(), roomy)
    schedule = scheduler.schedule(Plan((), {"conv": Placement(cores, (("K", 2), ("C", 2)))}))
    (stepped,) = schedule.expanded.operators
    assert sorted(piece for piece, _ in stepped.addition_costs) == [0, 1, 2, 3]
    nodes, elements = schedule.decided.events.nodes, 2 * 8 * 8 * 8
    assert int(nodes.bytes[nodes.kind == d.MOVE].sum()) == elements * 4  # one int32 accumulator of two moves
    assert sum(cost.under_use for _, cost in stepped.addition_costs) == elements / 4  # the array has four outputs


@pytest.mark.parametrize(
    ("hardware", "shape"),
    [("bus", (4, 16, 6, 1)), ("mesh", (8, 8, 8, 2)), pytest.param("mesh", (16, 4, 4, 4), marks=pytest.mark.slow)],
)
def test_the_split_chosen_by_the_rough_clock_is_near_the_best_of_all(hardware: str, shape: tuple[int, ...]) -> None:
    """Every legal split through the whole schedule; 1.15 was set before the first look."""
    machine = accelerator(hardware, sram=65536, dram=64, link=64, count=4)
    scheduler = Scheduler(training_step(convolution(*shape), loss="sum"), machine)
    cores = machine.like_cores[0]
    for operator in scheduler.workload.operators:
        if not operator.is_matrix:
            continue
        spans = {}
        for split in candidates(operator, len(cores)):
            pieces = int(np.prod([parts for _, parts in split])) if split else 1
            placement = Placement(tuple(core.name for core in cores[:pieces]), split)
            try:
                schedule = scheduler.schedule(Plan((), {operator.op.name: placement}))
            except NoSchedule:
                continue
            spans[split] = schedule.makespan
        chosen = best_split(operator, cores, scheduler.costs)
        assert spans[chosen] <= 1.15 * min(spans.values()), (
            operator.op.name,
            chosen,
            min(spans, key=spans.__getitem__),
        )
        assert len(spans) > 6


@pytest.mark.parametrize(("channels", "parts"), [(8, 4), (10, 4), (9, 3), (7, 4), (5, 3), (3, 3), (2, 2)])
def test_parts_of_a_dimension(channels: int, parts: int) -> None:
    """On four like cores as few as leave the longest piece as short as it can be: 9 = 3 + 3 + 3, 10 = 3 + 3 + 3 + 1."""
    (operator,) = Scheduler(convolution(out=channels), accelerator("mesh")).workload.operators
    ways = Ways.of(operator, 4)
    along = {split[0][1]: number for number, split in enumerate(ways.splits) if dict(split).keys() == {"K"}}
    assert max(along) == parts
    for many, number in along.items():
        assert ways.share[number] == pytest.approx(-(-channels // many) / channels)


def test_files_say_both_dimensions() -> None:
    four = {"cores": ["a", "b", "c", "d"], "split": {"K": 2, "N": 2}}
    plan = Plan.from_dict({"allocation": {"conv": four, "other": {"cores": ["a", "b"], "split": "K"}}})
    assert plan.placements["conv"] == Placement(("a", "b", "c", "d"), (("K", 2), ("N", 2)))
    assert plan.placements["other"] == Placement(("a", "b"), "K") == Placement(("a", "b"), (("K", 2),))
    assert plan.to_dict()["allocation"] == {"conv": four, "other": {"cores": ["a", "b"], "split": "K"}}


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ({"K": 3, "N": 2}, "6 pieces for 4 cores"),
        ({"K": 2, "N": 0}, "split.N: 0 is not a number of parts"),
        ({"K": 2, "N": 2, "C": 1, "B": 1}, "one to three"),
    ],
)
def test_files_with_splits_that_do_not_fit(split: dict[str, int], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Plan.from_dict({"allocation": {"conv": {"cores": ["a", "b", "c", "d"], "split": split}}})


def test_a_dimension_too_short_for_its_parts_is_refused() -> None:
    mesh = accelerator("mesh")
    cores = tuple(core.name for core in mesh.cores if core.core.modes)
    with pytest.raises(PlanError, match="N has 2 values for 4 cores"):
        Scheduler(convolution(), mesh).schedule(Plan((), {"conv": Placement(cores, "N")}))
    with pytest.raises(PlanError, match="each once"):
        Scheduler(convolution(), mesh).schedule(Plan((), {"conv": Placement(cores, (("K", 2), ("K", 2)))}))
