"""Like cores that work together are one in a schedule: its tables are what the cores need one by one, and from these
it is to the tick what a plain reading with every core's own wires finds, with figures and traces for every core."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from monet.errors import ComputerMemoryError
from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.hardware.errors import HardwareError
from monet.schedule.clusters import LEAST, clusters_of, folded
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement import members as of_members
from monet.schedule.measurement.members import Members
from monet.schedule.plan import Placement, Plan, PlanError
from monet.schedule.result_rows import EVENT_KINDS
from monet.schedule.schedule import Schedule
from monet.training.step import training_step
from tests.schedule.cases import accelerator, random_accelerator, random_graph, random_plan
from tests.schedule.one_by_one import OneByOne
from tests.schedule.test_invariants import check, result_of
from tests.schedule.test_kernels import compare_schedule
from tests.schedule.unfolded import Unfolded


def together(number: int) -> tuple[Scheduler, Schedule] | None:
    """A random schedule on an accelerator with cores that work together; None if there are none, or no schedule."""
    seed = random.Random(number)
    scheduler = Scheduler(random_graph(seed), random_accelerator(seed), least=2)
    try:
        return (scheduler, scheduler.schedule(random_plan(seed, scheduler))) if scheduler.machine.clusters else None
    except (NoSchedule, PlanError):
        return None


def check_cores(scheduler: Scheduler, schedule: Schedule) -> None:
    """Every core has its time, and its bars are within those of the cores that it works with."""
    machine, result = scheduler.machine, result_of(scheduler, schedule)
    assert [row.name for row in result.cores] == [core.name for core in machine.accelerator.cores]
    assert {trace.name for trace in result.memory[1:]} >= {memory.name for memory in machine.accelerator.memories}
    timeline, computes = result.timeline, EVENT_KINDS.index("compute")
    for row in result.cores:
        assert sum(row.time_ticks.values()) == result.ticks
        assert min(row.time_ticks.values()) >= 0
        mine = (timeline.resource == timeline.resources.index(row.name)) & (timeline.kind == computes)
        start, end = timeline.start[mine], timeline.end[mine]
        order = np.argsort(start, kind="stable")
        assert (start[order][1:] >= end[order][:-1]).all()
        assert (end - start).sum() == round(row.busy_s * machine.ticks_per_second)
    members = Members.of(schedule, machine)
    assert members.parts.sum() == members.busy.sum()
    assert (members.busy >= schedule.expanded.tables.steps.ticks).all()


def check_unfolded(scheduler: Scheduler, schedule: Schedule) -> None:
    """The same nodes with every core's own clock, wires and piece: the same times, and the bars of every core."""
    result, each = result_of(scheduler, schedule), Unfolded(scheduler, schedule).run()
    assert each.start == schedule.timed.start.tolist()
    assert each.end == schedule.timed.end.tolist()
    timeline, computes = result.timeline, EVENT_KINDS.index("compute")
    for row in result.cores:
        mine = (timeline.resource == timeline.resources.index(row.name)) & (timeline.kind == computes)
        bars = zip(
            timeline.start[mine].tolist(), timeline.end[mine].tolist(), timeline.operator[mine].tolist(), strict=True
        )
        assert sorted(bars) == sorted(each.bars[row.name])
        busy = sum(end - start for start, end, _ in each.bars[row.name])
        assert busy == round(row.busy_s * scheduler.machine.ticks_per_second)


def check_many(numbers: range) -> int:
    ran = 0
    for number in numbers:
        found = together(number)
        if found:
            ran += 1
            OneByOne(*found).check()
            compare_schedule(*found)
            check(*found)
            check_cores(*found)
            check_unfolded(*found)
    return ran


def test_folded_as_every_core_on_its_own() -> None:
    assert check_many(range(34)) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_folded_as_every_core_on_its_own_in_many_cases(block: int) -> None:
    assert check_many(range(1000 + 200 * block, 1200 + 200 * block)) >= 50


def test_cores_that_could_change_places_are_a_cluster() -> None:
    assert len(clusters_of(load_hardware("a100"))[0].cores) == 108
    assert clusters_of(load_hardware("tpu-like-quad")) == () == clusters_of(load_hardware("aimc-4x4"))
    assert clusters_of(accelerator("bus", count=LEAST - 1)) == ()
    (cluster,) = clusters_of(accelerator("bus", count=LEAST))
    assert len(cluster.cores) == LEAST
    assert clusters_of(accelerator("mesh"), least=2) == ()


def test_one_core_that_differs_breaks_the_symmetry() -> None:
    whole = accelerator("bus", count=LEAST)
    last = whole.cores[-2]
    memories = tuple(
        replace(memory, clock_hz=2 * memory.clock_hz) if last.name in memory.cores else memory
        for memory in whole.memories
    )
    assert clusters_of(replace(whole, memories=memories)) == ()


def test_a_folded_chip_keeps_ways_between_its_cores() -> None:
    whole = accelerator("bus", count=LEAST)
    fewer, twins = folded(whole, clusters_of(whole))
    assert len(fewer.cores) == len(whole.cores) - LEAST + 1
    assert len(fewer.memories) < len(whole.memories)
    assert all(len(link.endpoints) >= 2 for link in fewer.links)
    assert all(first < second for second, first in twins.items())


def split_matmul(cores: int, split: tuple[tuple[str, int], ...]) -> tuple[Scheduler, Schedule]:
    graph = training_step(load_model("mlp-pusher", batch=cores))
    scheduler = Scheduler(graph, accelerator("bus", count=LEAST, sram=65536, local=65536))
    linear = next(op for op in scheduler.workload.operators if op.op.kind == "linear")
    names = tuple(core.name for core in scheduler.machine.clusters[0].cores[:cores])
    return scheduler, scheduler.schedule(Plan(placements={linear.op.name: Placement(names, split)}))


def test_what_all_cores_read_crosses_shared_wires_once() -> None:
    """Split over samples, weights are one multicast: as many bytes from DRAM as on one core."""
    scheduler, schedule = split_matmul(8, (("N", 8),))
    linear = next(op for op in scheduler.workload.operators if op.op.kind == "linear")
    moves = schedule.transfers
    mine = (moves.operator == linear.number) & moves.from_dram
    assert moves.bytes[mine].sum() == linear.input_bytes
    assert moves.arriving[mine].sum() > linear.input_bytes


def test_more_cores_take_no_more_rows() -> None:
    sizes = []
    for count in (LEAST, 4 * LEAST):
        graph = training_step(load_model("mlp-pusher", batch=64))
        schedule = Scheduler(graph, accelerator("bus", count=count)).schedule(Plan())
        sizes.append((len(schedule.expanded.tables.entries), schedule.size))
    assert sizes[1][0] <= sizes[0][0] + 8
    assert sizes[1][1] <= 1.2 * sizes[0][1]


def test_too_many_cores_on_their_own_are_refused_beforehand() -> None:
    many = accelerator("bus", count=LEAST)
    scheduler = Scheduler(random_graph(random.Random(1)), many, least=10**6)
    scheduler.machine.__dict__["capacity"] = np.zeros(2000, np.int64)
    with pytest.raises(HardwareError, match="2,000 memories are each on their own"):
        _ = scheduler.machine.routes


def test_a_timeline_that_the_computer_cannot_hold_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, schedule = split_matmul(8, (("N", 8),))
    monkeypatch.setattr(of_members, "free_memory_bytes", lambda: 1000)
    with pytest.raises(ComputerMemoryError, match=f"events of {LEAST} cores that work together"):
        result_of(scheduler, schedule)
