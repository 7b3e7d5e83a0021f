"""Bytes in every memory over time, by category, from the times at which copies come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from monet.arrays import I64
from monet.hardware.ports import BOUNDLESS
from monet.schedule.machine import Machine
from monet.schedule.result_rows import CATEGORIES, MemoryTrace
from monet.schedule.schedule import Schedule, Stays
from monet.schedule.workload import WORKSPACE, Workload

MOST_POINTS = 4000


def traces(schedule: Schedule, machine: Machine, workload: Workload) -> tuple[MemoryTrace, ...]:
    """One trace per memory, DRAM first; those outside of the chip last, if something is transferred to stay there."""
    categories = np.array([storage.category for storage in workload.storages.values()])[schedule.expanded.block_storage]
    found, copies = list[MemoryTrace](), schedule.on_chip
    for dram, stays in zip(machine.accelerator.drams, schedule.in_drams(), strict=True):
        stays = stays._replace(went=np.maximum(stays.came, stays.went))
        found.append(_trace(dram.name, dram.capacity_bytes, stays, categories[stays.block], machine, workload))
    category = np.where(copies.block >= 0, categories[copies.block], WORKSPACE)
    networks = {endpoint.name for endpoint in machine.accelerator.endpoints if endpoint.kind == "network"}
    for number, memory in enumerate(machine.memories, 1):
        if number >= machine.first_outside and (memory.name in networks or not workload.has_transfers):
            continue
        here = copies.memory == number
        mine = Stays(*(column[here] for column in copies))
        size = 0 if memory.size_bytes == BOUNDLESS else memory.size_bytes
        trace = _trace(memory.name, size, mine, category[here], machine, workload)
        found += [trace if name == memory.name else replace(trace, name=name) for name in machine.like_memories(number)]
    return tuple(found)


def _trace(name: str, capacity: int, stays: Stays, category: I64, machine: Machine, workload: Workload) -> MemoryTrace:
    came, went = stays.came, stays.went
    time = np.unique(np.concatenate((np.zeros(1, np.int64), came, went)))
    table = np.zeros((len(CATEGORIES), len(time)), np.int64)
    np.add.at(table, (category, np.searchsorted(time, came)), stays.bytes)
    np.add.at(table, (category, np.searchsorted(time, went)), -stays.bytes)
    table = np.cumsum(table, axis=1)
    total = table.sum(axis=0)
    peak = int(np.argmax(total))
    arriving = stays.operator[came == time[peak]]
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
