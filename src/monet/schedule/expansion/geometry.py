"""Tiles and pieces of an operator, the boxes of its operands that they touch, and the blocks storages are cut into.

A step is one tile of one piece. Its ranges of the nest's dimensions give, through the affine maps, a box of every
operand; overlap with the blocks of a storage says what it reads and writes. Blocks are a grid of the storage's axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from monet.arrays import F64, I64
from monet.graph.loop_nest import Index, LoopNest, Operand, known_nest
from monet.graph.tensor import Tensor
from monet.schedule.plan import Split


def even_cuts(size: int, parts: int) -> tuple[I64, I64]:
    """Starts and ends of ``parts`` pieces of nearly equal size."""
    edges = np.arange(parts + 1) * size // parts
    return edges[:-1], edges[1:]


@dataclass(frozen=True)
class StepRanges:
    """The steps of an operator: for each dimension that is cut, its range in every step. Tiles run slowest."""

    count: int
    tiles: int
    pieces: int
    ranges: Mapping[str, tuple[I64, I64]]

    @property
    def whole(self) -> bool:
        """Whether there is one step only."""
        return self.count == 1

    def of_step(self, number: int) -> tuple[tuple[str, int, int], ...]:
        """(dimension, start, end) of all ranges of one step."""
        found = self._of_steps.get(number)
        if found is None:
            found = tuple((dim, int(low[number]), int(high[number])) for dim, (low, high) in self.ranges.items())
            self._of_steps[number] = found
        return found

    @cached_property
    def _of_steps(self) -> dict[int, tuple[tuple[str, int, int], ...]]:
        return {}

    def sharing(self, nest: LoopNest) -> tuple[tuple[str, int], ...]:
        """Inputs that several pieces want the same part of, and how many different parts they want."""
        if nest not in self._sharing:
            parts = ((operand.name, self.parts(operand)) for operand in nest.reads)
            self._sharing[nest] = tuple((name, many) for name, many in parts if many < self.pieces)
        return self._sharing[nest]

    @cached_property
    def _sharing(self) -> dict[LoopNest, tuple[tuple[str, int], ...]]:
        return {}

    def parts(self, operand: Operand) -> int:
        """How many different parts of an input the pieces of a tile want."""
        dims = operand.dims
        return math.prod(many for dim, many in self._starts.items() if dim in dims)

    @cached_property
    def _starts(self) -> dict[str, int]:
        """In how many places the pieces of a tile begin, by dimension."""
        return {dim: len(set(low[: self.pieces].tolist())) for dim, (low, _) in self.ranges.items()}

    @cached_property
    def longest(self) -> int:
        """The step of most points, the last of equal ones."""
        points = np.ones(self.count, np.int64)
        for low, high in self.ranges.values():
            points = points * (high - low)
        return self.count - 1 - int(np.argmax(points[::-1]))

    @cached_property
    def content(self) -> tuple[Any, ...]:
        """Equal for equal steps."""
        ranges = tuple((dim, low.tobytes(), high.tobytes()) for dim, (low, high) in self.ranges.items())
        return self.tiles, self.pieces, ranges


def make_steps(nest: LoopNest, tiles: Mapping[str, tuple[I64, I64]], split: Split = ()) -> StepRanges:
    """All combinations of tiles (by dimension, outermost first) and pieces: what a tile has of the dimensions that are
    split is cut further, where elements share a scale between groups of them."""
    counts, parts = [len(low) for low, _ in tiles.values()], [many for _, many in split]
    total, pieces = math.prod(counts), math.prod(parts)
    index = np.unravel_index(np.arange(total), counts) if counts else ()
    ranges: dict[str, tuple[I64, I64]] = {}
    for (dim, (low, high)), where in zip(tiles.items(), index, strict=True):
        ranges[dim] = np.repeat(low[where], pieces), np.repeat(high[where], pieces)
    number = np.unravel_index(np.arange(pieces), parts) if parts else ()
    for (dim, many), where in zip(split, number, strict=True):
        if many > 1:
            start, end = ranges.get(dim, (np.zeros(total * pieces, np.int64), np.int64(nest.sizes[dim])))
            grain, place = nest.grain.get(dim, 1), np.tile(where, total)
            size = -(-(end - start) // grain)
            low, high = start + place * size // many * grain, start + (place + 1) * size // many * grain
            ranges[dim] = (low, high) if grain == 1 else (np.minimum(low, end), np.minimum(high, end))
    return StepRanges(total * pieces, total, pieces, ranges)


def axis_range(index: Index, length: int, nest: LoopNest, steps: StepRanges) -> tuple[I64 | int, I64 | int, bool]:
    """(start, end, varies) of one axis of an operand in every step, clipped to the tensor."""
    if not index.terms:  # one position only, or any: then data says which
        return 0, length, False
    low: I64 | int = index.offset
    high: I64 | int = index.offset + 1
    varies = False
    for name, factor in index.terms:
        if name in steps.ranges:
            start, end = steps.ranges[name]
            varies = True
        else:
            start, end = 0, nest.sizes[name]  # type: ignore[assignment]
        low = low + (factor * start if factor > 0 else factor * (end - 1))
        high = high + (factor * (end - 1) if factor > 0 else factor * start)
    if varies:
        return np.clip(low, 0, length), np.clip(high, 0, length), True
    return max(0, int(low)), min(length, int(high)), False


def box_elements(operand: Operand, nest: LoopNest, steps: StepRanges) -> I64:
    """Elements of an operand that every step touches."""
    count = np.ones(steps.count, np.int64)
    for axis in range(len(operand.indices)):
        count = count * _extent(operand, axis, nest, steps)
    return count


def _extent(operand: Operand, axis: int, nest: LoopNest, steps: StepRanges) -> I64:
    """Positions of an axis of an operand that every step touches."""
    if operand.picks and operand.picks.axis == axis:
        many = np.ones(steps.count, np.int64)
        for dim in operand.picks.dims:
            low, high = steps.ranges.get(dim, (0, nest.sizes[dim]))
            many = many * (high - low)
        return np.minimum(operand.shape[axis], many)
    low, high, _ = axis_range(operand.indices[axis], operand.shape[axis], nest, steps)
    return np.asarray(np.maximum(1, np.asarray(high) - np.asarray(low)))


def box_rows(operand: Operand, tensor: Tensor, nest: LoopNest, steps: StepRanges) -> I64:
    """Pieces of consecutive elements in which the box of every step lies: the innermost axis of which it is only a part
    ends them."""
    rows = np.ones(steps.count, np.int64)
    ended = np.zeros(steps.count, bool)
    for axis in sorted(range(len(tensor.shape)), key=lambda axis: tensor.strides[axis]):
        many = _extent(operand, axis, nest, steps)
        if operand.picks and operand.picks.axis == axis:
            ended |= True  # each position may lie anywhere
        rows = np.where(ended, rows * many, rows)
        ended |= many < tensor.shape[axis]
    return rows


def step_nest(nest: LoopNest, steps: StepRanges, number: int) -> LoopNest:
    """The nest of one step: lengths of its ranges, windows clipped as they lie."""
    return _part(nest, steps.of_step(number))


@lru_cache(maxsize=8192)
def _part(nest: LoopNest, ranges: tuple[tuple[str, int, int], ...]) -> LoopNest:
    return known_nest(nest.part({dim: (low, high) for dim, low, high in ranges}))


def shape_classes(nest: LoopNest, steps: StepRanges) -> tuple[I64, I64]:
    """Steps of equal shape: (class of every step, first step of every class)."""
    if steps.whole:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    columns = [high - low for low, high in steps.ranges.values()]
    for operand in nest.operands:
        for index, length in zip(operand.indices, operand.shape, strict=True):
            names = [name for name, factor in index.terms if factor]
            if len(names) < 2 and index.offset >= 0:
                continue
            if not any(name in steps.ranges for name in names):
                continue
            low = index.offset + sum(
                factor * (steps.ranges[name][0] if name in steps.ranges else 0) for name, factor in index.terms
            )
            high = index.offset + sum(
                factor * ((steps.ranges[name][1] if name in steps.ranges else nest.sizes[name]) - 1)
                for name, factor in index.terms
            )
            columns += [np.minimum(low, 0), np.maximum(high - length + 1, 0)]
    table = np.stack(np.broadcast_arrays(*columns), axis=1)
    _, first, classes = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return classes.reshape(-1), first


# --- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """What each of the cores that work together has of a storage. ``boxes``: by step and piece, (start, end) along
    every axis; None where it cannot be said. ``own``: by block, bytes in the memory of the core that has most."""

    cores: tuple[str, ...]
    tiles: int
    boxes: I64 | None
    own: I64

    @cached_property
    def content(self) -> tuple[Any, ...]:
        """Equal for equal ones."""
        return self.cores, self.tiles, None if self.boxes is None else self.boxes.tobytes(), self.own.tobytes()


@dataclass(frozen=True)
class Grid:
    """A storage cut into blocks along the axes of ``tensor``. ``edges``: for each cut axis the starts of its intervals
    and the end of the last one. ``base`` is the number of its first block."""

    tensor: Tensor
    edges: Mapping[int, I64]
    base: int
    regions: I64 | None = None  # recomputed halo: bytes of one block per tile; they overlap
    layout: Layout | None = None  # how cores that work together have it in their memories

    @property
    def counts(self) -> tuple[int, ...]:
        """Intervals along each cut axis."""
        return tuple(len(axis_edges) - 1 for axis_edges in self.edges.values())

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.regions) if self.regions is not None else math.prod(self.counts)

    @cached_property
    def content(self) -> tuple[Any, ...]:
        """How it is cut, whatever the storage is called and wherever its blocks are."""
        edges = tuple((axis, edge.tobytes()) for axis, edge in self.edges.items())
        regions = None if self.regions is None else self.regions.tobytes()
        layout = None if self.layout is None else self.layout.content
        return self.tensor.shape, self.tensor.strides, edges, regions, layout

    def sizes(self, total_bytes: int) -> I64:
        """Bytes of every block; they add up to ``total_bytes`` exactly, unless they overlap."""
        if self.regions is not None:
            return self.regions
        if not self.edges:
            return np.array([total_bytes], np.int64)
        shares = np.ones(1)
        for axis, edge in self.edges.items():
            shares = np.outer(shares, np.diff(edge) / self.tensor.shape[axis]).ravel()
        ends = np.rint(np.cumsum(shares) * total_bytes).astype(np.int64)
        return np.diff(ends, prepend=0)


@dataclass(frozen=True)
class Touch:
    """Blocks that every step touches, as CSR, and the share of the step's box that lies in each."""

    pointer: I64
    block: I64
    share: F64


