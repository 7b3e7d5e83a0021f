"""What a schedule of fewer layers says of all of them: which of its operators stand for which, and how much later those
do the same. Counts of nodes are multiplied (``times``), moments are shifted (``shift``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monet.arrays import I64, I64x2
from monet.schedule.folding.shortened import Shortened


class Each(NamedTuple):
    """All that some rows of a table stand for: the row, its operator, and how much later it is in ticks."""

    row: I64
    operator: I64
    shift: I64


@dataclass(frozen=True)
class Repeated:
    """``later``: by pass over the layers, by how many ticks each of those that are left out is later than the one
    before. Of all layers: ``makespan`` and ``longest_chain`` in ticks, and ``waits`` of every core."""

    short: Shortened
    later: I64
    makespan: int
    longest_chain: int
    waits: I64x2

    @property
    def times(self) -> I64:
        """By operator of the shortened network, how many it stands for."""
        return self.short.times

    @property
    def numbers(self) -> I64:
        """By operator of all layers, the number of the one that stands for it."""
        return self.short.lengthening.numbers

    @cached_property
    def shift(self) -> I64:
        """By operator of all layers, by how many ticks it is later than the one that stands for it."""
        found: I64 = self.short.lengthening.places @ self.later
        return found

    def each(self, operator: I64) -> Each:
        """What rows of some operators of the shortened network stand for."""
        first, whole = self.short.stood_for
        many = self.times[operator]
        row = np.repeat(np.arange(len(operator)), many)
        within = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
        number = whole[first[operator][row] + within]
        return Each(row, number, self.shift[number])

    def in_order(self, operator: I64, group: I64) -> tuple[I64, I64, I64]:
        """Of operators in the order in which they run, and their groups: the same of all layers, with the position of
        the one that stands for each."""
        row, number, _ = self.each(operator)
        place = self.short.lengthening.places.sum(axis=1)[number]
        order = np.lexsort((row, place, self.short.segment[operator[row]]))
        row, number, place = row[order], number[order], place[order]
        which, first, of = np.unique(group[row] * (1 + place.max()) + place, return_index=True, return_inverse=True)
        rank = np.empty(len(which), np.int64)
        rank[np.argsort(first)] = np.arange(len(which))
        return row, number, rank[of]
