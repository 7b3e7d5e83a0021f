"""Bytes that pass DRAM at least in plans that run operators in the graph's order, as default plans do.

The general bound (``liveness``) holds for every order, so it lets an update follow its weight gradient at once. Default
plans fuse some stretches of neighbours (``planning.default_plan``) and keep the order else. Between two operators that
no such stretch has both of, the walk that decides what lies where has done all that comes before and nothing that comes
after; memories then hold at most what they hold. What is used before and read after was kept through all such places
between, or is read again, and was written if it was made on chip. The fewest such bytes are a linear program: how much
of every storage is kept between one use and the next. As a function of the memories' size its value is convex, so what
each solution proves of its own size it proves, by its dual, of all others: a line below the function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from monet.arrays import F64, I64
from monet.schedule.lower_bound.traffic import distinct_bytes, least_traffic
from monet.schedule.planning.default_plan import runs
from monet.schedule.planning.grouping import common_cuts
from monet.schedule.planning.output_stages import fed_copies
from monet.schedule.planning.stretches import stretches
from monet.schedule.workload import Operator, Workload

SIZES = 12  # of memories for which the program is solved


@dataclass(frozen=True, slots=True)
class InOrder:
    """Bytes read and written by every default plan: the largest of some lines over what memories hold."""

    at_nothing: F64  # by line: bytes with no memory at all
    slope: F64  # bytes fewer for every byte of memory

    def over(self, capacity: F64) -> F64:
        """Bytes that pass between DRAM and memories of so many bytes, at least."""
        lines = self.at_nothing[:, None] - self.slope[:, None] * np.atleast_1d(capacity)[None, :]
        return np.asarray(lines.max(axis=0).reshape(np.shape(capacity)))

    def over_size(self, capacity: int) -> float:
        """The same for one size."""
        return float((self.at_nothing - self.slope * capacity).max())


class Span(NamedTuple):
    """What two uses of a storage next to each other have in common: from the first to the second operator. Operators
    are told by how many places come before them."""

    first: int
    last: int
    bytes: int
    value: int  # that it is a part of; -1 if it is in DRAM anyway


class Prices(NamedTuple):
    """A dual solution: what a byte of memory is worth at each place, and one less to write to each span."""

    place: F64
    span: F64


class Solved(NamedTuple):
    """The lines of a graph, and all that proves them."""

    lines: InOrder
    places: I64
    spans: tuple[Span, ...]
    prices: tuple[Prices, ...]


def in_order_traffic(workload: Workload) -> InOrder:
    """What every default plan of a graph moves at least, found once."""
    return solved(workload).lines


def solved(workload: Workload) -> Solved:
    """The program of a graph at all sizes of memory, solved once."""
    found = workload.planned.get("in order")
    if found is None:
        found = workload.planned["in order"] = (_solved(workload),)
    known = found[0]
    assert isinstance(known, Solved)
    return known


def cut_groups(workload: Workload) -> Iterator[tuple[tuple[int, ...], dict[int, frozenset[str]]]]:
    """What a default plan may fuse: operators by number, and the dimensions along which tiles may cut each."""
    for before in (True, False):
        for stretch in stretches(workload, before):
            yield _cut_group(stretch.operators, stretch.cuts.values())
    some: list[Sequence[Operator]] = [run for run in runs(workload) if len(run) > 1]
    some += [(product, *copies) for product, copies in fed_copies(workload)]
    for operators in some:
        yield _cut_group(operators, [dims for _, dims in common_cuts(operators, over_sums=False)])


def _cut_group(
    operators: Sequence[Operator], cuts: Iterable[Mapping[int, str]]
) -> tuple[tuple[int, ...], dict[int, frozenset[str]]]:
    every = list(cuts)
    numbers = tuple(operator.number for operator in operators)
    return numbers, {number: frozenset(dims[number] for dims in every) for number in numbers}


def groups_of(workload: Workload) -> tuple[tuple[int, ...], ...]:
    """What a default plan may fuse: operators by number."""
    return tuple(numbers for numbers, _ in cut_groups(workload))


def open_places(workload: Workload) -> I64:
    """Operators behind which every default plan has done all before and nothing after: no group reaches over them."""
    inside = np.zeros(len(workload.operators), bool)
    for numbers in groups_of(workload):
        inside[min(numbers) : max(numbers)] = True
    return np.flatnonzero(~inside[:-1])


def _solved(workload: Workload) -> Solved:
    traffic = least_traffic(workload)
    always = float(traffic.read + traffic.written)
    places = open_places(workload)
    spans, values = ([], []) if workload.has_transfers or not len(places) else _spans(workload, places)
    if not spans:
        return Solved(InOrder(np.array([always]), np.zeros(1)), places, (), ())
    program = _Program(spans, values, len(places))
    most = program.occupied.max()
    found = [program.line(size) for size in np.geomspace(most / 1000, 0.95 * most, SIZES)]
    lines = np.array([(always, 0.0), *((always + value, slope) for value, slope, _ in found)])
    prices = tuple(prices for _, _, prices in found)
    return Solved(InOrder(lines[:, 0], lines[:, 1]), places, tuple(spans), prices)


def _spans(workload: Workload, places: I64) -> tuple[list[Span], list[int]]:
    """Bytes that are used twice, with a place between; and the sizes of values that may have to be written."""
    spans: list[Span] = []
    values: list[int] = []
    last_use: dict[str, tuple[int, int]] = {}  # storage → operator and bytes
    value_of: dict[str, int] = {}
    sizes = {name: storage.tensor.bytes for name, storage in workload.storages.items()}
    known: dict[str, tuple[int, ...]] = {}
    last_write = {name: operator.number for operator in workload.operators for name in operator.written}
    for operator in workload.operators:
        touched = known.get(operator.key)
        if touched is None:
            touched = known[operator.key] = tuple(
                distinct_bytes(operand, operator.nest) for operand, _ in operator.operands
            )
        read, written = dict[str, int](), dict[str, int]()
        for (operand, tensor), size in zip(operator.operands, touched, strict=True):
            into = written if operand.written else read
            into[tensor.storage] = max(into.get(tensor.storage, 0), min(size, sizes[tensor.storage]))
        for name, size in read.items():
            before = last_use.get(name)
            shared = before[1] + size - sizes[name] if before else 0
            if before and shared > 0:
                first, last = np.searchsorted(places, (before[0], operator.number)).tolist()
                if first < last:
                    spans.append(Span(first, last, shared, value_of.get(name, -1)))
        for name in {**read, **written}:
            last_use[name] = operator.number, max(read.get(name, 0), written.get(name, 0))
        for name, size in written.items():
            stays = workload.storages[name].persistent and last_write[name] == operator.number
            if size == sizes[name] and not stays:
                value_of[name] = len(values)
                values.append(size)
            else:
                value_of[name] = -1
    return spans, values


class _Program:
    """Least bytes read again and written, as a linear program over how much of every span is kept."""

    def __init__(self, spans: list[Span], values: list[int], places: int) -> None:
        first, last, size, value = (np.array(column, np.int64) for column in zip(*spans, strict=True))
        many, made = len(spans), len(values)
        self.scale = float(size.max())
        self.size = size / self.scale
        change = np.zeros(places + 1)
        np.add.at(change, first, size)
        np.add.at(change, last, -size)
        self.occupied = np.cumsum(change)[:places]
        # Unknown: bytes of each span that are not kept, bytes of each value that are written, bytes kept at each place.
        rows = np.arange(many)
        self.own = own = value >= 0
        self.costs = np.concatenate((np.ones(many + made), np.zeros(places)))
        self.above = coo_array(
            (
                np.concatenate((np.ones(own.sum()), -np.ones(own.sum()))),
                (
                    np.tile(np.arange(own.sum()), 2),
                    np.concatenate((rows[own], many + value[own])),
                ),
            ),
            shape=(int(own.sum()), many + made + places),
        )
        # kept at a place = kept at the one before + spans that begin − spans that end there
        inside = last < places
        where = np.arange(places)
        self.equal = coo_array(
            (
                np.concatenate((np.ones(many), -np.ones(inside.sum()), np.ones(places), -np.ones(places - 1))),
                (
                    np.concatenate((first, last[inside], where, where[1:])),
                    np.concatenate((rows, rows[inside], many + made + where, many + made + where[:-1])),
                ),
            ),
            shape=(places, many + made + places),
        )
        self.right = np.diff(self.occupied, prepend=0.0) / self.scale
        self.most_written = np.array(values, float) / self.scale

    def line(self, capacity: float) -> tuple[float, float, Prices]:
        """The bytes with no memory, and bytes fewer for every byte, of the line that is proved at a capacity; and the
        prices that prove it."""
        places, room = len(self.occupied), capacity / self.scale
        upper = np.concatenate((self.size, self.most_written, np.full(places, room)))
        solved = linprog(
            self.costs,
            A_ub=self.above,
            b_ub=np.zeros(self.above.shape[0]),
            A_eq=self.equal,
            b_eq=self.right,
            bounds=np.stack((np.zeros(len(upper)), upper), axis=1),
            method="highs",
        )
        assert solved.status == 0, solved.message
        of_places, of_spans = np.maximum(0.0, -solved.upper.marginals[-places:]), np.zeros(len(self.own))
        of_spans[self.own] = np.maximum(0.0, -solved.ineqlin.marginals)
        slope = float(of_places.sum())
        return float(solved.fun + slope * room) * self.scale, slope, Prices(of_places, of_spans)
