"""Lower bounds that stand beside every headline figure. Each holds for any schedule of the same plan, most for any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from monet.schedule.machine import Machine
from monet.schedule.measurement.energy_bound import energy_bound_j
from monet.schedule.result_rows import Bounds
from monet.schedule.schedule import Schedule
from monet.schedule.workload import Operator, Workload


def bounds_of(schedule: Schedule, machine: Machine, workload: Workload) -> Bounds:
    """Compute, compulsory traffic, longest chain of the plan's own durations, and what DRAM holds at the start."""
    bandwidth = machine.accelerator.dram.bandwidth_bytes_per_s
    floor = sum(storage.tensor.bytes for storage in workload.storages.values() if storage.is_root)
    compulsory = compulsory_bytes(schedule, workload)
    chain = schedule.longest_chain / machine.ticks_per_second
    bounds = Bounds(compute_bound_s(workload.operators, machine), compulsory / bandwidth, chain, floor)
    energy = energy_bound_j(workload.operators, machine.accelerator, compulsory, bounds.latency_s)
    return replace(bounds, energy_j=energy)


def compute_bound_s(operators: tuple[Operator, ...], machine: Machine) -> float:
    """Multiply-accumulates over the peak of all arrays that take their element types; vector work over all lanes."""
    cores = machine.accelerator.cores
    by_types: dict[frozenset[str], int] = {}
    for operator in operators:
        if operator.macs:
            key = frozenset(operand.dtype for operand in operator.nest.reads[:2])
            by_types[key] = by_types.get(key, 0) + operator.macs
    found = [0.0]
    for types, macs in by_types.items():
        peak = sum(
            max((i.core.peak_macs_per_s(rate) for rate in i.core.rates if frozenset(rate.inputs) == types), default=0.0)
            for i in cores
        )
        found.append(macs / peak if peak else 0.0)
    lanes = sum(
        i.core.lanes * i.core.clock_hz * max((rate.elements_per_cycle for rate in i.core.vector_rates), default=0.0)
        for i in cores
    )
    work = 0.0
    if lanes:
        cheapest: dict[str, float] = {}
        for i in cores:
            for name, cycles in i.core.functions if i.core.lanes else ():
                cheapest[name] = min(cycles, cheapest.get(name, cycles))
        work = sum(count * cheapest.get(name, 0.0) for operator in operators for name, count in operator.lane_work)
        found.append(work / lanes)
    return max(found)


def compulsory_bytes(schedule: Schedule, workload: Workload) -> float:
    """Bytes that must cross to and from DRAM at least once: what is there at the start, read; what stays, written."""
    storages, many = list(workload.storages.values()), len(workload.operators) + 1
    size = np.array([storage.tensor.elements * storage.tensor.bits_per_element / 8 for storage in storages])
    touched = schedule.touched
    cores = np.ones(many, np.int64)
    for stepped in schedule.expanded.operators:
        cores[stepped.operator.number] = len(stepped.instances)
    moved = np.where(touched.is_shared, touched.bytes / cores[touched.operator], touched.bytes)
    total = 0.0
    for chosen, counts in (
        (touched.is_read, [storage.is_root for storage in storages]),
        (touched.is_written, [storage.persistent for storage in storages]),
    ):
        # of every storage the operator that moves least of it
        key = touched.storage[chosen] * many + touched.operator[chosen]
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        totals = np.add.reduceat(moved[chosen][order], first) if len(first) else np.zeros(0)
        least = np.full(len(storages), np.inf)
        np.minimum.at(least, key[order][first] // many, totals)
        counted = np.array(counts, bool) & np.isfinite(least)
        total += float(np.minimum(least, size)[counted].sum())
    return total