def cut_axes(operand: Operand, nest: LoopNest, steps: StepRanges) -> dict[int, I64]:
    """Edges of the axes of an operand that differ from step to step: where a step's box starts."""
    edges: dict[int, I64] = {}
    if steps.whole:
        return edges
    for axis, (index, length) in enumerate(zip(operand.indices, operand.shape, strict=True)):
        low, _, varies = axis_range(index, length, nest, steps)
        if varies:
            starts = np.unique(low)
            starts = starts[(starts > 0) & (starts < length)]
            if len(starts):
                edges[axis] = np.concatenate(([0], starts, [length]))
    return edges


def axis_map(seen: Tensor, cut: Tensor) -> dict[int, int] | None:
    """Axis of ``cut`` → axis of ``seen`` when both address the same elements the same way; None if they do not."""
    if seen.shape == cut.shape and seen.strides == cut.strides and seen.offset == cut.offset:
        return {axis: axis for axis in range(len(cut.shape))}
    if seen.elements != cut.elements:
        return None
    here = [(axis, size) for axis, size in enumerate(seen.shape) if size > 1]
    there = [(axis, size) for axis, size in enumerate(cut.shape) if size > 1]
    same = [size for _, size in here] == [size for _, size in there]
    if same and [seen.strides[a] for a, _ in here] == [cut.strides[a] for a, _ in there]:
        return {b: a for (a, _), (b, _) in zip(here, there, strict=True)}
    return None


