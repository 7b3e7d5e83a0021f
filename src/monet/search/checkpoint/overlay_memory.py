"""Activation memory of a schedule over time: every block once, from when it comes to be until nothing needs it.

A block counts wherever it lies, in DRAM, on chip or both: this is what the step needs in all, and what a checkpoint
plan lowers. It is not the fill of any one memory, which the ``Result`` of a schedule has level by level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.schedule import nodes as n
from monet.schedule import residency as r
from monet.schedule.engine import Schedule
from monet.schedule.workload import ACTIVATIONS, Workload

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ActivationPeak:
    """Most bytes of activations at one time, and the operator that then runs."""

    bytes: int
    time_ticks: int
    operator: str


def lifetimes(schedule: Schedule, workload: Workload) -> tuple[Array, Array, Array, Array]:
    """(came, went, bytes, storage number) of every activation block, in ticks."""
    blocks, copies, timed = schedule.decided.blocks, schedule.decided.copies, schedule.timed
    start, end, makespan = timed.start, timed.end, timed.makespan
    category = np.array([one.category for one in workload.storages.values()])[schedule.expanded.block_storage]
    there = blocks[:, r.DRAM_FROM] != r.NOT_YET
    came = np.full(len(blocks), makespan, np.int64)
    went = np.zeros(len(blocks), np.int64)
    first, last = blocks[there, r.DRAM_FROM], blocks[there, r.DRAM_TO]
    came[there] = np.where(first >= 0, start[first], 0)
    went[there] = np.where(last >= 0, end[last], makespan)
    rows = copies[copies[:, r.BLOCK] >= 0]
    first, last, owner = rows[:, r.FROM], rows[:, r.TO], rows[:, r.BLOCK]
    np.minimum.at(came, owner, np.where(first >= 0, start[first], 0))
    np.maximum.at(went, owner, np.where(last >= 0, end[last], makespan))
    mine = (category == ACTIVATIONS) & (went > came)
    return came[mine], went[mine], blocks[mine, r.SIZE], schedule.expanded.block_storage[mine]


def activation_peak(schedule: Schedule, workload: Workload) -> ActivationPeak:
    """The peak over time of all activations together."""
    came, went, size, _ = lifetimes(schedule, workload)
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
    compute = np.flatnonzero(nodes[:, n.KIND] == n.COMPUTE)
    begin, until = timed.start[compute], timed.end[compute]
    now = compute[(begin <= ticks) & (until > ticks)]
    if len(now):
        chosen = now[np.argmax(timed.start[now])]
    else:
        later = compute[begin >= ticks]
        if not len(later):
            return ""
        chosen = later[np.argmin(timed.start[later])]
    return workload.operators[int(nodes[chosen, n.OPERATOR])].op.name
