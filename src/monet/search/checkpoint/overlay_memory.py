"""Activation memory of a schedule over time: every block once, from when it comes to be until nothing needs it.

A block counts wherever it lies, in DRAM, on chip or both: this is what the step needs in all, and what a checkpoint
plan lowers. It is not the fill of any one memory, which the ``Result`` of a schedule has level by level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monet.arrays import I64
from monet.schedule.schedule import Schedule
from monet.schedule.workload import ACTIVATIONS, CATEGORY, Workload


@dataclass(frozen=True, slots=True)
class ActivationPeak:
    """Most bytes of activations at one time, and the operator that then runs."""

    bytes: int
    time_ticks: int
    operator: str


def lifetimes(schedule: Schedule, workload: Workload) -> tuple[I64, I64, I64, I64]:
    """(came, went, bytes, storage number) of every activation block, in ticks. What lies outside of the chip, on a
    host, does not count."""
    category = workload.storage_flags[schedule.expanded.block_storage, CATEGORY]
    sizes, stays, copies = schedule.expanded.tables.blocks.bytes, schedule.in_dram, schedule.on_chip
    came = np.full(len(sizes), schedule.makespan, np.int64)
    went = np.zeros(len(sizes), np.int64)
    came[stays.block], went[stays.block] = stays.came, stays.went
    held = (copies.block >= 0) & (copies.memory < schedule.expanded.draft.machine.first_outside)
    owner, copied, dropped = copies.block[held], copies.came[held], copies.went[held]
    np.minimum.at(came, owner, copied)
    np.maximum.at(went, owner, dropped)
    mine = np.flatnonzero((category == ACTIVATIONS) & (went > came))
    return came[mine], went[mine], sizes[mine], schedule.expanded.block_storage[mine]


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
    tiles = schedule.tiles
    now = np.flatnonzero((tiles.start <= ticks) & (tiles.end > ticks))
    later = np.flatnonzero(tiles.start >= ticks)
    if len(now):
        chosen = now[np.argmax(tiles.start[now])]
    elif len(later):
        chosen = later[np.argmin(tiles.start[later])]
    else:
        return ""
    return workload.operators[int(tiles.operator[chosen])].op.name
