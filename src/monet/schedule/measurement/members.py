"""What each core does of a schedule, where cores that work together are one in it (``schedule.clusters``): every piece
takes its own time, within that of the longest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monet.arrays import I64, I64x2
from monet.processes import free_memory_bytes
from monet.schedule.expansion.expand import PlannedSteps, too_large
from monet.schedule.expansion.operator_arrays import tick_parts
from monet.schedule.machine import Machine
from monet.schedule.schedule import Occupied, Schedule

EVENT_BYTES = 100  # of a timeline, while it is made


@dataclass(frozen=True)
class Members:
    """By core of the accelerator, then by port: ``parts``, ticks by use, and how many tiles and operators there are.
    ``busy``: by step, ticks of all cores together. ``pieces``: by step of cores that work together, their numbers and
    the ticks of each."""

    parts: I64x2
    tiles: I64
    operators: I64
    busy: I64
    pieces: dict[int, tuple[I64, I64]]

    @classmethod
    def of(cls, schedule: Schedule, machine: Machine) -> Members:
        """Of a whole schedule, counted once."""
        found = schedule.analyses.get(cls)
        if found is None:
            found = schedule.analyses[cls] = _Counting(schedule, machine).members()
        assert isinstance(found, Members)
        return found


class _Counting:
    def __init__(self, schedule: Schedule, machine: Machine) -> None:
        self.schedule, self.machine = schedule, machine
        self.steps, self.parts = schedule.expanded.tables.steps, schedule.expanded.parts.plain
        self.busy = self.parts.sum(axis=1)
        self.index = machine.unfolded_index
        self.known: dict[tuple[int, bytes], tuple[I64x2, I64x2]] = {}

    def members(self) -> Members:
        count = len(self.index)
        parts, tiles, operators = np.zeros((count, 4), np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
        alone = np.ones(len(self.steps), bool)
        pieces: dict[int, tuple[I64, I64]] = {}
        for stepped in self.schedule.expanded.operators if self.machine.clusters else ():
            if stepped.instances[0].name not in self.machine.cluster_of:
                continue
            cores, tiled = self.machine.crew(stepped.placement.cores).numbers, stepped.steps.tiles
            by_piece, ticks = self.of_pieces(stepped)
            alone[stepped.base : stepped.base + tiled] = False
            parts[cores] += by_piece
            tiles[cores] += tiled
            operators[cores] += 1
            for tile in range(tiled):
                pieces[stepped.base + tile] = cores, ticks[tile]
            self.busy[stepped.base : stepped.base + tiled] = ticks.sum(axis=1)
            if stepped.addition_costs:
                self.add(stepped, cores, parts, tiles, alone, pieces)
        owner = self.first[self.steps.core]
        np.add.at(parts, owner[alone], self.parts[alone])
        np.add.at(tiles, owner[alone], 1)
        pairs = np.unique(owner[alone] * (1 + self.steps.operator.max(initial=0)) + self.steps.operator[alone])
        np.add.at(operators, pairs // (1 + self.steps.operator.max(initial=0)), 1)
        return Members(parts, tiles, operators, self.busy, pieces)

    @cached_property
    def first(self) -> I64:
        """By core of the schedule, its number in the accelerator."""
        return np.array([self.index[core.name] for core in self.machine.cores], np.int64)

    def of_pieces(self, stepped: PlannedSteps) -> tuple[I64x2, I64x2]:
        """Ticks by use of every piece, all tiles together; and all ticks by tile and piece."""
        steps, tiled = stepped.steps, stepped.steps.tiles
        final = self.parts[stepped.base : stepped.base + tiled]
        key = id(stepped.costed), final[:, 3].tobytes()
        if key not in self.known:
            table = tick_parts(stepped.costs, stepped.instances[0], self.machine)
            each = table[stepped.classes.reshape(tiled, steps.pieces)]
            total = each.sum(axis=2)
            longest = each[np.arange(tiled), np.argmax(total, axis=1)]
            more = final[:, 3] - longest[:, 3]  # launches and changes of mode; what was set up stays
            each[:, :, 3] = np.where(total > 0, np.maximum(0, each[:, :, 3] + more[:, None]), 0)
            self.known[key] = each.sum(axis=0), each.sum(axis=2)
        return self.known[key]

    def add(
        self,
        stepped: PlannedSteps,
        cores: I64,
        parts: I64x2,
        tiles: I64,
        alone: I64,
        pieces: dict[int, tuple[I64, I64]],
    ) -> None:
        """Count the steps that add up sums: cores that do have an equal part of them."""
        first, adding = stepped.base + stepped.steps.tiles, stepped.addition_costs
        many = len({piece for piece, _ in adding})
        for number, step in enumerate(range(first, first + len(adding) // many)):
            mine = cores[[piece for piece, _ in adding[number * many : (number + 1) * many]]]
            parts[mine] += self.parts[step]
            tiles[mine] += 1
            ticks = int(self.parts[step].sum())
            pieces[step], self.busy[step], alone[step] = (mine, np.full(many, ticks)), many * ticks, False


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
    steps = schedule.decided.events.nodes.step[schedule.events[owner[is_core]]].tolist()
    pieces = [members.pieces[number] for number in steps]
    many = spread.copy()
    many[is_core] = [len(cores) for cores, _ in pieces]
    _check_room(int(many.sum()), schedule, machine)
    row = np.repeat(np.arange(len(many)), many)
    within = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    where, took = place[resource][row] + within, ticks[row]
    if pieces:
        mine = is_core[row]
        where[mine] = np.concatenate([cores for cores, _ in pieces])
        took[mine] = np.concatenate([taken for _, taken in pieces])
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