def touched_blocks(operand: Operand, seen: Tensor, nest: LoopNest, steps: StepRanges, grid: Grid) -> Touch:
    """The blocks of a storage that each step touches through ``operand``. Where a view runs across the axes of blocks
    there may be more than that, and all where an operand has other axes than its tensor."""
    if grid.regions is None and not grid.edges:
        return Touch(np.arange(steps.count + 1), np.full(steps.count, grid.base), np.ones(steps.count))
    if grid.regions is not None or len(operand.indices) != len(seen.shape) or not _is_dense(grid.tensor):
        every = np.arange(grid.base, grid.base + grid.count)
        sizes = grid.sizes(2**40) / grid.sizes(2**40).sum()
        return Touch(np.arange(steps.count + 1) * grid.count, np.tile(every, steps.count), np.tile(sizes, steps.count))
    axes = axis_map(seen, grid.tensor)
    firsts, lasts, lows, highs = [], [], [], []
    low: I64 | int
    high: I64 | int
    for axis, edge in grid.edges.items():
        if axes is None:
            low, high = _range_across(operand, seen, nest, steps, grid.tensor.strides[axis], grid.tensor.shape[axis])
        else:
            here = axes.get(axis, axis)
            low, high, _ = axis_range(operand.indices[here], seen.shape[here], nest, steps)
        low, high = (
            np.broadcast_to(low, steps.count),
            np.broadcast_to(np.maximum(high, np.asarray(low) + 1), steps.count),
        )
        firsts.append(np.searchsorted(edge, low, side="right") - 1)
        lasts.append(np.minimum(np.searchsorted(edge, high, side="left"), len(edge) - 1))
        lows.append(low)
        highs.append(high)
    return _enumerate(grid, firsts, lasts, lows, highs, steps.count)


