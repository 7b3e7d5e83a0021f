"""Bytes in every memory over time, by category, from the times at which copies come and go."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.schedule.engine import Schedule
from monet.schedule.machine import Machine
from monet.schedule.result_rows import CATEGORIES, MemoryTrace
from monet.schedule.simulation import nodes as n
from monet.schedule.simulation import residency as r
from monet.schedule.workload import WORKSPACE, Workload

Array = np.ndarray[Any, Any]
MOST_POINTS = 4000


def traces(schedule: Schedule, machine: Machine, workload: Workload) -> tuple[MemoryTrace, ...]:
    """One trace per memory, DRAM first."""
    category = np.array([one.category for one in workload.storages.values()])[schedule.expanded.block_storage]
    found = [_dram(schedule, machine, workload, category)]
    copies, start, end = schedule.decided.copies, schedule.timed.start, schedule.timed.end
    came = start[copies[:, r.FROM]] * (copies[:, r.FROM] >= 0)
    went = np.where(copies[:, r.TO] >= 0, end[copies[:, r.TO]], schedule.timed.makespan)
    kind = np.where(copies[:, r.BLOCK] >= 0, category[copies[:, r.BLOCK]], WORKSPACE)
    operator = schedule.decided.nodes[copies[:, r.FROM], n.OPERATOR]
    for number, memory in enumerate(machine.accelerator.memories, 1):
        here = copies[:, r.MEMORY] == number
        found.append(
            _trace(
                memory.name, memory.size_bytes, came[here], went[here], copies[here, r.BYTES_HERE], kind[here],
                operator[here], machine, workload,
            )
        )  # fmt: skip
    return tuple(found)


def _dram(schedule: Schedule, machine: Machine, workload: Workload, category: Array) -> MemoryTrace:
    blocks, start, end = schedule.decided.blocks, schedule.timed.start, schedule.timed.end
    there = blocks[:, r.DRAM_FROM] != r.NOT_YET
    rows, kind = blocks[there], category[there]
    came = np.where(rows[:, r.DRAM_FROM] >= 0, start[rows[:, r.DRAM_FROM]], 0)
    went = np.where(rows[:, r.DRAM_TO] >= 0, end[rows[:, r.DRAM_TO]], schedule.timed.makespan)
    nodes = schedule.decided.nodes
    operator = np.where(rows[:, r.DRAM_FROM] >= 0, nodes[rows[:, r.DRAM_FROM], n.OPERATOR], -1)
    dram = machine.accelerator.drams[0]
    return _trace(
        dram.name, dram.capacity_bytes, came, np.maximum(came, went), rows[:, r.SIZE], kind, operator, machine, workload
    )


def _trace(
    name: str,
    capacity: int,
    came: Array,
    went: Array,
    size: Array,
    kind: Array,
    operator: Array,
    machine: Machine,
    workload: Workload,
) -> MemoryTrace:
    time = np.unique(np.concatenate((np.zeros(1, np.int64), came, went)))
    table = np.zeros((len(CATEGORIES), len(time)), np.int64)
    np.add.at(table, (kind, np.searchsorted(time, came)), size)
    np.add.at(table, (kind, np.searchsorted(time, went)), -size)
    table = np.cumsum(table, axis=1)
    total = table.sum(axis=0)
    peak = int(np.argmax(total))
    arriving = operator[came == time[peak]]
    arriving = arriving[arriving >= 0]
    at = workload.operators[int(arriving[0])].op.name if len(arriving) else ""
    peak_bytes, peak_time_s = int(total[peak]), int(time[peak]) / machine.ticks_per_second
    if len(time) > MOST_POINTS:
        keep = _thin(total, peak)
        time, table = time[keep], table[:, keep]
    return MemoryTrace(name, capacity, time, table, peak_bytes, peak_time_s, at)


def _thin(total: Array, peak: int) -> Array:
    """Of every run of moments the one with most bytes."""
    edges = np.unique(np.linspace(0, len(total), MOST_POINTS // 2 + 1).astype(np.int64))
    most = np.repeat(np.maximum.reduceat(total, edges[:-1]), np.diff(edges))
    full = np.flatnonzero(total == most)
    first = full[np.searchsorted(full, edges[:-1])]
    return np.unique(np.concatenate(([0, peak, len(total) - 1], first)))
