"""The longest piece of an operator that is split over like cores: what it fetches, and how long it takes there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from monet.hardware.accelerator import CoreInstance
from monet.mapping.cost_store import CostStore, Section
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.expansion.geometry import StepRanges, make_steps, step_nest
from monet.schedule.lower_bound.traffic import distinct_bytes
from monet.schedule.plan import Split
from monet.schedule.planning.splits import array_cycles
from monet.schedule.workload import Operator

Cores = tuple[CoreInstance, ...]  # like ones
TOUCHED = Section[tuple[int, ...]]("bytes that longest pieces touch", 10_000)
LONGEST = Section[tuple[StepRanges, int]]("longest pieces of splits", 10_000)


def longest_piece(operator: Operator, split: Split, store: CostStore) -> tuple[StepRanges, int]:
    """The pieces of a split, and the bytes of the operands of the longest."""

    def compute() -> tuple[StepRanges, int]:
        steps = make_steps(operator.nest, {}, split)
        return steps, sum(operand.bytes for operand in step_nest(operator.nest, steps, steps.longest).operands)

    return store[LONGEST].get_or((operator.key, split), compute)


def piece_cost(operator: Operator, cores: Cores, split: Split, table: CostTable, share: float) -> StepCost:
    """What the longest piece costs on the first core."""
    steps, _ = longest_piece(operator, split, table.store)
    return table.cost(operator, steps, steps.longest, cores[0], False, share)


def fetched_bytes(cost: StepCost) -> int:
    """Bytes that pass for a piece, as often as they do."""
    return sum(operand.bytes + operand.spilled for operand in cost.operands)


def piece_cycles(operator: Operator, cores: Cores, split: Split, cost: StepCost, table: CostTable) -> float:
    """Cycles of the longest piece: on its core, over its own wires, and over those that all share, where what several
    pieces want passes once."""
    sizes = [part.bytes + part.spilled for part in cost.operands]
    return max(cost.cycles, _wire_cycles(operator, cores, split, sizes, table))


def least_cycles(operator: Operator, cores: Cores, split: Split, table: CostTable) -> float:
    """Cycles that ``piece_cycles`` says at least, whatever the mapping: of the array at its best unrolling, and of
    everything that the longest piece touches, once."""
    sizes = table.store[TOUCHED].get_or((operator.key, split), lambda: _touched(operator, split, table.store))
    array = array_cycles(operator, cores[0].core, split, table.store)
    return max(array, _wire_cycles(operator, cores, split, sizes, table))


def _touched(operator: Operator, split: Split, store: CostStore) -> tuple[int, ...]:
    steps, _ = longest_piece(operator, split, store)
    nest = step_nest(operator.nest, steps, steps.longest)
    return tuple(distinct_bytes(operand, nest) for operand in nest.operands)


def _wire_cycles(operator: Operator, cores: Cores, split: Split, sizes: Sequence[int], table: CostTable) -> float:
    """Cycles of so many bytes of every operand of the longest piece on the busiest wires."""
    machine, pieces = table.machine, pieces_of(split)
    supply = machine.supplying.supply(cores[0], operator.input_bytes + operator.output_bytes)
    slowest = 8 * sum(sizes) / machine.supplying.border(cores[0], supply).bits_per_cycle
    nest = operator.nest.operands  # a bias is no part of it
    parts = [math.prod(parts for dim, parts in split if dim in operand.dims) for operand in nest]
    for way in machine.supplying.channels(cores[0], supply):
        reached = way.reached(pieces)
        passing = sum(size * min(distinct, reached) for size, distinct in zip(sizes, parts, strict=False))
        slowest = max(slowest, 8 * passing / way.bits_per_cycle)
    return slowest


def pieces_of(split: Split) -> int:
    """How many there are."""
    return math.prod(parts for _, parts in split)
