"""What has to be kept over a moment that every plan passes, whatever its order, groups and tiles.

Take one *step* of an operator: one position of each of its dimensions (all of those that it needs whole). In every
plan there is a moment when it starts. Before that moment its inputs were made, and what these were made of, and so on:
the cone before it. After that moment run all steps that read what it makes, and so on: the cone after it. What a step
before has made or read and a step after reads, is either on chip at that moment or in DRAM: then it was written there
(unless it was there from the start) and is read again. Chip memories together hold ``capacity`` bytes, so of ``made``
bytes (made before, read after) at least ``made − capacity`` are written, and of ``made + again`` (``again``: there from
the start, read before and after) at least ``made + again − capacity`` are read once more, beyond the first read of what
is there from the start. Nothing is made twice: recomputing is a matter of the graph. The one exception, a halo that
tiles of a group recompute, is why parts of windows are not followed (``regions``).

Steps at different positions of one dimension (samples of a batch, where nothing mixes them) each have such a moment. As
far as what is kept over these moments is different data, the bytes add up; the moments may come in any order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from monet.graph.loop_nest import Operand
from monet.graph.op import Phase
from monet.schedule.lower_bound.regions import (
    Box,
    Range,
    View,
    common,
    disjoint,
    image,
    larger,
    preimage,
    to_owner,
    to_view,
    view_of,
    volume,
)
from monet.schedule.workload import Operator, Workload


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes kept over the moment at which a step of ``operator`` starts, and over those of its like in other slices."""

    operator: str
    made: int  # made before, read after
    again: int  # there from the start, read before and after
    slices: int
    of_each: int  # of ``made``, what belongs to one slice alone

    def written(self, capacity: int) -> int:
        """Bytes that are written to DRAM because memories of ``capacity`` bytes cannot keep them."""
        return max(0, self.made - capacity) + (self.slices - 1) * max(0, self.of_each - capacity)

    def read(self, capacity: int) -> int:
        """Bytes that are read from DRAM once more because of that."""
        more = (self.slices - 1) * max(0, self.of_each - capacity)
        return max(0, self.made + self.again - capacity) + more


Value = tuple[str, int]  # a storage, and how many operators have written it: what is worked on in place has several


class _Use(NamedTuple):
    """An operand of an operator whose place is known."""

    operand: Operand
    view: View
    value: Value


@dataclass(frozen=True)
class _Flow:
    """A graph as the cones walk it: what every operator reads and writes."""

    workload: Workload
    reads: list[list[_Use]]
    writes: list[list[_Use]]

    @classmethod
    def of(cls, workload: Workload) -> _Flow:
        flow = cls(workload, [], [])
        written: Counter[str] = Counter()
        for operator in workload.operators:
            uses: tuple[list[_Use], list[_Use]] = ([], [])
            for operand, tensor in operator.operands:
                view = view_of(operand, tensor, workload.storages[tensor.storage].tensor)
                if view is not None:
                    value = tensor.storage, written[tensor.storage] + operand.written
                    uses[operand.written].append(_Use(operand, view, value))
            flow.reads.append(uses[False])
            flow.writes.append(uses[True])
            written.update(operator.written)
        return flow

    def used(self, number: int, *, written: bool) -> list[_Use]:
        """What an operator writes, or reads."""
        return (self.writes if written else self.reads)[number]


@dataclass
class _Cone:
    """Steps before or after one step, and the regions of values that they touch."""

    flow: _Flow
    slices: int
    steps: dict[int, dict[str, Range]]  # ranges of operators' dimensions
    touched: dict[Value, Box] = field(default_factory=dict)  # before: needed or made; after: made

    def images(self, number: int, *, written: bool) -> Iterator[tuple[Value, Box]]:
        """What the steps of an operator certainly touch, all of it."""
        nest = self.flow.workload.operators[number].nest
        for operand, view, value in self.flow.used(number, written=written):
            seen = image(operand, nest, self.steps[number], self.slices)
            box = to_owner(view, seen, self.slices) if seen else None
            if box is not None:
                yield value, box

    def touch(self, number: int, *, written: bool) -> None:
        """Note what the steps of an operator touch."""
        for value, box in self.images(number, written=written):
            self.touched[value] = larger(self.touched.get(value), box)

    def enter(self, number: int, *, written: bool) -> bool:
        """Take the steps of an operator that make (``written``) or read what is touched, the most of them; False if
        there are none for certain."""
        operator = self.flow.workload.operators[number]
        most = 0
        for operand, view, value in self.flow.used(number, written=written):
            box = self.touched.get(value)
            seen = to_view(view, box, self.slices) if box else None
            ranges = preimage(operand, operator.nest, seen, self.slices) if seen else None
            if ranges is None:
                continue
            ranges = {dim: part for dim, part in ranges.items() if dim not in operator.dimensions.whole}
            points = math.prod(ranges[dim].extent if dim in ranges else size for dim, size in operator.nest.dims)
            if points > most:
                self.steps[number], most = ranges, points
        return most > 0


