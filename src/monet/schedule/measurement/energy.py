"""Joules of a schedule: mapper counts below the border, transfers above it, static power. Every breakdown adds up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, I64
from monet.mapping.cost_store import CostStore, Section
from monet.schedule.costs.cost_table import Costed
from monet.schedule.machine import Machine
from monet.schedule.measurement.members import Members
from monet.schedule.schedule import Schedule, Transfers

MOST_KNOWN = 1024  # steps of an operator whose joules are kept
STEP_JOULES = Section[tuple[float, Mapping[str, float], F64]]("joules of steps", 10_000)


@dataclass(frozen=True)
class Energy:
    """Joules by what spends them. ``by_operator`` is by operator number; static energy is apart."""

    by_level: dict[str, float]
    by_core: dict[str, float]
    by_operator: F64
    by_link: F64  # by resource
    static: float

    @property
    def total(self) -> float:
        """All of it."""
        return math.fsum(self.by_level.values())


def energy_of(schedule: Schedule, machine: Machine, n_operators: int) -> Energy:
    """Energy of a schedule in all breakdowns; ``by_operator`` is of those that were scheduled (``Schedule.times``)."""
    by_level, by_core, by_operator = _steps(schedule, machine, n_operators)
    clocked = clock_joules(schedule, machine)
    if clocked.any():
        steps = schedule.expanded.tables.steps
        by_operator += np.bincount(steps.operator, clocked, minlength=n_operators)
        by_level["clock"] = float((clocked * schedule.times[steps.operator]).sum())
        watts = dict(machine.accelerator.gated_clock_w)
        busy = Members.of(schedule, machine).parts.sum(axis=1).tolist()
        for instance, ticks in zip(machine.accelerator.cores, busy, strict=False):
            if ticks and watts.get(instance.template):
                _add(by_core, instance.name, ticks * watts[instance.template] / machine.ticks_per_second)
    by_link = _transfers(schedule, machine, by_level, by_core, by_operator)
    for endpoint in machine.accelerator.endpoints:
        by_link[machine.core_index[endpoint.name]] = by_core.get(endpoint.name, 0.0)
    static = machine.accelerator.static_power_w * schedule.makespan / machine.ticks_per_second
    by_level["static"] = by_core["static"] = static
    return Energy(by_level, by_core, by_operator, by_link, static)


def _steps(schedule: Schedule, machine: Machine, n_operators: int) -> tuple[dict[str, float], dict[str, float], F64]:
    """Joules of all steps at and below the cores' memories: by level, by core, by operator. Those of operators alike,
    which have the same costs (and additions) on the same cores, are counted once."""
    index = machine.unfolded_index
    spent, used, by_level = np.zeros(len(index)), np.zeros(len(index), bool), dict[str, float]()
    by_operator = np.zeros(n_operators)
    for first, _, numbers in schedule.expanded.alike:
        times = int(schedule.times[numbers].sum())
        total, levels, cores = _step_joules(first.costed, machine.store)
        mine = machine.crew(first.placement.cores).numbers
        spent[mine] += times * cores
        used[mine] = True
        for level, joules in levels.items():
            _add(by_level, level, times * joules)
        for piece, cost in first.addition_costs:
            total += math.fsum(value for _, value in cost.energy_j)
            for level, joules in cost.energy_j:
                _add(by_level, level, times * joules)
                spent[mine[piece]] += times * joules
        by_operator[numbers] = total
    names = tuple(index)
    return by_level, {names[number]: float(spent[number]) for number in np.flatnonzero(used).tolist()}, by_operator


def _step_joules(costed: Costed, store: CostStore) -> tuple[float, Mapping[str, float], F64]:
    """Joules of an operator's steps: in all, by level, by core; looked up for costs that were met before."""
    if len(costed.classes) > MOST_KNOWN:
        return costed.energy
    key = costed.classes.tobytes(), len(costed.instances), costed.costs
    return store[STEP_JOULES].get_or(key, lambda: costed.energy)


def clock_joules(schedule: Schedule, machine: Machine) -> F64:
    """Joules by step of the clock of cores that are clocked only while they are busy."""
    accelerator, expanded = machine.accelerator, schedule.expanded
    watts = dict(accelerator.gated_clock_w)
    per_tick = np.array([watts.get(instance.template, 0.0) for instance in machine.cores])
    if not per_tick.any():
        return np.zeros(len(expanded.tables.steps))
    ticks = Members.of(schedule, machine).busy
    joules: F64 = ticks * per_tick[expanded.tables.steps.core] / machine.ticks_per_second
    return joules


def _transfers(
    schedule: Schedule, machine: Machine, by_level: dict[str, float], by_core: dict[str, float], by_operator: F64
) -> F64:
    moves, resources = schedule.transfers, len(machine.resource_names)
    read_j, write_j = machine.dram_j_per_bit
    written = np.where(moves.to_dram, write_j[moves.place], 0.0)
    joules: F64 = np.where(moves.from_dram, read_j[moves.place], written) * (8 * moves.bursts)
    many, times = len(by_operator), schedule.times[moves.operator]
    _add(by_level, "dram", (joules * times).sum())
    _add(by_core, "dram", (joules * times).sum())
    by_operator += np.bincount(moves.operator, joules, minlength=many)
    by_link = np.zeros(resources)
    by_link[machine.dram_resource :] = _by_dram(moves, machine, times)
    booked = schedule.occupied(moves.node)
    joules = machine.link_j_per_byte[booked.resource] * booked.bytes
    by_operator += np.bincount(booked.operator, joules, minlength=many)
    joules = joules * schedule.times[booked.operator]
    by_link += np.bincount(booked.resource, joules, minlength=resources)
    _add(by_level, "link", joules.sum())
    _add(by_core, "links", joules.sum())
    levels = [memory.level for memory in machine.memories]
    for side, size, prices in (
        (moves.target, moves.arriving, [level.write_energy_j_per_bit for level in levels]),
        (moves.source, moves.bytes, [level.read_energy_j_per_bit for level in levels]),
    ):
        price = 8 * np.array([0.0, *prices])  # DRAM is paid above
        where = np.maximum(side, 0)
        joules = price[where] * size
        by_operator += np.bincount(moves.operator, joules, minlength=many)
        for memory, spent in zip(machine.memories, np.bincount(where, joules * times, len(price))[1:], strict=True):
            if spent:
                _add(by_level, memory.level.name, spent)
                if len(memory.cores) != 1:
                    _add(by_core, memory.name, spent)
                elif memory.cores[0] not in machine.cluster_of:
                    _add(by_core, memory.cores[0], spent)
                else:  # cores that work together have equal shares
                    like = machine.cluster_of[memory.cores[0]].cores
                    for core in like:
                        _add(by_core, core.name, spent / len(like))
    return by_link


def _by_dram(moves: Transfers, machine: Machine, times: I64) -> F64:
    """Joules of every DRAM; ``times``: how many each transfer stands for."""
    drams, places = machine.accelerator.drams, machine.accelerator.dram_places
    bits = [
        np.bincount(moves.place[mine], 8.0 * moves.bursts[mine] * times[mine], len(places)) @ np.array(places)
        for mine in (moves.from_dram, moves.to_dram)
    ]
    prices = [(dram.read_energy_j_per_bit, dram.write_energy_j_per_bit) for dram in drams]
    return np.asarray((np.array(bits).T * np.array(prices)).sum(axis=1), np.float64)


def _add(table: dict[str, float], name: str, joules: float) -> None:
    table[name] = table.get(name, 0.0) + float(joules)
