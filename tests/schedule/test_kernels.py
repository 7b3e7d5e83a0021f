"""The compiled kernels against a plain reading of the same rules: identical times, identical occupancy."""

from __future__ import annotations

import numpy as np
import pytest

from monet.schedule.engine import Scheduler
from monet.schedule.schedule import Schedule
from monet.schedule.simulation import records as n
from tests.schedule.cases import random_schedule
from tests.schedule.reference import Reference

KINDS = {n.COMPUTE: "compute", n.READ: "read", n.WRITE: "write", n.MOVE: "move", n.EVICT: "evict"}


def compare(number: int) -> bool:
    """Whether the case could run; raises if kernels and reference differ."""
    found = random_schedule(number)
    if found is not None:
        compare_schedule(*found)
    return found is not None


def compare_schedule(scheduler: Scheduler, schedule: Schedule) -> None:
    """Raise if kernels and reference differ."""
    buffers = scheduler.machine.tile_buffers(schedule.plan.prefetch).tolist()
    expected = Reference(schedule.expanded, scheduler.machine, buffers, schedule.plan.memory_share).run()
    nodes, timed = schedule.decided.events.nodes, schedule.timed
    columns = (nodes.kind, nodes.bytes, nodes.source, nodes.target, timed.start, timed.end)
    ours = [
        (KINDS[kind], *others)
        for kind, *others in zip(*(column.tolist() for column in columns), strict=True)
        if kind != n.JOIN
    ]
    theirs = [(o.kind, o.bytes, o.source, o.target, o.start, o.end) for o in expected.nodes if o.kind != "done"]
    assert ours == theirs
    assert timed.makespan == max(o.end for o in expected.nodes)
    copies = schedule.decided.copies
    lives = sorted(
        (int(row["memory"]), int(row["bytes"]), int(timed.start[row["came"]]),
         int(timed.end[row["went"]]) if row["went"] >= 0 else -1)
        for row in copies
    )  # fmt: skip
    reference = sorted(
        (o.memory, o.bytes, o.came.start, max(g.end for g in o.gone) if o.gone else -1) for o in expected.copies
    )
    assert lives == reference


@pytest.mark.parametrize("block", [pytest.param(block, marks=[pytest.mark.slow] * (block >= 1)) for block in range(9)])
def test_kernels_do_what_the_plain_reading_says(block: int) -> None:
    ran = sum(compare(number) for number in range(40 * block, 40 * block + 40))
    assert ran >= 25


def test_a_core_without_work_sends_nothing_and_takes_no_room() -> None:
    assert compare(1895)  # more cores than a tile has rows, and a shared level with no room to spare


def test_replay_alone_is_a_longest_path() -> None:
    _, schedule = next(found for found in map(random_schedule, range(100)) if found)
    start, end = schedule.timed.start, schedule.timed.end
    nodes, deps, _ = schedule.decided.events
    for row, begun in zip(nodes, start, strict=True):
        for dep in deps[row["dep_start"] : row["dep_end"]]:
            assert begun >= end[dep["node"]] + dep["lag"]
    assert np.all(end >= start)


@pytest.mark.parametrize("number", range(12))
def test_a_makespan_alone_is_that_of_the_schedule_and_ends_early_where_it_is_not_less(number: int) -> None:
    found = random_schedule(number)
    if found is None:
        return
    scheduler, schedule = found
    made, ticks = scheduler.draft(schedule.plan), schedule.makespan
    assert scheduler.makespan(schedule.plan, made) == ticks
    assert scheduler.makespan(schedule.plan, made, ticks + 1) == ticks
    for most in (ticks, ticks // 2, 1):
        assert scheduler.makespan(schedule.plan, made, most) == most