def _is_dense(tensor: Tensor) -> bool:
    """Whether its elements lie without gaps, in whatever order of its axes."""
    expected = 1
    for stride, size in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _range_across(
    operand: Operand, seen: Tensor, nest: LoopNest, steps: StepRanges, stride: int, length: int
) -> tuple[I64, I64]:
    """(start, end) on an axis of the storage, with its stride and length, of what every step touches through a view
    with other axes: tokens of all samples as rows, heads of a part of the columns. From the first element to the last
    on that axis; all of it where they lie in different turns of it."""
    around = stride * length
    low = np.full(steps.count, seen.offset % around)
    high = low.copy()
    for here, (size, step) in enumerate(zip(seen.shape, seen.strides, strict=True)):
        if step % around:  # others leave the position on this axis as it is
            start, end, _ = axis_range(operand.indices[here], size, nest, steps)
            low = low + np.asarray(start) * step
            high = high + (np.maximum(end, np.asarray(start) + 1) - 1) * step
    wraps = low // around != high // around
    return np.where(wraps, 0, low % around // stride), np.where(wraps, length, high % around // stride + 1)


def _enumerate(grid: Grid, firsts: list[I64], lasts: list[I64], lows: list[I64], highs: list[I64], count: int) -> Touch:
    widths = [last - first for first, last in zip(firsts, lasts, strict=True)]
    many = np.ones(count, np.int64)
    for width in widths:
        many = many * width
    pointer = np.concatenate(([0], np.cumsum(many)))
    step = np.repeat(np.arange(count), many)
    rank = np.arange(pointer[-1]) - pointer[step]
    number = np.zeros(len(step), np.int64)
    share = np.ones(len(step))
    scale = grid.count
    inner = many[step]
    for edge, first, width, low, high in zip(grid.edges.values(), firsts, widths, lows, highs, strict=True):
        scale //= len(edge) - 1
        inner = inner // width[step]
        at = first[step] + rank // inner % width[step]
        number += at * scale
        overlap = np.minimum(edge[at + 1], high[step]) - np.maximum(edge[at], low[step])
        share *= overlap / (high[step] - low[step])
    return Touch(pointer, grid.base + number, share)
