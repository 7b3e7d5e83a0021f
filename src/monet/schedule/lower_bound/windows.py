"""Bytes that pass DRAM at least in a part of a step, between the start of its first operator and the end of its last.

``in_order`` says what a whole step moves. Of a window, from a place where nothing behind it has begun to one where all
before it has ended, the same program says what has to pass in it: whatever its operators read that was not made in it
was in the memories when it began, or is read; what they make and is needed later, or stays, is in the memories when it
ends, or was written. Memories hold no more than they have at both ends, and at every place between. With any price of a
byte of memory at each of these places that gives a bound: a byte of every span costs the smaller of what it costs to
keep and what it costs to move, less what all memory is worth. Prices between the ends are those that prove the whole
step's bytes at some size of memory; at both ends a byte is worth a byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from monet.arrays import F64, I64, F64x2, F64x3
from monet.schedule.lower_bound.in_order import Prices, Solved, Span, solved
from monet.schedule.lower_bound.traffic import distinct_bytes
from monet.schedule.workload import Workload

MOST_WINDOWS = 120  # stretches of operators that windows begin and end with


@dataclass(frozen=True)
class Windows:
    """Bytes of windows by the stretches that they begin and end with, by line: with no memory, and fewer for every byte
    of memory. ``begins``: the first operator of each stretch."""

    begins: I64
    at_nothing: F64x3
    slope: F64x3

    @cached_property
    def _known(self) -> dict[int, F64x2]:
        return {}

    def over_size(self, capacity: int) -> F64x2:
        """Bytes between DRAM and memories of some size, at least, by first and last stretch of a window."""
        found = self._known.get(capacity)
        if found is None:
            lines = self.at_nothing - capacity * self.slope
            found = self._known[capacity] = np.maximum(0.0, lines.max(axis=0))
        return found


def windows_of(workload: Workload) -> Windows:
    """The windows of a graph, found once."""
    found = workload.planned.get("windows")
    if found is None:
        found = workload.planned["windows"] = (_windows(workload, solved(workload)),)
    known = found[0]
    assert isinstance(known, Windows)
    return known


def _windows(workload: Workload, program: Solved) -> Windows:
    blocks = len(program.places) + 1
    stretch = np.arange(blocks) * min(blocks, MOST_WINDOWS) // blocks  # of every operator between two places
    first = np.flatnonzero(np.diff(stretch, prepend=-1))
    outside = _outside(workload, program.places, stretch)
    free = Prices(np.zeros(len(program.places)), np.zeros(len(program.spans)))
    lines = [_line(program.spans, prices, stretch, outside) for prices in (free, *program.prices)]
    begins = np.concatenate(([0], program.places + 1))[first]
    return Windows(begins, np.stack([moved for moved, _ in lines]), np.stack([slope for _, slope in lines]))


def _outside(workload: Workload, places: I64, stretch: I64) -> F64:
    """By stretch: bytes that were there from the start and are read for the first time, and that stay and are written
    for the last time."""
    sizes = {name: storage.tensor.bytes for name, storage in workload.storages.items()}
    found = np.zeros(int(stretch[-1]) + 1)
    seen, stays, made = dict[str, int](), dict[str, tuple[int, int]](), set[str]()
    for operator in workload.operators:
        here = int(stretch[np.searchsorted(places, operator.number)])
        read, written = dict[str, int](), dict[str, int]()
        for operand, tensor in operator.operands:
            into = written if operand.written else read
            touched = min(distinct_bytes(operand, operator.nest), sizes[tensor.storage])
            into[tensor.storage] = max(into.get(tensor.storage, 0), touched)
        for name, size in read.items():
            if name not in made and workload.storages[name].is_root:
                found[here] += max(0, size - seen.get(name, 0))
                seen[name] = max(size, seen.get(name, 0))
        made |= written.keys()
        stays |= {name: (here, size) for name, size in written.items() if workload.storages[name].persistent}
    for here, size in stays.values():
        found[here] += size
    return found


def _line(spans: tuple[Span, ...], prices: Prices, stretch: I64, outside: F64) -> tuple[F64x2, F64x2]:
    """Bytes of all windows with no memory, and fewer for every byte of it, as some prices prove them."""
    many = len(outside)
    worth = np.concatenate(([0.0], np.cumsum(prices.place)))  # of a byte from the first place to each
    # sums over all windows that begin no later than a stretch, or end no earlier: second differences
    moved = np.zeros((many + 1, many + 1))
    here = np.arange(many)
    moved[0, here] += outside
    moved[here + 1, here] -= outside
    left, made = dict[int, float](), dict[int, int]()  # of each value: share that is not written, where it was made
    for span, to_write in zip(spans, _at_most_one(spans, prices.span), strict=True):
        first, last, value = int(stretch[span.first]), int(stretch[span.last]), span.value
        begin = made.setdefault(value, first) if value >= 0 else first
        kept = worth[span.last] - worth[span.first]
        inside, later = (span.bytes * min(share, kept) for share in (1.0 + to_write, 1.0))
        moved[0, last] += inside
        moved[begin + 1, last] += later - inside
        moved[first + 1, last] += span.bytes - later
        moved[last + 1, last] -= span.bytes
        if value >= 0:  # made, and not written yet when the window ends
            unwritten = span.bytes * left.get(value, 1.0)
            left[value] = left.get(value, 1.0) - to_write
            for row, sign in ((0, 1), (begin + 1, -1)):
                moved[row, first] += sign * unwritten
                moved[row, last] -= sign * unwritten
    found = np.cumsum(np.cumsum(moved, axis=0), axis=1)[:many, :many]
    return _at_ends(found, worth, stretch)


def _at_most_one(spans: tuple[Span, ...], shares: F64) -> F64:
    """What a byte less to write is worth to the spans of each value: to all of them together one byte at most."""
    value = np.array([span.value for span in spans], np.int64)
    own = value >= 0
    total = np.bincount(value[own], shares[own], minlength=1)
    found = np.zeros(len(spans))
    found[own] = shares[own] / np.maximum(1.0, total[value[own]])
    return found


def _at_ends(moved: F64x2, worth: F64, stretch: I64) -> tuple[F64x2, F64x2]:
    """With what all memory is worth: at the places inside of a window, and at its ends, but for those of the step."""
    many = len(moved)
    first = np.flatnonzero(np.diff(stretch, prepend=-1))
    last = np.append(first[1:], len(stretch)) - 1
    slope = worth[last][None, :] - worth[first][:, None]
    slope = slope + (np.arange(many) > 0)[:, None] + (np.arange(many) < many - 1)[None, :]
    no_window = np.tril(np.ones((many, many), bool), -1)
    return np.where(no_window, 0.0, moved), np.where(no_window, 0.0, slope)