def _before(flow: _Flow, start: int, ranges: dict[str, Range], slices: int) -> _Cone:
    """What a step needs, and all that its makers make along with it."""
    cone = _Cone(flow, slices, {start: ranges})
    cone.touch(start, written=False)
    for number in reversed(range(start)):
        if cone.enter(number, written=True):
            cone.touch(number, written=False)
            cone.touch(number, written=True)
    return cone


def _after(flow: _Flow, start: int, ranges: dict[str, Range], slices: int) -> _Cone:
    """The steps that cannot start before a step has, itself among them."""
    cone = _Cone(flow, slices, {start: ranges})
    cone.touch(start, written=True)
    for number in range(start + 1, len(flow.workload.operators)):
        if cone.enter(number, written=False):
            cone.touch(number, written=True)
    return cone


def _cut(flow: _Flow, start: Operator, along: str) -> Cut:
    """What is kept over the moments of steps of ``start``, at every position of ``along``."""
    ranges = {
        dim: Range(0, size // 2, size // 2 + 1)
        for dim, size in start.nest.dims
        if size > 1 and dim not in start.dimensions.whole
    }
    slices = start.nest.sizes[along] if along in ranges else 1
    if along in ranges:
        ranges[along] = Range(1, 0, 1)
    before, after = _before(flow, start.number, ranges, slices), _after(flow, start.number, ranges, slices)
    kept = dict[Value, Box]()
    for number in after.steps:
        for value, box in after.images(number, written=False):
            shared = common(before.touched[value], box, slices) if value in before.touched else None
            if shared is not None:
                kept[value] = larger(kept.get(value), shared)
    made = again = of_each = 0
    for (name, version), box in kept.items():
        storage = flow.workload.storages[name]
        size = int(volume(box) * storage.tensor.bits_per_element) // 8
        if storage.is_root and version == 0:
            again += size
        elif not storage.persistent:
            made += size
            of_each += size if disjoint(box) else 0
    return Cut(start.op.name, made, again, slices, of_each)


def cut_of(workload: Workload) -> Cut:
    """What is kept over the start of the loss; if that is nothing, where most is alive in the graph's own order."""
    found = workload.planned.get("cut")
    if found is None:
        flow, cut = _Flow.of(workload), Cut("", 0, 0, 1, 0)
        for start in _starts(workload):
            cut = _cut(flow, start, _slicing(start))
            if cut.made:
                break
        found = workload.planned["cut"] = (cut,)
    cut = found[0]
    assert isinstance(cut, Cut)
    return cut


def _slicing(start: Operator) -> str:
    """The dimension that slices are taken along: the outermost one that may be cut; empty if there is none."""
    return next((dim for dim, size in start.nest.dims if size > 1 and dim in start.tileable), "")


def _starts(workload: Workload) -> list[Operator]:
    """The first operator of the loss, and the one at which most is alive in the graph's own order."""
    operators = workload.operators
    first, last = dict[str, int](), dict[str, int]()
    for operator in operators:
        for name in operator.storages:
            first.setdefault(name, operator.number)
            last[name] = operator.number
    change = [0] * (len(operators) + 1)
    for name, began in first.items():
        if not workload.storages[name].is_root:
            change[began] += workload.storages[name].tensor.bytes
            change[last[name]] -= workload.storages[name].tensor.bytes
    alive = list(accumulate(change[:-1]))
    fullest = max(range(len(operators)), key=lambda number: alive[number])
    loss = next((operator.number for operator in operators if operator.op.phase is Phase.LOSS), fullest)
    return [operators[number] for number in dict.fromkeys((loss, fullest))]
