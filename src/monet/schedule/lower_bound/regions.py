"""Parts of tensors that certainly take part in something, as boxes that shift with a slice number.

A ``Slice`` i of a step is one position of one of its dimensions. A range [slope·i + low, slope·i + high) of an axis
says at once what every slice touches, so that slices which touch different data are told from those that share it.
What cannot be said exactly in these terms is None: nothing is then certain. So every region is a subset of the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from monet.graph.loop_nest import Index, LoopNest, Operand
from monet.graph.tensor import Tensor, contiguous


class Range(NamedTuple):
    """[slope·i + low, slope·i + high) in slice i."""

    slope: int
    low: int
    high: int

    @property
    def extent(self) -> int:
        """Positions in every slice."""
        return self.high - self.low

    def within(self, size: int, slices: int) -> Range | None:
        """This range clipped to [0, size); None if it is empty, or if only some slices would have to be clipped."""
        if self == SOMEWHERE:
            return self
        if not self.slope:
            low, high = max(0, self.low), min(size, self.high)
            return Range(0, low, high) if low < high else None
        last = self.slope * (slices - 1)
        return self if min(self.low, self.low + last) >= 0 and max(self.high, self.high + last) <= size else None


SOMEWHERE = Range(0, -1, 0)  # at least one position, but not known which
Box = tuple[Range, ...]
Ranges = Mapping[str, Range]  # of the dimensions of a nest; those that are absent are whole


def whole(size: int) -> Range:
    """All of an axis, in every slice."""
    return Range(0, 0, size)


def volume(box: Box) -> int:
    """Elements of one slice."""
    return math.prod(axis.extent for axis in box)


def common(first: Box, second: Box, slices: int) -> Box | None:
    """What two regions share; None if nothing, or if it cannot be said."""
    found = []
    for one, other in zip(first, second, strict=True):
        if SOMEWHERE in (one, other):
            return None
        if one.slope == other.slope:
            shared = Range(one.slope, max(one.low, other.low), min(one.high, other.high))
        else:
            moving, still = (one, other) if one.slope else (other, one)
            last = moving.slope * (slices - 1)
            reach = min(moving.low, moving.low + last), max(moving.high, moving.high + last)
            inside = reach[0] >= still.low and reach[1] <= still.high
            if still.slope or not inside:
                return None
            shared = moving
        if shared.extent <= 0:
            return None
        found.append(shared)
    return tuple(found)


def disjoint(box: Box) -> bool:
    """Whether no two slices have an element in common."""
    return any(abs(axis.slope) >= axis.extent for axis in box)


# --- between the dimensions of a nest and the axes of an operand ------------------------------------------------------


def image(operand: Operand, nest: LoopNest, ranges: Ranges, slices: int) -> Box | None:
    """The part of an operand that the points of ``ranges`` certainly touch, all of it."""
    found = []
    for number, (index, length) in enumerate(zip(operand.indices, operand.shape, strict=True)):
        if operand.picks and operand.picks.axis == number:
            found.append(SOMEWHERE)  # looked up (a table's row, a label's probability)
            continue
        axis = _axis_image(index, nest.sizes, ranges)
        axis = axis.within(length, slices) if axis else None
        if axis is None:
            return None
        found.append(axis)
    return tuple(found)


def _axis_image(index: Index, sizes: Mapping[str, int], ranges: Ranges) -> Range | None:
    terms = [(name, factor) for name, factor in index.terms if factor and sizes[name] > 1]
    if len(terms) == 1:
        (name, factor) = terms[0]
        slope, low, high = ranges.get(name) or whole(sizes[name])
        if ranges.get(name) == SOMEWHERE:
            return None
        if high - low > 1 and abs(factor) != 1:
            return None  # with holes
        ends = index.offset + factor * low, index.offset + factor * (high - 1)
        return Range(factor * slope, min(ends), max(ends) + 1)
    if any(name in ranges for name, _ in terms):
        return None  # part of a window: tiles may make what is around it more than once (recomputed halo)
    reach = 1  # positions without a gap, from the smallest step on
    for name, factor in sorted(terms, key=lambda term: abs(term[1])):
        if abs(factor) > reach:
            return None
        reach += abs(factor) * (sizes[name] - 1)
    low = index.offset + sum(min(0, factor * (sizes[name] - 1)) for name, factor in terms)
    return Range(0, low, low + reach)


def preimage(
    operand: Operand, shape: tuple[int, ...], nest: LoopNest, box: Box, slices: int
) -> dict[str, Range] | None:
    """Ranges of points all of which touch ``box`` through an operand that sees ``shape``; dimensions that do not matter
    are absent."""
    found: dict[str, Range] = {}
    picked = operand.picks.axis if operand.picks else -1
    for number, (index, length, axis) in enumerate(zip(operand.indices, shape, box, strict=True)):
        terms = [(name, factor) for name, factor in index.terms if factor and nest.sizes[name] > 1]
        if axis == whole(length):
            continue
        if number == picked:
            return None
        if axis == SOMEWHERE and terms:
            found |= {name: SOMEWHERE for name, _ in terms}
            continue
        if len(terms) != 1 or abs(terms[0][1]) != 1 or terms[0][0] in found:
            return None
        (name, factor) = terms[0]
        ends = factor * (axis.low - index.offset), factor * (axis.high - 1 - index.offset)
        part = Range(factor * axis.slope, min(ends), max(ends) + 1).within(nest.sizes[name], slices)
        if part is None:
            return None
        if part != whole(nest.sizes[name]):
            found[name] = part
    return found


# --- between what an operator sees and the storage behind it ----------------------------------------------------------


Layout = tuple[tuple[int, int, int], ...]  # axis, its size and its stride, of axes longer than one, innermost first


class View(NamedTuple):
    """How an operand lies on its storage, whose elements lie row by row."""

    operand: tuple[int, ...]  # its shape; it counts the elements of ``shape`` in their order
    shape: tuple[int, ...]
    owner: tuple[int, ...]  # shape of the storage
    axes: dict[int, int]  # axis of the owner → axis of ``shape`` that is the same
    rest: Layout  # axes of the owner that are cut up or joined differently in what is seen
    seen: Layout  # the axes of ``shape`` that go with them; empty: only a part of them is seen, not known which


def view_of(operand: Operand, tensor: Tensor, owner: Tensor) -> View | None:
    """How an operand lies on its storage; None if that is not known."""
    if not owner.is_contiguous or len(operand.indices) != len(operand.shape):
        return None
    shape = tensor.shape if operand.picks else operand.shape
    if math.prod(shape) != tensor.elements:
        return None
    shown = {(size, stride): axis for axis, size, stride in _layout(tensor.shape, tensor.strides) if stride}
    laid = _layout(owner.shape, owner.strides)
    axes = {axis: shown.pop((size, stride)) for axis, size, stride in laid if (size, stride) in shown}
    rest = tuple(part for part in laid if part[0] not in axes)
    seen = tuple((axis, size, stride) for (size, stride), axis in shown.items())
    if math.prod(size for _, size, _ in seen) < math.prod(size for _, size, _ in rest):
        seen = ()
    elif seen and seen[0][2] != rest[0][2]:
        return None
    return View(shape, tensor.shape, owner.shape, axes, rest, seen)


def _layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    known = ((axis, size, stride) for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)) if size > 1)
    return tuple(sorted(known, key=lambda part: part[2]))


def to_owner(view: View, box: Box, slices: int) -> Box | None:
    """A region of an operand as a region of the storage."""
    if view.operand != view.shape:
        found = _laid_out_as(box, view.operand, view.shape, slices)
        if found is None:
            return None
        box = found
    parts = {axis: box[here] for axis, here in view.axes.items()}
    if view.rest and not view.seen:
        parts |= {axis: SOMEWHERE for axis, _, _ in view.rest}
    elif view.rest:
        run = _run(box, view.seen)
        rest = _box_in(run, view.rest, slices) if run else None
        if rest is None:
            return None
        parts |= rest
    return tuple(parts.get(axis, whole(size)) for axis, size in enumerate(view.owner))


def to_view(view: View, box: Box, slices: int) -> Box | None:
    """A region of the storage as a region of an operand."""
    parts = {here: box[axis] for axis, here in view.axes.items()}
    if view.rest and not view.seen:
        if any(box[axis] != whole(size) for axis, size, _ in view.rest):
            return None
    elif view.rest:
        run = _run(box, view.rest)
        rest = _box_in(run, view.seen, slices) if run else None
        if rest is None:
            return None
        parts |= rest
    seen = tuple(parts.get(axis, whole(size)) for axis, size in enumerate(view.shape))
    return seen if view.operand == view.shape else _laid_out_as(seen, view.shape, view.operand, slices)


def _laid_out_as(box: Box, shape: tuple[int, ...], other: tuple[int, ...], slices: int) -> Box | None:
    """A region of one shape as a region of another one whose elements are the same, in the same order."""
    run = _run(box, _layout(shape, contiguous(shape)))
    parts = _box_in(run, _layout(other, contiguous(other)), slices) if run else None
    return None if parts is None else tuple(parts.get(axis, whole(size)) for axis, size in enumerate(other))


def _run(box: Box, layout: Layout) -> Range | None:
    """Part of a box as consecutive elements, counted in steps of the innermost stride; None if it is not that."""
    slope = low = 0
    extent, inner = 1, 1  # elements taken so far, and those there are
    unit = layout[0][2] if layout else 1
    for axis, size, stride in layout:
        part = box[axis]
        if stride != inner * unit or part == SOMEWHERE or (part.extent > 1 and extent != inner):
            return None
        slope, low = slope + part.slope * inner, low + part.low * inner
        extent, inner = extent * part.extent, inner * size
    return Range(slope, low, low + extent)


def _box_in(run: Range, layout: Layout, slices: int) -> dict[int, Range] | None:
    """A box inside consecutive elements, by axis: whole rows of the outermost axis that has some."""
    found = {axis: whole(size) for axis, size, _ in layout}
    slope, low, high = run
    unit = layout[0][2] if layout else 1
    inner = math.prod(size for _, size, _ in layout)
    for axis, size, stride in reversed(layout):
        inner //= size
        if stride != inner * unit:
            return None
        first, end = -(-low // inner), high // inner
        if slope % inner == 0 and first < end:
            found[axis] = Range(slope // inner, first, end)
            return found
        at, last = low // inner, slope * (slices - 1)
        if slope % inner == 0:
            found[axis], slope = Range(slope // inner, at, at + 1), 0
        elif min(low, low + last) >= at * inner and max(high, high + last) <= (at + 1) * inner:
            found[axis] = Range(0, at, at + 1)
        else:
            return None
        low, high = low - at * inner, min(inner, high - at * inner)
    return found
