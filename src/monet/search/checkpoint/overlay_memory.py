"""Activation memory of a schedule over time: every block once, from when it comes to be until nothing needs it.

A block counts wherever it lies, in DRAM, on chip or both: this is what the step needs in all, and what a checkpoint
plan lowers. It is not the fill of any one memory, which the ``Result`` of a schedule has level by level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.schedule.engine import Schedule
from monet.schedule.simulation import nodes as n
from monet.schedule.simulation import residency as r
from monet.schedule.workload import ACTIVATIONS, CATEGORY, Workload

Array = np.ndarray[Any, Any]
Away = Mapping[int, tuple[int, int]]  # block → ticks at which it has left, at which it comes back


@dataclass(frozen=True, slots=True)
class ActivationPeak:
    """Most bytes of activations at one time, and the operator that then runs."""

    bytes: int
    time_ticks: int
    operator: str


def lifetimes(schedule: Schedule, workload: Workload, away: Away | None = None) -> tuple[Array, Array, Array, Array]:
    """(came, went, bytes, storage number) of every activation block, in ticks. A block that is ``away`` for a while has
    a row before and a row after it, and one for each copy that stays on chip meanwhile."""
    blocks, copies, timed = schedule.decided.blocks, schedule.decided.copies, schedule.timed
    start, end, makespan = timed.start, timed.end, timed.makespan
    category = workload.storage_flags[schedule.expanded.block_storage, CATEGORY]
    there = blocks[:, r.DRAM_FROM] != r.NOT_YET
    came = np.full(len(blocks), makespan, np.int64)
    went = np.zeros(len(blocks), np.int64)
    first, last = blocks[there, r.DRAM_FROM], blocks[there, r.DRAM_TO]
    came[there] = np.where(first >= 0, start[first], 0)
    went[there] = np.where(last >= 0, end[last], makespan)
    rows = copies[copies[:, r.BLOCK] >= 0]
    first, last, owner = rows[:, r.FROM], rows[:, r.TO], rows[:, r.BLOCK]
    copied, dropped = np.where(first >= 0, start[first], 0), np.where(last >= 0, end[last], makespan)
    np.minimum.at(came, owner, copied)
    np.maximum.at(went, owner, dropped)
    mine = np.flatnonzero((category == ACTIVATIONS) & (went > came))
    found = np.stack((came[mine], went[mine], blocks[mine, r.SIZE], mine))
    if away:
        found = _without(found, np.stack((copied, dropped, blocks[owner, r.SIZE], owner)), away)
    return found[0], found[1], found[2], schedule.expanded.block_storage[found[3]]


def _without(found: Array, copies: Array, away: Away) -> Array:
    """Rows (came, went, bytes, block) with the time cut out that a block is away, save for its copies on chip."""
    out, back = (np.full(int(found[3].max(initial=0)) + 1, -1, np.int64) for _ in range(2))
    for block, (gone, again) in away.items():
        if again > gone:
            out[block], back[block] = gone, again
    left, again = out[found[3]], back[found[3]]
    holes = (left > found[0]) & (again < found[1])
    before, after = found.copy(), found[:, holes].copy()
    before[1, holes], after[0] = left[holes], again[holes]
    known = copies[3] < len(out)
    kept = copies[:, known & (out[np.where(known, copies[3], 0)] >= 0)].copy()
    kept[0], kept[1] = np.maximum(kept[0], out[kept[3]]), np.minimum(kept[1], back[kept[3]])
    return np.concatenate((before, after, kept[:, kept[1] > kept[0]]), axis=1)


def activation_peak(schedule: Schedule, workload: Workload, away: Away | None = None) -> ActivationPeak:
    """The peak over time of all activations together, without those that are ``away``."""
    came, went, size, _ = lifetimes(schedule, workload, away)
    time = np.concatenate((came, went))
    change = np.concatenate((size, -size))
    order = np.lexsort((change, time))  # at one moment what goes leaves before what comes
    level = np.cumsum(change[order])
    if not len(level):
        return ActivationPeak(0, 0, "")
    peak = int(np.argmax(level))
    at = int(time[order[peak]])
    return ActivationPeak(int(level[peak]), at, running_at(schedule, workload, at))


def running_at(schedule: Schedule, workload: Workload, ticks: int) -> str:
    """The operator that computes at a time, of several the one that began last; else the next to begin."""
    nodes, timed = schedule.decided.nodes, schedule.timed
    now = np.flatnonzero((timed.start <= ticks) & (timed.end > ticks))
    now = now[nodes[now, n.KIND] == n.COMPUTE]
    if len(now):
        chosen = now[np.argmax(timed.start[now])]
    else:
        later = np.flatnonzero(timed.start >= ticks)
        later = later[nodes[later, n.KIND] == n.COMPUTE]
        if not len(later):
            return ""
        chosen = later[np.argmin(timed.start[later])]
    return workload.operators[int(nodes[chosen, n.OPERATOR])].op.name
