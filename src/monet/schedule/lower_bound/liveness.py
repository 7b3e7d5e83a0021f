"""What has to be kept over a moment that every plan passes, whatever its order, groups and tiles.

Take one *result* of an operator: one position of each dimension of what it writes. In every plan there is a moment when
it is there. Before that moment it was made, of all that it sums over or needs whole; so were the inputs of that, and so
on: the cone before it. After that moment run all steps that read it, those that read what they make, and so on: the
cone after it. What a step before has made or read and a step after reads, is either on chip at that moment or in DRAM:
then it was written there (unless it was there from the start) and is read again. Chip memories together hold
``capacity`` bytes, so of ``made`` bytes (made before, read after) at least ``made − capacity`` are written, and of
``made + again`` (``again``: there from the start, read before and after) at least ``made + again − capacity`` are read
once more, beyond the first read of what is there from the start. Nothing is made twice: recomputing is a matter of the
graph. The one exception, a halo that tiles of a group recompute, is why parts of windows are not followed
(``regions``).

Results at different positions of one dimension (samples of a batch, where nothing mixes them) each have such a moment.
As far as what is kept over these moments is different data, the bytes add up; the moments may come in any order.
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
    preimage,
    to_owner,
    to_view,
    view_of,
    volume,
)
from monet.schedule.workload import Operator, Workload


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes kept over the moment at which a result of ``operator`` is there, and over those of its like in other
    slices."""

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


MOST_CUTS = 3  # operators of the loss, or of backward, that are looked at
NONE = -1

Value = tuple[str, int]  # a storage, and how many operators have written it: what is worked on in place has several


class _Use(NamedTuple):
    """An operand of an operator whose place is known."""

    operand: Operand
    view: View
    value: int  # the number of its value


Steps = dict[str, Range]  # ranges of an operator's dimensions


