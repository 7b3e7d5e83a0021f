"""Cores and DRAM in turn: what waits for what, what passes DRAM behind a place, and what both say together, against
schedules and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import monet
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.schedule.engine import Scheduler
from monet.schedule.lower_bound.barriers import waited_for, waited_for_whole
from monet.schedule.lower_bound.in_order import in_order_traffic
from monet.schedule.lower_bound.in_turn import in_turn_bound_s
from monet.schedule.lower_bound.occupancy import occupancy_bound_s
from monet.schedule.lower_bound.tails import tails_of
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_schedule, fused_plans
from monet.schedule.planning.family import one_core_per_layer
from monet.schedule.schedule import Schedule
from monet.schedule.workload import workload_of
from monet.search.mining.templates import load_template

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("mlp:widths=48-96-64-10", {"batch": 8}),
    "bert": ("bert:layers=2,hidden=64,heads=2", {"sequence": 16, "batch": 1}),
    "resnet": ("resnet:blocks=1-1,width=16,stem=cifar,classes=10", {"image": 16, "batch": 2}),
}


def step(name: str) -> Graph:
    """One training step."""
    model, more = MODELS[name]
    return monet.training_step(monet.load_model(model, **more), optimizer="sgd")


def chip(count: int, kib: int = 32, side: int = 8, gbps: float = 3.2) -> Accelerator:
    """A chip of the edge template."""
    template = load_template("edge")
    space = template.space({"model": template.workload({"model": "mlp"})})
    sizes = {"core_count": count, "rows": side, "columns": side, "lanes": 4, "sram_kib": kib, "dram_gbps": gbps}
    return space.hardware(sizes)


def spans(schedule: Schedule, operators: int) -> tuple[np.ndarray, np.ndarray]:
    """Ticks at which the first step of every operator begins and the last one ends."""
    first, last = np.full(operators, np.iinfo(np.int64).max), np.zeros(operators, np.int64)
    np.minimum.at(first, schedule.tiles.operator, schedule.tiles.start)
    np.maximum.at(last, schedule.tiles.operator, schedule.tiles.end)
    return first, last


def plans(scheduler: Scheduler) -> list[Schedule]:
    """The default plan; and all ways of the family to fuse what runs over all cores, and what runs whole in turn."""
    found = [default_schedule(scheduler)]
    base = scheduler.complete(Plan())
    for plan in (base, Plan(placements=one_core_per_layer(scheduler, base))):
        found.append(scheduler.schedule(plan))
        found += [scheduler.schedule(fused) for fused in fused_plans(scheduler, plan, {}) if fused.groups]
    return found


@pytest.mark.parametrize(
    ("name", "count"), [("resnet", 1), ("resnet", 2), ("bert", 1), pytest.param("mlp", 4, marks=pytest.mark.slow)]
)
def test_schedules_keep_what_is_proved(name: str, count: int) -> None:
    """Nothing begins before what it waits for has ended; operators behind a place move no less than is said; none is
    faster."""
    scheduler = Scheduler(step(name), chip(count))
    workload, machine = scheduler.workload, scheduler.machine
    waits, whole = waited_for(workload), waited_for_whole(workload)
    tails = tails_of(workload)
    least = tails.over_size(sum(memory.size_bytes for memory in machine.accelerator.memories))
    bound = in_turn_bound_s(workload, machine.accelerator)
    for schedule in plans(scheduler):
        first, last = spans(schedule, len(workload.operators))
        behind = np.flatnonzero(waits >= 0)
        assert (first[behind] >= last[waits[behind]]).all()
        if all(len(placement.cores) == 1 for placement in schedule.plan.placements.values()):
            behind = np.flatnonzero(whole >= 0)
            assert (first[behind] >= last[whole[behind]]).all()
        moves = schedule.transfers
        outside = moves.from_dram | moves.to_dram
        for begin, bytes_moved in zip(tails.begins.tolist(), least.tolist(), strict=True):
            assert bytes_moved <= moves.bytes[outside & (moves.operator >= begin)].sum() + 1e-6
        assert bound <= schedule.makespan / machine.ticks_per_second * (1 + 1e-9)


def test_what_waits_for_what() -> None:
    """A convolution behind a norm waits for the one before the norm; an update for no more than its gradient does."""
    workload = workload_of(step("resnet"))
    number = {operator.op.name: operator.number for operator in workload.operators}
    waits, whole = waited_for(workload), waited_for_whole(workload)
    norm, second = number["layer1.0.bn2"], number["layer1.0.conv2"]
    assert waits[second] < number["layer1.0.conv1"] <= waits[norm]  # some of it may read what few channels made
    assert whole[second] >= number["layer1.0.conv1"]  # on one core it needs all of them
    update = number["fc.weight/sgd_update"]
    assert waits[update] < number["layer2.0.conv1/conv_weight_gradient"]
    assert max(waits.max(), whole.max()) < len(workload.operators)
    assert (waits < np.arange(len(waits))).all()
    assert (whole < np.arange(len(whole))).all()


def test_all_of_a_step_is_what_the_order_moves() -> None:
    for name in MODELS:
        workload = workload_of(step(name))
        tails, order = tails_of(workload), in_order_traffic(workload)
        for size in (0, 10_000, 1_000_000, 10**9):
            moved = tails.over_size(size)
            assert moved[0] == pytest.approx(order.over_size(size))
            assert (moved <= tails.over_size(0) + 1e-6).all()


def test_more_than_cores_or_dram_alone() -> None:
    """A step of convolutions, then updates; with all time to move bytes it is what the cores take."""
    workload, chip_of_both = workload_of(step("bert")), chip(1, side=4, gbps=3.2)
    moved = in_order_traffic(workload).over_size(32 * 1024)
    alone = max(occupancy_bound_s(workload, chip_of_both), moved / 3.2e9)
    assert in_turn_bound_s(workload, chip_of_both) > 1.1 * alone
    fast = chip(1, kib=512, side=2, gbps=12.8)
    assert in_turn_bound_s(workload, fast) < 1.2 * occupancy_bound_s(workload, fast)
