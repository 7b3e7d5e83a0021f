"""What each core does of a schedule, where cores that work together are one in it (``schedule.clusters``): every piece
takes its own time, within that of the longest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monet.arrays import I64, I64x2
from monet.processes import free_memory_bytes
from monet.schedule.expansion.expand import Alike, PlannedSteps, too_large
from monet.schedule.expansion.operator_arrays import tick_parts
from monet.schedule.machine import Machine
from monet.schedule.schedule import Occupied, Schedule

EVENT_BYTES = 100  # of a timeline, while it is made


@dataclass(frozen=True)
class Members:
    """By core of the accelerator, then by port: ``parts``, ticks by use, and how many tiles and operators there are.
    ``busy``: by step, ticks of all cores together. ``crew``: by step of cores that work together, its number in
    ``pieces``, where their numbers and the ticks of each are; -1 for others."""

    parts: I64x2
    tiles: I64
    operators: I64
    busy: I64
    crew: I64
    pieces: tuple[tuple[I64, I64], ...]

    def of_steps(self, steps: I64) -> tuple[I64, I64, I64]:
        """How many cores run each of some steps that cores work together on; the numbers of all of these, step by
        step, and the ticks of each."""
        if not len(steps):
            return steps, steps, steps
        sizes = np.array([len(cores) for cores, _ in self.pieces], np.int64)
        cores, ticks = (np.concatenate(column) for column in zip(*self.pieces, strict=True))
        mine = self.crew[steps]
        many = sizes[mine]
        first = (np.cumsum(sizes) - sizes)[mine] - (np.cumsum(many) - many)
        where = np.arange(many.sum()) + np.repeat(first, many)
        return many, cores[where], ticks[where]

    @classmethod
    def of(cls, schedule: Schedule, machine: Machine) -> Members:
        """Of a whole schedule, counted once."""
        found = schedule.analyses.get(cls)
        if found is None:
            found = schedule.analyses[cls] = _Counting(schedule, machine).members()
        assert isinstance(found, Members)
        return found


class _Counting:
    """Adds up operators that are alike at once."""

    def __init__(self, schedule: Schedule, machine: Machine) -> None:
        self.schedule, self.machine = schedule, machine
        self.steps, self.parts = schedule.expanded.tables.steps, schedule.expanded.parts.plain
        self.index, count = machine.unfolded_index, len(machine.unfolded_index)
        self.by_core = np.zeros((count, 4), np.int64)
        self.tiles, self.operators = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.busy, self.crew = self.parts.sum(axis=1), np.full(len(self.steps), -1, np.int64)
        self.pieces: list[tuple[I64, I64]] = []

    def members(self) -> Members:
        for alike in self.schedule.expanded.alike if self.machine.clusters else ():
            if alike.first.instances[0].name in self.machine.cluster_of:
                self.add(alike)
        alone, owner = self.crew < 0, self.first[self.steps.core]
        times = self.schedule.times
        np.add.at(self.by_core, owner[alone], self.parts[alone] * times[self.steps.operator[alone], None])
        np.add.at(self.tiles, owner[alone], times[self.steps.operator[alone]])
        pairs = np.unique(owner[alone] * (1 + self.steps.operator.max(initial=0)) + self.steps.operator[alone])
        core, operator = np.divmod(pairs, 1 + self.steps.operator.max(initial=0))
        np.add.at(self.operators, core, times[operator])
        return Members(self.by_core, self.tiles, self.operators, self.busy, self.crew, tuple(self.pieces))

    @cached_property
    def first(self) -> I64:
        """By core of the schedule, its number in the accelerator."""
        return np.array([self.index[core.name] for core in self.machine.cores], np.int64)

    def add(self, alike: Alike) -> None:
        """Count operators that are alike; they may differ in what is set up for them."""
        cores, tiled = self.machine.crew(alike.first.placement.cores).numbers, alike.first.steps.tiles
        steps = alike.base[:, None] + np.arange(tiled)
        for mine in _equal_rows(self.parts[steps, 3]):
            by_piece, ticks = self.of_pieces(alike.first, self.parts[steps[mine[0]], 3])
            times = int(self.schedule.times[alike.number[mine]].sum())
            self.by_core[cores] += times * by_piece
            self.tiles[cores] += times * tiled
            self.operators[cores] += times
            self.busy[steps[mine]] = ticks.sum(axis=1)
            self.crew[steps[mine]] = len(self.pieces) + np.arange(tiled)
            self.pieces += [(cores, taken) for taken in ticks]
        if alike.first.addition_costs:
            self.add_sums(alike, cores)

    def of_pieces(self, stepped: PlannedSteps, setting_up: I64) -> tuple[I64x2, I64x2]:
        """Ticks by use of every piece, all tiles together; and all ticks by tile and piece."""
        steps, tiled = stepped.steps, stepped.steps.tiles
        table = tick_parts(stepped.costs, stepped.instances[0], self.machine)
        each = table[stepped.classes.reshape(tiled, steps.pieces)]
        total = each.sum(axis=2)
        longest = each[np.arange(tiled), np.argmax(total, axis=1)]
        more = setting_up - longest[:, 3]  # launches and changes of mode; what was set up stays
        each[:, :, 3] = np.where(total > 0, np.maximum(0, each[:, :, 3] + more[:, None]), 0)
        return each.sum(axis=0), each.sum(axis=2)

    def add_sums(self, alike: Alike, cores: I64) -> None:
        """Count the steps that add up sums: cores that do have an equal part of them."""
        adding = alike.first.addition_costs
        many = len({piece for piece, _ in adding})
        for number in range(len(adding) // many):
            steps = alike.base + alike.first.steps.tiles + number
            mine = cores[[piece for piece, _ in adding[number * many : (number + 1) * many]]]
            times = self.schedule.times[alike.number]
            self.by_core[mine] += times @ self.parts[steps]
            self.tiles[mine] += times.sum()
            ticks = self.parts[steps].sum(axis=1)
            self.busy[steps] = many * ticks
            for like in _equal_rows(ticks[:, None]):
                self.crew[steps[like]] = len(self.pieces)
                self.pieces.append((mine, np.full(many, ticks[like[0]])))


def _equal_rows(rows: I64x2) -> list[I64]:
    """Numbers of rows that are equal, together."""
    if (rows == rows[0]).all():
        return [np.arange(len(rows))]
    which = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(which == number) for number in range(int(which.max()) + 1)]


class Unfolded(NamedTuple):
    """What is occupied, and for how long; resources are those of ``Machine.unfolded_resources``."""

    start: I64  # ticks
    ticks: I64
    resource: I64
    operator: I64
    kind: I64


def unfolded(booked: Occupied, schedule: Schedule, machine: Machine, members: Members) -> Unfolded:
    """What is occupied, with every core of a cluster, its wires and its ports. Raises ``ComputerMemoryError`` where
    that is more than there is room for."""
    real = booked.ticks > 0
    owner, resource, ticks = booked.owner[real], booked.resource[real], booked.ticks[real]
    start, operator, kind = booked.start[real], booked.operator[real], booked.kind[real]
    if not machine.clusters:
        return Unfolded(start, ticks, resource, operator, kind)
    spread, place = machine.spread[resource], machine.unfolded_resources[1]
    is_core = (spread > 1) & (resource < len(machine.cores))
    of_steps, cores, taken = members.of_steps(schedule.decided.events.nodes.step[schedule.events[owner[is_core]]])
    many = spread.copy()
    many[is_core] = of_steps
    _check_room(int((many * schedule.times[operator]).sum()), schedule, machine)
    row = np.repeat(np.arange(len(many)), many)
    within = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    where, took = place[resource][row] + within, ticks[row]
    if len(cores):
        mine = is_core[row]
        where[mine], took[mine] = cores, taken
        if not took.all():  # cores that have nothing of an operator
            some = took > 0
            row, where, took = row[some], where[some], took[some]
    return Unfolded(start[row], took, where, operator[row], kind[row])


def _check_room(events: int, schedule: Schedule, machine: Machine) -> None:
    """Refuse a timeline that this computer has no memory for, before it is made."""
    needed, free = events * EVENT_BYTES, free_memory_bytes()
    if free is not None and needed > free:
        cores = sum(len(cluster.cores) for cluster in machine.clusters)
        found = f"its timeline has {events:,} events of {cores:,} cores that work together"
        raise too_large(schedule.expanded.draft.workload, machine, needed, found)
