"""Cores that work together, one by one: what each needs for its own piece, element by element, and what the gang of
them then books by the rule of ``docs/clusters.md``. The tables of the folded schedule have to say the same."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from monet.graph.loop_nest import Operand
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.engine import Scheduler
from monet.schedule.expansion.expand import PlannedSteps
from monet.schedule.expansion.operator_arrays import tick_parts
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.records import HOLD_READ, HOLD_WRITE, KEEP_WRITE, STREAM_READ, STREAM_WRITE

Ranges = dict[str, range]
Box = tuple[frozenset[int], ...]  # positions along every axis of an operand


@dataclass
class Booked:
    """Bytes of one storage in one step: once over shared wires, over those of the core with most, over all."""

    bytes: int = 0
    own: int = 0
    every: int = 0

    def add(self, pieces: list[tuple[Box | None, int]]) -> None:
        """An operand, of which every core wants a box (None: one that is not another's) of so many bytes."""
        alone = sum(size for box, size in pieces if box is None)
        same: dict[Box, int] = {}
        for box, size in pieces:
            if box is not None:
                same[box] = max(size, same.get(box, 0))
        self.bytes += alone + sum(same.values())
        self.own += max(size for _, size in pieces)
        self.every += sum(size for _, size in pieces)


@dataclass
class OneByOne:
    """Compares every operator of cores that work together; ``compared`` counts operands."""

    scheduler: Scheduler
    schedule: Schedule
    compared: int = 0

    def check(self) -> int:
        """Raise if a table of the folded schedule is not what the cores need one by one."""
        for stepped in self.schedule.expanded.operators:
            if stepped.instances[0].name in self.scheduler.machine.cluster_of:
                self._check(stepped)
        return self.compared

    def _check(self, stepped: PlannedSteps) -> None:
        for tile in range(stepped.steps.tiles):
            members = [self._ranges(stepped, tile, piece) for piece in range(stepped.steps.pieces)]
            costs = [self._cost(stepped, tile, piece) for piece in range(stepped.steps.pieces)]
            self._check_ticks(stepped, tile, costs)
            summing = (stepped.operator.tileable - stepped.operator.splittable) & stepped.steps.ranges.keys()
            if not stepped.sums and not summing:  # such tiles read again what others have summed up
                self._check_bytes(stepped, tile, members, costs)

    def _ranges(self, stepped: PlannedSteps, tile: int, piece: int) -> Ranges:
        """What one core has of every dimension."""
        number = tile * stepped.steps.pieces + piece
        found = {dim: range(size) for dim, size in stepped.operator.nest.dims}
        for dim, (low, high) in stepped.steps.ranges.items():
            found[dim] = range(int(low[number]), int(high[number]))
        return found

    def _cost(self, stepped: PlannedSteps, tile: int, piece: int) -> StepCost | None:
        """What the step of one core costs on it; None if it has nothing to do."""
        if not all(self._ranges(stepped, tile, piece).values()):
            return None
        plan, table = self.schedule.plan, self.scheduler.costs
        goal = table.goal_of(stepped.operator, plan, stepped.held)
        number = tile * stepped.steps.pieces + piece
        core = self.scheduler.machine.accelerator.instance(stepped.placement.cores[piece])
        return table.cost(stepped.operator, stepped.steps, number, core, stepped.held, plan.share, goal)

    def _check_ticks(self, stepped: PlannedSteps, tile: int, costs: list[StepCost | None]) -> None:
        """All start together, and the gang is done with the core that takes longest."""
        machine = self.scheduler.machine
        each = [
            tick_parts([cost], machine.accelerator.instance(core), machine)[0] if cost else np.zeros(4, np.int64)
            for cost, core in zip(costs, stepped.placement.cores, strict=True)
        ]
        longest = max(each, key=lambda parts: int(parts.sum()))
        booked = self.schedule.expanded.parts.plain[stepped.base + tile]
        assert booked[:3].tolist() == longest[:3].tolist()
        assert booked[3] >= longest[3] or stepped.held  # a launch or a change of mode comes on top

    def _check_bytes(
        self, stepped: PlannedSteps, tile: int, members: list[Ranges], costs: list[StepCost | None]
    ) -> None:
        expected: dict[str, Booked] = {}
        for position, (operand, tensor) in enumerate(stepped.operator.operands):
            boxes = [None if operand.written else box_of(operand, ranges) for ranges in members]
            sizes = [
                0
                if cost is None
                else region_bytes(operand, ranges)
                if stepped.held and not stepped.costs[0].operands[position].streams
                else cost.operands[position].bytes
                for cost, ranges in zip(costs, members, strict=True)
            ]
            expected.setdefault(tensor.storage, Booked()).add(list(zip(boxes, sizes, strict=True)))
        found = self._booked(stepped, tile)
        held = self._held(stepped, tile)
        for storage, booked in expected.items():
            what = (booked.bytes, booked.own, booked.every)
            if storage in held:  # blocks come whole, or lie there: only what all cores touch is counted
                assert (storage in found, held[storage]) == (False, booked.every)
            else:
                assert found[storage] == what, (stepped.operator.op.name, storage)
            self.compared += 1

    def _booked(self, stepped: PlannedSteps, tile: int) -> dict[str, tuple[int, int, int]]:
        """By storage, bytes that the step in the tables takes and gives."""
        found = dict[str, tuple[int, int, int]]()
        for storage, entry in self._entries(stepped, tile, (STREAM_READ, STREAM_WRITE, KEEP_WRITE)):
            before = found.get(storage, (0, 0, 0))
            found[storage] = before[0] + entry["bytes"], before[1] + entry["own"], before[2] + entry["every"]
        return found

    def _held(self, stepped: PlannedSteps, tile: int) -> dict[str, int]:
        """By storage whose blocks are held, bytes that all cores touch of it."""
        found = dict[str, int]()
        for storage, entry in self._entries(stepped, tile, (HOLD_READ, HOLD_WRITE)):
            found[storage] = found.get(storage, 0) + entry["every"]
        return found

    def _entries(
        self, stepped: PlannedSteps, tile: int, kinds: tuple[int, ...]
    ) -> Iterator[tuple[str, dict[str, int]]]:
        """Entries of some kinds that the step of a tile has in the tables, with their storages."""
        expanded, names = self.schedule.expanded, tuple(self.scheduler.workload.storages)
        step = expanded.tables.steps[stepped.base + tile]
        for row in expanded.tables.entries[step["entry_start"] : step["entry_end"]]:
            if row["kind"] in kinds:
                values = {name: int(row[name]) for name in ("bytes", "own", "every")}
                yield names[expanded.block_storage[row["block"]]], values


def region_bytes(operand: Operand, ranges: Ranges) -> int:
    """Bytes of the smallest region of a tensor, without holes, that some iterations touch."""
    elements = 1
    for axis, length in zip(box_of(operand, ranges), operand.shape, strict=True):
        inside = [place for place in axis if 0 <= place < length]
        elements *= max(inside) + 1 - min(inside) if inside else 0
    return math.ceil(elements * operand.bits_per_element / 8)


def box_of(operand: Operand, ranges: Ranges) -> Box:
    """The positions that some iterations touch along every axis of an operand, by going through all of them."""
    found = []
    for index in operand.indices:
        names = [name for name, _ in index.terms]
        factors = [factor for _, factor in index.terms]
        points = product(*(ranges[name] for name in names))
        found.append(frozenset(index.offset + sum(map(operator.mul, factors, point)) for point in points))
    return tuple(found)