@dataclass(frozen=True)
class _Flow:
    """A graph as the cones walk it: what every operator reads and writes. Layers repeat, so what is found of one
    operator is kept for all that are alike and lie alike in their storages (``alike``: their number), and values, boxes
    and steps are numbers: ``NONE`` where there is nothing for certain."""

    workload: Workload
    reads: list[list[_Use]]
    writes: list[list[_Use]]
    alike: list[int]
    values: dict[Value, int] = field(default_factory=dict)
    boxes: dict[Box, int] = field(default_factory=dict)
    box: list[Box] = field(default_factory=list)
    volumes: list[int] = field(default_factory=list)
    steps: list[Steps] = field(default_factory=list)
    images: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    entered: dict[tuple[int, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: Workload) -> _Flow:
        flow = cls(workload, [], [], [])
        written: Counter[str] = Counter()
        known: dict[tuple[object, ...], tuple[int, list[View | None]]] = {}
        values, storages = flow.values, workload.storages
        for operator in workload.operators:
            owners = [storages[tensor.storage].tensor for _, tensor in operator.operands]
            key = operator.alike, *(owner.shape for owner in owners)
            if key not in known:
                pairs = zip(operator.operands, owners, strict=True)
                known[key] = len(known), [view_of(operand, tensor, owner) for (operand, tensor), owner in pairs]
            number, views = known[key]
            uses: tuple[list[_Use], list[_Use]] = ([], [])
            for (operand, tensor), view in zip(operator.operands, views, strict=True):
                if view is not None:
                    value = tensor.storage, written[tensor.storage] + operand.written
                    uses[operand.written].append(_Use(operand, view, values.setdefault(value, len(values))))
            flow.reads.append(uses[False])
            flow.writes.append(uses[True])
            flow.alike.append(number)
            written.update(operator.written)
        return flow

    def used(self, number: int, *, written: bool) -> list[_Use]:
        """What an operator writes, or reads."""
        return (self.writes if written else self.reads)[number]

    def number_of(self, box: Box | None) -> int:
        """The number of a region."""
        if box is None:
            return NONE
        number = self.boxes.setdefault(box, len(self.box))
        if number == len(self.box):
            self.box.append(box)
            self.volumes.append(volume(box))
        return number

    def larger(self, known: int, more: int) -> int:
        """Of regions that are both certain the one with more elements."""
        return more if known == NONE or self.volumes[more] > self.volumes[known] else known


class _Cone:
    """Steps before or after one step, and the regions of values that they touch."""

    def __init__(self, flow: _Flow, slices: int, start: int, ranges: Steps) -> None:
        self.flow, self.slices = flow, slices
        flow.steps.append(ranges)
        self.steps = {start: len(flow.steps) - 1}  # by operator
        self.touched = [NONE] * len(flow.values)  # before: needed or made; after: made

    def images(self, number: int, *, written: bool) -> Iterator[tuple[int, int]]:
        """What the steps of an operator certainly touch, all of it: values and regions."""
        flow, steps = self.flow, self.steps[number]
        uses = flow.used(number, written=written)
        key = flow.alike[number], written, self.slices, steps
        boxes = flow.images.get(key)
        if boxes is None:
            nest, ranges = flow.workload.operators[number].nest, flow.steps[steps]
            seen = [image(use.operand, nest, ranges, self.slices) for use in uses]
            boxes = flow.images[key] = tuple(
                flow.number_of(None if box is None else to_owner(use.view, box, self.slices))
                for use, box in zip(uses, seen, strict=True)
            )
        for use, found in zip(uses, boxes, strict=True):
            if found != NONE:
                yield use.value, found

    def touch(self, number: int, *, written: bool) -> None:
        """Note what the steps of an operator touch."""
        touched, larger = self.touched, self.flow.larger
        for value, box in self.images(number, written=written):
            touched[value] = larger(touched[value], box)

    def enter(self, number: int, *, written: bool) -> bool:
        """Take the steps of an operator that make (``written``) or read what is touched, the most of them; False if
        there are none for certain."""
        flow, touched = self.flow, self.touched
        uses = flow.used(number, written=written)
        boxes = [touched[use.value] for use in uses]
        key = flow.alike[number], written, self.slices, *boxes
        steps = flow.entered.get(key)
        if steps is None:
            found = self._most_steps(flow.workload.operators[number], uses, boxes)
            if found is not None:
                flow.steps.append(found)
            steps = flow.entered[key] = NONE if found is None else len(flow.steps) - 1
        if steps != NONE:
            self.steps[number] = steps
        return steps != NONE

    def _most_steps(self, operator: Operator, uses: list[_Use], boxes: list[int]) -> Steps | None:
        """Of the steps that certainly touch one of some regions the most; None if none do."""
        found, most = None, 0
        for (operand, view, _), box in zip(uses, boxes, strict=True):
            seen = None if box == NONE else to_view(view, self.flow.box[box], self.slices)
            ranges = None if seen is None else preimage(operand, view.operand, operator.nest, seen, self.slices)
            if ranges is None:
                continue
            ranges = {dim: part for dim, part in ranges.items() if dim not in operator.dimensions.whole}
            points = math.prod(ranges[dim].extent if dim in ranges else size for dim, size in operator.nest.dims)
            if points > most:
                found, most = ranges, points
        return found


def _before(flow: _Flow, start: int, ranges: Steps, slices: int) -> _Cone:
    """What a result needs, and all that its makers make along with it."""
    cone = _Cone(flow, slices, start, ranges)
    cone.touch(start, written=True)
    cone.touch(start, written=False)
    for number in reversed(range(start)):
        if cone.enter(number, written=True):
            cone.touch(number, written=False)
            cone.touch(number, written=True)
    return cone


def _after(flow: _Flow, start: int, ranges: Steps, slices: int) -> _Cone:
    """The steps that cannot start before a result is there."""
    cone = _Cone(flow, slices, start, ranges)
    cone.touch(start, written=True)
    cone.steps.clear()
    for number in range(start + 1, len(flow.workload.operators)):
        if cone.enter(number, written=False):
            cone.touch(number, written=True)
    return cone


def _cut(flow: _Flow, start: Operator, along: str) -> Cut:
    """What is kept over the moments at which results of ``start`` are there, at every position of ``along``."""
    ranges = {
        dim: Range(0, size // 2, size // 2 + 1)
        for dim, size in start.nest.dims
        if size > 1 and dim not in start.dimensions.whole | start.nest.reduced
    }
    slices = start.nest.sizes[along] if along in ranges else 1
    if along in ranges:
        ranges[along] = Range(1, 0, 1)
    before, after = _before(flow, start.number, ranges, slices), _after(flow, start.number, ranges, slices)
    kept, shared = dict[int, int](), dict[tuple[int, int], int]()
    for number in after.steps:
        for value, region in after.images(number, written=False):
            pair = before.touched[value], region
            if pair[0] == NONE:
                continue
            if pair not in shared:
                shared[pair] = flow.number_of(common(flow.box[pair[0]], flow.box[region], slices))
            if shared[pair] != NONE:
                kept[value] = flow.larger(kept.get(value, NONE), shared[pair])
    made = again = of_each = 0
    values = tuple(flow.values)
    for value, region in kept.items():
        (name, version), box = values[value], flow.box[region]
        storage = flow.workload.storages[name]
        size = int(flow.volumes[region] * storage.tensor.bits_per_element) // 8
        if storage.is_root and version == 0:
            again += size
        elif not storage.persistent:
            made += size
            of_each += size if disjoint(box) else 0
    return Cut(start.op.name, made, again, slices, of_each)


def cuts_of(workload: Workload) -> tuple[Cut, ...]:
    """What is kept over results of the loss; if nothing waits for these, over the first of backward; if there is none,
    where most is alive in the graph's own order."""
    found = workload.planned.get("cuts")
    if found is None:
        flow, cuts = _Flow.of(workload), list[Cut]()
        for starts in _starts(workload):
            cuts += [_cut(flow, start, _slicing(start)) for start in starts]
            if any(cut.made for cut in cuts):
                break
        found = workload.planned["cuts"] = tuple(cut for cut in cuts if cut.made or cut.again)
    return found


def _slicing(start: Operator) -> str:
    """The dimension that slices are taken along: the outermost one that may be cut; empty if there is none."""
    return next((dim for dim, size in start.nest.dims if size > 1 and dim in start.splittable), "")


def _starts(workload: Workload) -> Iterator[list[Operator]]:
    """Operators whose results are looked at, the most promising first."""
    for phase in (Phase.LOSS, Phase.BACKWARD):
        yield [one for one in workload.operators if one.op.phase is phase and one.nest.reads][:MOST_CUTS]
    yield [workload.operators[_fullest(workload)]]


def _fullest(workload: Workload) -> int:
    """The operator at which most is alive, in the graph's own order."""
    first, last = dict[str, int](), dict[str, int]()
    for operator in workload.operators:
        for name in operator.storages:
            first.setdefault(name, operator.number)
            last[name] = operator.number
    change = [0] * len(workload.operators)
    for name, began in first.items():
        if not workload.storages[name].is_root:
            change[began] += workload.storages[name].tensor.bytes
            change[last[name]] -= workload.storages[name].tensor.bytes
    alive = list(accumulate(change))
    return max(range(len(alive)), key=lambda number: alive[number])
