"""The longest piece of an operator that is split over like cores: what it fetches, and how long it takes there."""

from __future__ import annotations

import math

from monet.hardware.accelerator import CoreInstance
from monet.mapping.cost_store import CostStore, Section
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.expansion.geometry import StepRanges, make_steps, step_nest
from monet.schedule.plan import Split
from monet.schedule.workload import Operator

Cores = tuple[CoreInstance, ...]  # like ones
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
    machine, pieces = table.machine, pieces_of(split)
    supply = machine.supplying.supply(cores[0], operator.input_bytes + operator.output_bytes)
    alone = machine.supplying.border(cores[0], supply).bits_per_cycle
    shared = []
    for way in machine.supplying.channels(cores[0], supply):
        passing = 0
        for part, operand in zip(cost.operands, operator.nest.operands, strict=False):  # a bias is no part of the nest
            distinct = math.prod(parts for dim, parts in split if dim in operand.dims)
            passing += (part.bytes + part.spilled) * min(distinct, way.reached(pieces))
        shared.append(8 * passing / way.bits_per_cycle)
    return max(cost.cycles, 8 * fetched_bytes(cost) / alone, *shared)


def pieces_of(split: Split) -> int:
    """How many there are."""
    return math.prod(parts for _, parts in split)
