"""Splits by what their pieces really fetch, where that is more than every operand once.

The clock that chooses a split (``splits.py``) counts every operand of a piece once. Where a piece is too large for its
core's memories some come again, and another split may be far better: one whose pieces keep an operand whole. So if the
chosen split takes longer than its array would, and operands come again, some others are mapped too, and the one that is
done first is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from monet.errors import MonetError
from monet.mapping.cost_store import CostStore
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.plan import Split
from monet.schedule.planning.pieces import (
    Cores,
    fetched_bytes,
    least_cycles,
    longest_piece,
    piece_cost,
    piece_cycles,
    pieces_of,
)
from monet.schedule.planning.splits import array_cycles, candidates
from monet.schedule.workload import Operator

AGAIN = 1.1  # a piece that fetches more than this many times its operands, and takes so much longer, is looked at
MOST_PAIRS = 4  # splits along two dimensions that are mapped, those with the smallest pieces
CLEARLY = 0.98  # another split is taken for at most this share of the time


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
        cost = piece_cost(operator, cores, split, table, share)
    except MonetError:
        return split  # whoever costs it says why
    fetched, once = fetched_bytes(cost), longest_piece(operator, split, table.store)[1]
    best = piece_cycles(operator, cores, split, cost, table)
    if fetched <= AGAIN * once or best <= AGAIN * array_cycles(operator, cores[0].core, split, table.store):
        return split
    for other in _others(operator, len(cores), split, table.store):
        try:
            if least_cycles(operator, cores, other, table) >= best * CLEARLY:
                continue
            cycles = piece_cycles(operator, cores, other, piece_cost(operator, cores, other, table, share), table)
        except MonetError:
            continue
        if cycles < best * CLEARLY:
            best, split = cycles, other
    return split


def _others(operator: Operator, cores: int, split: Split, store: CostStore) -> Iterator[Split]:
    """Other splits over as many cores as there are, as far as they go: all along one dimension that sums nothing up,
    and a few along two."""
    most = [way for way in candidates(operator, cores) if way and way != split and 2 * pieces_of(way) > cores]
    plain = [way for way in most if not any(dim in operator.summed for dim, _ in way)]
    yield from (way for way in plain if len(way) == 1)
    pairs = sorted((way for way in plain if len(way) > 1), key=lambda way: longest_piece(operator, way, store)[1])
    yield from pairs[:MOST_PAIRS]
