"""Bytes that pass DRAM at least for the operators behind a place, to the end of the step.

``in_order`` says what a whole step moves. For the operators behind a place the same program says it: what they read was
kept when the walk came to that place, or made behind it and kept, or is read; what stays is written. Memories hold no
more than they have at that place and at every one behind it. With any price of a byte of memory at each of these places
that gives a bound: a byte of every span costs the smaller of what it costs to keep and what it costs to move, less what
all memory is worth. Prices are those that prove the whole step's bytes at some size of memory; at the place itself a
byte is worth a byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, I64, F64x2
from monet.schedule.lower_bound.in_order import Prices, Solved, Span, solved
from monet.schedule.lower_bound.traffic import distinct_bytes
from monet.schedule.workload import Workload


@dataclass(frozen=True)
class Tails:
    """Bytes by the place that operators stand behind and by line: with no memory, and fewer for every byte of it.
    ``begins``: the first operator behind each place; the first place is the start of the step."""

    begins: I64
    at_nothing: F64x2
    slope: F64x2

    def over_size(self, capacity: int) -> F64:
        """Bytes between DRAM and memories of some size, at least, by place."""
        return np.asarray(np.maximum(0.0, (self.at_nothing - capacity * self.slope).max(axis=0)))


def tails_of(workload: Workload) -> Tails:
    """The tails of a graph, found once."""
    found = workload.planned.get("tails")
    if found is None:
        found = workload.planned["tails"] = (_tails(workload, solved(workload)),)
    known = found[0]
    assert isinstance(known, Tails)
    return known


def _tails(workload: Workload, program: Solved) -> Tails:
    places = len(program.places)
    outside = _outside(workload, program.places)
    free = Prices(np.zeros(places), np.zeros(len(program.spans)))
    lines = [_line(program.spans, prices, outside) for prices in (free, *program.prices)]
    begins = np.concatenate(([0], program.places + 1))
    return Tails(begins, np.stack([moved for moved, _ in lines]), np.stack([slope for _, slope in lines]))


def _outside(workload: Workload, places: I64) -> F64:
    """Between two places each: bytes that were there from the start and are read for the first time, and that stay and
    are written for the last time."""
    sizes = {name: storage.tensor.bytes for name, storage in workload.storages.items()}
    found = np.zeros(len(places) + 1)
    seen, stays, made = dict[str, int](), dict[str, tuple[int, int]](), set[str]()
    for operator in workload.operators:
        here = int(np.searchsorted(places, operator.number))
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


def _line(spans: tuple[Span, ...], prices: Prices, outside: F64) -> tuple[F64, F64]:
    """Bytes of all tails with no memory, and fewer for every byte of it, as some prices prove them."""
    worth = np.concatenate(([0.0], np.cumsum(prices.place)))  # of a byte from the first place to each
    change = np.zeros(len(outside) + 1)  # from one place to the next
    change[0] = outside.sum()
    change[1:] -= outside
    made: dict[int, int] = {}
    for span, to_write in zip(spans, _at_most_one(spans, prices.span), strict=True):
        begin = made.setdefault(span.value, span.first) if span.value >= 0 else span.first
        kept = worth[span.last] - worth[span.first]
        both, again = (span.bytes * min(share, kept) for share in (1.0 + to_write, 1.0))
        change[0] += both  # made and read behind the place
        change[begin + 1] += again - both  # made before it, and used on both sides of later ones
        change[span.first + 1] += span.bytes - again  # used before it
        change[span.last + 1] -= span.bytes
    slope = worth[-1] - worth + (np.arange(len(outside)) > 0)
    return np.cumsum(change)[:-1], slope


def _at_most_one(spans: tuple[Span, ...], shares: F64) -> F64:
    """What a byte less to write is worth to the spans of each value: to all of them together one byte at most."""
    value = np.array([span.value for span in spans], np.int64)
    own = value >= 0
    total = np.bincount(value[own], shares[own], minlength=1)
    found = np.zeros(len(spans))
    found[own] = shares[own] / np.maximum(1.0, total[value[own]])
    return found
