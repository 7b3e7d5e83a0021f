"""Layers that a schedule repeats to the tick: recognised in what was scheduled, residency and contention included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from monet.arrays import I64
from monet.schedule.workload import Operator

LEAST_TIMES = 3  # that operators come again before they are said to repeat
MOST_PERIODS = 6  # distances between equal operators that are looked at, the most frequent first
BLOCK = re.compile(r"(.*?\b\d+)(\.|$)")


class Repetition(NamedTuple):
    """``period`` operators from number ``first`` on (in execution order) come ``times`` times and do the same: the same
    time after ``ticks`` more, the same bytes between the same kinds of memory. ``operators``: all of them, also those
    of a layer at either end that is not whole."""

    first: int
    period: int
    operators: int
    ticks: int

    @property
    def times(self) -> int:
        """How often all of a period comes."""
        return self.operators // self.period


def repetitions(kind: I64, start: I64, figures: Sequence[I64]) -> tuple[Repetition, ...]:
    """Stretches that repeat, in order. By operator in execution order: ``kind``, equal where the same steps run on the
    same cores; ``start`` in ticks; ``figures`` that have to be equal too. A stretch is as long as it can be, longer
    ones are found first, and no operator is in two."""
    found: list[Repetition] = []
    every = [each for period in _periods(kind) for each in _runs(kind, start, figures, period)]
    for one in sorted(every, key=lambda each: -each.operators):
        if all(
            one.first >= other.first + other.operators or one.first + one.operators <= other.first for other in found
        ):
            found.append(one)
    return tuple(sorted(found))


def _periods(kind: I64) -> list[int]:
    """Distances between an operator and the next of its kind."""
    order = np.argsort(kind, kind="stable")
    apart = np.diff(order)[np.diff(kind[order]) == 0]
    return [period for period, _ in Counter(apart.tolist()).most_common(MOST_PERIODS) if period > 1]


def _runs(kind: I64, start: I64, figures: Sequence[I64], period: int) -> Iterator[Repetition]:
    """Stretches in which every operator does what the one a period before it did, always as much later."""
    later = start[period:] - start[:-period]
    same = kind[period:] == kind[:-period]
    for figure in figures:
        same &= figure[period:] == figure[:-period]
    new = np.diff(later, prepend=-1) != 0  # where it is not as much later as the operator before
    stretch = np.cumsum(~same | new)
    for number in np.flatnonzero(np.bincount(stretch[same]) >= (LEAST_TIMES - 1) * period).tolist():
        mine = np.flatnonzero(same & (stretch == number))
        yield Repetition(int(mine[0]), period, len(mine) + period, int(later[mine[-1]]))


def notes_of(repeated: Sequence[Repetition], operators: Sequence[Operator], ticks_per_second: float) -> tuple[str, ...]:
    """What repeats, in words; only layers that a model numbers, whole ones."""
    found = []
    for one in repeated:
        names = _blocks(one, operators)
        if len(names) >= LEAST_TIMES:
            phase = operators[one.first].op.phase.value
            found.append(
                f"{names[0]} to {names[-1]} repeat to the tick in {phase}: {len(names)} times {one.period} operators, "
                f"every {1e6 * one.ticks / ticks_per_second:,.1f} µs"
            )
    return tuple(found)


def _blocks(one: Repetition, operators: Sequence[Operator]) -> list[str]:
    """Numbered layers of a stretch, one for each time; without those at either end that are not whole. None if it has
    operators of something else in between: what begins behind the last layer as a layer does (a norm) is not of it."""
    end = one.first + one.operators
    names = [_block(operator) for operator in operators[one.first : end : one.period]]
    if names[-1] == "":
        names.pop()
    beside = {_block(operator) for operator in operators[max(0, one.first - one.period) : one.first]}
    beside |= {_block(operator) for operator in operators[end : end + one.period]}
    distinct = list(dict.fromkeys(names))
    if "" in distinct or len(distinct) < len(names):
        return []
    return [name for name in distinct if name not in beside]


def _block(operator: Operator) -> str:
    """The numbered layer that an operator is of; empty if there is none."""
    match = BLOCK.match(operator.op.layer)
    return match[1] if match else ""
