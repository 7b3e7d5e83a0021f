"""Bytes in every memory over time, by category, from the times at which copies come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from monet.arrays import I64
from monet.hardware.ports import BOUNDLESS
from monet.schedule.folding.repeated import Repeated
from monet.schedule.machine import Machine
from monet.schedule.result_rows import CATEGORIES, MemoryTrace
from monet.schedule.schedule import Schedule, Stays
from monet.schedule.workload import WORKSPACE, Workload

MOST_POINTS = 4000


def traces(schedule: Schedule, machine: Machine, workload: Workload) -> tuple[MemoryTrace, ...]:
    """One trace per memory, DRAM first; those outside of the chip last, if something is transferred to stay there."""
    storages = schedule.expanded.draft.workload.storages.values()
    categories = np.array([storage.category for storage in storages])[schedule.expanded.block_storage]
    found, copies = list[MemoryTrace](), schedule.on_chip
    for dram, stays in zip(machine.accelerator.drams, schedule.in_drams(), strict=True):
        late = stays.came > stays.went
        stays = stays._replace(
            went=np.maximum(stays.came, stays.went), leaving=np.where(late, stays.operator, stays.leaving)
        )
        changes = _changes(stays, categories[stays.block], schedule)
        found.append(_trace(dram.name, dram.capacity_bytes, *changes, machine, workload))
    category = np.where(copies.block >= 0, categories[copies.block], WORKSPACE)
    networks = {endpoint.name for endpoint in machine.accelerator.endpoints if endpoint.kind == "network"}
    for number, memory in enumerate(machine.memories, 1):
        if number >= machine.first_outside and (memory.name in networks or not workload.has_transfers):
            continue
        here = copies.memory == number
        mine = Stays(*(column[here] for column in copies))
        size = 0 if memory.size_bytes == BOUNDLESS else memory.size_bytes
        trace = _trace(memory.name, size, *_changes(mine, category[here], schedule), machine, workload)
        found += [trace if name == memory.name else replace(trace, name=name) for name in machine.like_memories(number)]
    return tuple(found)


class _Changes(NamedTuple):
    """Bytes that come to a memory, or go: when (ticks), of which category, and with which operator (-1: none)."""

    time: I64
    bytes: I64
    category: I64
    operator: I64


def _changes(stays: Stays, category: I64, schedule: Schedule) -> tuple[_Changes, _Changes]:
    """What comes, and what goes, of all layers."""
    came = _Changes(stays.came, stays.bytes, category, stays.operator)
    went = _Changes(stays.went, stays.bytes, category, stays.leaving)
    repeated = schedule.repeated
    if not repeated:
        return came, went
    storage = schedule.expanded.block_storage[stays.block]
    of_layer = (stays.block >= 0) & (repeated.short.storage_layer[storage] == repeated.short.before - 1)
    from_start = stays.operator < 0
    there = np.where(from_start, stays.bytes * np.where(of_layer, 1 + repeated.short.removed, 1), 0)
    first = _Changes(*(column[from_start] for column in came._replace(bytes=there)))
    came, went = _lengthened(came, repeated), _lengthened(went, repeated)
    came = _Changes(*(np.concatenate(pair) for pair in zip(first, came, strict=True)))
    if not (stays.leaving < 0).any():
        return came, went
    every = np.arange(len(CATEGORIES))  # what is left goes at the end
    left = np.bincount(came.category, came.bytes, len(every)) - np.bincount(went.category, went.bytes, len(every))
    last = _Changes(np.full(len(every), schedule.makespan), left.astype(np.int64), every, np.full(len(every), -1))
    return came, _Changes(*(np.concatenate(pair) for pair in zip(went, last, strict=True)))


def _lengthened(changes: _Changes, repeated: Repeated) -> _Changes:
    """Changes that operators make, of all layers."""
    mine = _Changes(*(column[changes.operator >= 0] for column in changes))
    row, operator, shift = repeated.each(mine.operator)
    return _Changes(mine.time[row] + shift, mine.bytes[row], mine.category[row], operator)


def _trace(
    name: str, capacity: int, came: _Changes, went: _Changes, machine: Machine, workload: Workload
) -> MemoryTrace:
    time = np.unique(np.concatenate((np.zeros(1, np.int64), came.time, went.time)))
    table = np.zeros((len(CATEGORIES), len(time)), np.int64)
    np.add.at(table, (came.category, np.searchsorted(time, came.time)), came.bytes)
    np.add.at(table, (went.category, np.searchsorted(time, went.time)), -went.bytes)
    table = np.cumsum(table, axis=1)
    total = table.sum(axis=0)
    peak = int(np.argmax(total))
    arriving = came.operator[came.time == time[peak]]
    arriving = arriving[arriving >= 0]
    at = workload.operators[int(arriving[0])].op.name if len(arriving) else ""
    peak_bytes, peak_time_s = int(total[peak]), int(time[peak]) / machine.ticks_per_second
    if len(time) > MOST_POINTS:
        keep = _thin(total, peak)
        time, table = time[keep], table[:, keep]
    return MemoryTrace(name, capacity, time, table, peak_bytes, peak_time_s, at)


def _thin(total: I64, peak: int) -> I64:
    """Of every run of moments the one with most bytes."""
    edges = np.unique(np.linspace(0, len(total), MOST_POINTS // 2 + 1).astype(np.int64))
    most = np.repeat(np.maximum.reduceat(total, edges[:-1]), np.diff(edges))
    full = np.flatnonzero(total == most)
    first = full[np.searchsorted(full, edges[:-1])]
    return np.unique(np.concatenate(([0, peak, len(total) - 1], first)))
