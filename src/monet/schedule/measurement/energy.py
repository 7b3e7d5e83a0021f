"""Joules of a schedule: mapper counts below the border, transfers above it, static power. Every breakdown adds up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.schedule.engine import Schedule, bookings_of
from monet.schedule.machine import Machine
from monet.schedule.simulation import nodes as n

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Energy:
    """Joules by what spends them. ``by_operator`` is by operator number; static energy is apart."""

    by_level: dict[str, float]
    by_core: dict[str, float]
    by_operator: Array
    by_link: Array  # by resource
    static: float

    @property
    def total(self) -> float:
        """All of it."""
        return math.fsum(self.by_level.values())


def energy_of(schedule: Schedule, machine: Machine, n_operators: int) -> Energy:
    """Energy of a schedule in all breakdowns."""
    by_level: dict[str, float] = {}
    by_core: dict[str, float] = {}
    by_operator = np.zeros(n_operators)
    for one in schedule.expanded.operators:
        total, levels, cores = one.costed.energy
        by_operator[one.operator.number] += total
        for level, joules in levels.items():
            by_level[level] = by_level.get(level, 0.0) + joules
        for core, joules in cores.items():
            by_core[core] = by_core.get(core, 0.0) + joules
        for cost in one.sums:
            by_operator[one.operator.number] += math.fsum(value for _, value in cost.energy_j)
            for level, value in cost.energy_j:
                _add(by_level, level, value)
                _add(by_core, one.instances[0].name, value)
    by_link = _transfers(schedule, machine, by_level, by_core, by_operator)
    static = machine.accelerator.static_power_w * schedule.timed.makespan / machine.ticks_per_second
    by_level["static"] = by_core["static"] = static
    return Energy(by_level, by_core, by_operator, by_link, static)


def _transfers(
    schedule: Schedule, machine: Machine, by_level: dict[str, float], by_core: dict[str, float], by_operator: Array
) -> Array:
    nodes, accelerator = schedule.decided.nodes, machine.accelerator
    dram, resources = accelerator.drams[0], len(machine.resource_names)
    moves = nodes[nodes[:, n.BYTES] > 0]
    size, kind = moves[:, n.BYTES].astype(float), moves[:, n.KIND]
    reads, writes = kind == n.READ, (kind == n.WRITE) | (kind == n.EVICT)
    joules = (
        8
        * moves[:, n.BURSTS]
        * np.where(reads, dram.read_energy_j_per_bit, np.where(writes, dram.write_energy_j_per_bit, 0.0))
    )
    _add(by_level, "dram", joules.sum())
    _add(by_core, "dram", joules.sum())
    operator, many = moves[:, n.OPERATOR], len(by_operator)
    by_operator += np.bincount(operator, joules, minlength=many)
    by_link = np.zeros(resources)
    by_link[machine.dram_resource] = joules.sum()
    per_link = machine.link_j_per_byte
    owner, rows = bookings_of(moves)
    resource = schedule.decided.bookings[rows, n.RESOURCE]
    joules = size[owner] * per_link[resource]
    by_link += np.bincount(resource, joules, minlength=resources)
    by_operator += np.bincount(operator[owner], joules, minlength=many)
    _add(by_level, "link", joules.sum())
    _add(by_core, "links", joules.sum())
    for side, read in ((n.TARGET, False), (n.SOURCE, True)):
        levels = [memory.level for memory in accelerator.memories]
        per_bit = [one.read_energy_j_per_bit if read else one.write_energy_j_per_bit for one in levels]
        price = 8 * np.array([0.0, *per_bit])  # DRAM is paid above
        where = np.maximum(moves[:, side], 0)
        joules = size * price[where] * (1 if read else moves[:, n.TARGETS])
        by_operator += np.bincount(operator, joules, minlength=many)
        for memory, spent in zip(accelerator.memories, np.bincount(where, joules, len(price))[1:], strict=True):
            if spent:
                _add(by_level, memory.level.name, spent)
                _add(by_core, memory.cores[0] if len(memory.cores) == 1 else memory.name, spent)
    return by_link


def _add(table: dict[str, float], name: str, joules: float) -> None:
    table[name] = table.get(name, 0.0) + float(joules)
