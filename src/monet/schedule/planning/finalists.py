"""Splits by what their pieces really fetch, where that is more than every operand once.

The clock that chooses a split (``splits.py``) counts every operand of a piece once. Where a piece is too large for its
core's memories some come again, and another split may be far better: one whose pieces keep an operand whole. So if the
chosen split takes longer than its array would, and operands come again, some others are mapped too, and the one that is
done first is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from monet.errors import MonetError
from monet.mapping.cost_store import CostStore, Section
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.expansion.geometry import StepRanges, make_steps, step_nest
from monet.schedule.plan import Split
from monet.schedule.planning.designs import Cores
from monet.schedule.planning.splits import array_cycles, candidates
from monet.schedule.workload import Operator

AGAIN = 1.1  # a piece that fetches more than this many times its operands, and takes so much longer, is looked at
MOST_PAIRS = 4  # splits along two dimensions that are mapped, those with the smallest pieces
CLEARLY = 0.98  # another split is taken for at most this share of the time
LONGEST = Section[tuple[StepRanges, int]]("longest pieces of splits", 10_000)


def final_split(operator: Operator, cores: Cores, split: Split, table: CostTable, share: float) -> Split:
    """``split``, or one that is done sooner once what its pieces fetch again is counted."""
    if not operator.is_matrix or len(cores) == 1:
        return split
    key = operator.key, split, len(cores), share
    if key not in table.final_splits:
        table.final_splits[key] = _final_split(operator, cores, split, table, share)
    return table.final_splits[key]


def _final_split(operator: Operator, cores: Cores, split: Split, table: CostTable, share: float) -> Split:
    try:
        cost = _piece_cost(operator, cores, split, table, share)
    except MonetError:
        return split  # whoever costs it says why
    fetched, once = _bytes(cost), _longest(operator, split, table.store)[1]
    best = _cycles(operator, cores, split, cost, table)
    if fetched <= AGAIN * once or best <= AGAIN * array_cycles(operator, cores[0].core, split, table.store):
        return split
    for other in _others(operator, len(cores), split, table.store):
        try:
            cycles = _cycles(operator, cores, other, _piece_cost(operator, cores, other, table, share), table)
        except MonetError:
            continue
        if cycles < best * CLEARLY:
            best, split = cycles, other
    return split


def _longest(operator: Operator, split: Split, store: CostStore) -> tuple[StepRanges, int]:
    """The pieces of a split, and the bytes of the operands of the longest."""

    def compute() -> tuple[StepRanges, int]:
        steps = make_steps(operator.nest, {}, split)
        return steps, sum(operand.bytes for operand in step_nest(operator.nest, steps, steps.longest).operands)

    return store[LONGEST].get_or((operator.key, split), compute)


def _piece_cost(operator: Operator, cores: Cores, split: Split, table: CostTable, share: float) -> StepCost:
    steps, _ = _longest(operator, split, table.store)
    return table.cost(operator, steps, steps.longest, cores[0], False, share)


def _others(operator: Operator, cores: int, split: Split, store: CostStore) -> Iterator[Split]:
    """Other splits over as many cores as there are, as far as they go: all along one dimension that sums nothing up,
    and a few along two."""
    most = [way for way in candidates(operator, cores) if way and way != split and 2 * _pieces(way) > cores]
    plain = [way for way in most if not any(dim in operator.summed for dim, _ in way)]
    yield from (way for way in plain if len(way) == 1)
    pairs = sorted((way for way in plain if len(way) > 1), key=lambda way: _longest(operator, way, store)[1])
    yield from pairs[:MOST_PAIRS]


def _pieces(split: Split) -> int:
    return math.prod(parts for _, parts in split)


def _bytes(cost: StepCost) -> int:
    return sum(operand.bytes + operand.spilled for operand in cost.operands)


def _cycles(operator: Operator, cores: Cores, split: Split, cost: StepCost, table: CostTable) -> float:
    """Cycles of the longest piece: on its core, over its own wires, and over those that all share, where what several
    pieces want passes once."""
    machine, pieces = table.machine, _pieces(split)
    supply = machine.supplying.supply(cores[0], operator.input_bytes + operator.output_bytes)
    alone = machine.supplying.border(cores[0], supply).bits_per_cycle
    shared = []
    for way in machine.supplying.channels(cores[0], supply):
        passing = 0
        for part, operand in zip(cost.operands, operator.nest.operands, strict=False):  # a bias is no part of the nest
            distinct = math.prod(parts for dim, parts in split if dim in operand.dims)
            passing += (part.bytes + part.spilled) * min(distinct, way.reached(pieces))
        shared.append(8 * passing / way.bits_per_cycle)
    return max(cost.cycles, 8 * _bytes(cost) / alone, *shared)
