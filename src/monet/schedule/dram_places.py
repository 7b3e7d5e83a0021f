"""Which storage lies where, if there are several DRAMs: where the cores that use it have it soonest, as long as there
is room at every moment.

What a byte in a place (``hardware.interleaving``) takes to and from a core's memory is the slowest of the DRAMs and
links on its way, and its part of the latency that every tile, half of that memory, waits for. Storages are taken by
how many operators touch them, most first, and each is put where its cores together take least for it, of the places
whose DRAMs have room besides those placed before, from the first operator that touches it to the last; for parameters,
states and inputs all the time. What fits nowhere is left in the place with most room; whether the DRAMs hold it is
seen from the schedule. Where one of them does not, as operators overlap in time, storages are placed again with as
much of it left free (``evaluation``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monet.arrays import F64, I64, F64x2
from monet.schedule.costs.cost_table import OperatorSteps
from monet.schedule.machine import Machine
from monet.schedule.result_rows import CATEGORIES
from monet.schedule.simulation.nodes import between
from monet.schedule.workload import Workload


def places_of_storages(workload: Workload, machine: Machine, planned: Sequence[OperatorSteps]) -> I64:
    """By number of a storage, its place; the last is for what has none of its own: sums that cores keep for
    themselves. ``planned``: the operators, and where they run."""
    accelerator, count = machine.accelerator, len(workload.storages)
    shares, ticks = np.array(accelerator.dram_places), _ticks_of_users(workload, machine, planned)
    capacity = np.array([dram.capacity_bytes for dram in accelerator.drams], np.float64)
    capacity -= np.array(machine.left_free or [0] * len(capacity))
    first, last, uses = _lives(workload)
    places, filled = np.zeros(count + 1, np.int64), np.zeros((len(capacity), max(1, len(workload.operators))))
    for storage in sorted(workload.storages.values(), key=lambda each: (-int(uses[each.number]), each.number)):
        number, size = storage.number, storage.tensor.bytes
        if storage.is_root and CATEGORIES[storage.category] in machine.resident:
            continue
        begin = 0 if storage.is_root else max(0, int(first[number]))
        end = filled.shape[1] if storage.is_root or storage.persistent else int(last[number]) + 1
        room = capacity - filled[:, begin:end].max(axis=1)
        spare = np.array([float(np.min(room[each > 0] / each[each > 0])) for each in shares])
        fits = np.flatnonzero(spare >= size)
        places[number] = fits[np.argmin(ticks[number, fits])] if len(fits) else np.argmax(spare)
        filled[:, begin:end] += (shares[places[number]] * size)[:, None]
    return places


def _lives(workload: Workload) -> tuple[I64, I64, I64]:
    """By storage: the first and the last operator that touches it, and how many do."""
    count = len(workload.storages)
    first, last, uses = np.full(count, -1), np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number, touched in enumerate(workload.touched):
        mine = np.unique(touched)
        first[mine] = np.where(first[mine] < 0, number, first[mine])
        last[mine], uses[mine] = number, uses[mine] + 1
    return first, last, uses


def _ticks_of_users(workload: Workload, machine: Machine, planned: Sequence[OperatorSteps]) -> F64x2:
    """By storage and place: ticks of a byte of it for all operators that touch it, each of whose cores takes an equal
    part."""
    ticks, index = _ticks_per_byte(machine), machine.memory_index
    found, known = np.zeros((len(workload.storages), len(ticks))), dict[tuple[str, ...], F64]()
    for steps in planned:
        cores = steps.placement.cores
        if cores not in known:
            mine = [index[name] for instance in steps.instances for _, name in instance.memories[:1]]
            known[cores] = ticks[:, mine].mean(axis=1) if mine else np.zeros(len(ticks))
        found[np.unique(workload.touched[steps.operator.number])] += known[cores]
    return found


def _ticks_per_byte(machine: Machine) -> F64x2:
    """By place and memory: ticks of a byte on its way there and back."""
    routes, memories, drams = machine.routes, len(machine.capacity), machine.accelerator.drams
    achieved = np.array([dram.achievable for dram in drams])
    found = np.zeros((routes.places, memories))
    for place in range(routes.places):
        for memory in range(1, memories):
            for source, target in ((0, memory), (memory, 0)):
                pair = between(source, target, memories, place)
                slots = slice(routes.pointer[pair], routes.pointer[pair + 1])
                resource, pace = routes.resource[slots], routes.ticks_per_byte[slots]
                at_dram = resource >= routes.dram
                where = np.where(at_dram, resource - routes.dram, 0)
                pace = np.where(at_dram, pace * routes.share[slots] / achieved[where], pace)
                tile = max(1, min(int(machine.capacity[memory]), 2**40) // 2)
                found[place, memory] += pace.max(initial=0.0) + routes.latency[pair] / tile
    return found
