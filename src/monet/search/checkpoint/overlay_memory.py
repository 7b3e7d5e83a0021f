"""Activation memory of a schedule over time: every block once, from when it comes to be until nothing needs it.

A block counts wherever it lies, in DRAM, on chip or both: this is what the step needs in all, and what a checkpoint
plan lowers. It is not the fill of any one memory, which the ``Result`` of a schedule has level by level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monet.arrays import I64, I64x2
from monet.schedule.schedule import Schedule
from monet.schedule.workload import ACTIVATIONS, CATEGORY, Workload

Away = Mapping[int, tuple[int, int]]  # block → ticks at which it has left, at which it comes back


@dataclass(frozen=True, slots=True)
class ActivationPeak:
    """Most bytes of activations at one time, and the operator that then runs."""

    bytes: int
    time_ticks: int
    operator: str


def lifetimes(schedule: Schedule, workload: Workload, away: Away | None = None) -> tuple[I64, I64, I64, I64]:
    """(came, went, bytes, storage number) of every activation block, in ticks. A block that is ``away`` for a while has
    a row before and a row after it, and one for each copy that stays on chip meanwhile."""
    category = workload.storage_flags[schedule.expanded.block_storage, CATEGORY]
    sizes, stays, copies = schedule.expanded.tables.blocks.bytes, schedule.in_dram, schedule.on_chip
    came = np.full(len(sizes), schedule.makespan, np.int64)
    went = np.zeros(len(sizes), np.int64)
    came[stays.block], went[stays.block] = stays.came, stays.went
    held = copies.block >= 0
    owner, copied, dropped = copies.block[held], copies.came[held], copies.went[held]
    np.minimum.at(came, owner, copied)
    np.maximum.at(went, owner, dropped)
    mine = np.flatnonzero((category == ACTIVATIONS) & (went > came))
    found = np.stack((came[mine], went[mine], sizes[mine], mine))
    if away:
        found = _without(found, np.stack((copied, dropped, sizes[owner], owner)), away)
    return found[0], found[1], found[2], schedule.expanded.block_storage[found[3]]


def _without(found: I64x2, copies: I64x2, away: Away) -> I64x2:
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
