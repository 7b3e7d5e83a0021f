"""Cut a loop nest into tiles: the distinct shapes that occur, and how often. Windows are clipped as they lie."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from monet.graph.loop_nest import Index, LoopNest, Operand
from monet.mapping.nest.footprint import Window, footprints


@dataclass(frozen=True, slots=True)
class TileShape:
    """Tiles of one shape: their nest, and how many of them there are. The first shape is the most frequent one."""

    nest: LoopNest
    count: int


@dataclass(frozen=True, slots=True)
class _Variant:
    """Lengths of some dimensions in a tile, and how the windows over them lie: (offset, length) by operand."""

    lengths: tuple[tuple[str, int], ...]
    spans: tuple[tuple[tuple[str, str, str], tuple[int, int]], ...]


def pieces(size: int, tile: int) -> list[tuple[int, int]]:
    """(start, length) of the tiles along a dimension."""
    return [(start, min(tile, size - start)) for start in range(0, size, tile)]


@dataclass(frozen=True)
class Tiles:
    """All tiles of a nest, not yet spelt out: for dimensions that vary together, what occurs and how often."""

    nest: LoopNest
    choices: tuple[tuple[tuple[_Variant, int], ...], ...]

    @cached_property
    def steady(self) -> TileShape:
        """The most frequent tile."""
        most = tuple(variants[0] for variants in self.choices)
        return TileShape(self._spell(most), math.prod(count for _, count in most))

    @cached_property
    def shapes(self) -> tuple[TileShape, ...]:
        """All tiles, equal ones together, beginning with the most frequent one."""
        found: Counter[LoopNest] = Counter()
        for combination in itertools.product(*self.choices):
            found[self._spell(combination)] += math.prod(count for _, count in combination)
        return tuple(TileShape(one, count) for one, count in found.items())

    def _spell(self, combination: tuple[tuple[_Variant, int], ...]) -> LoopNest:
        lengths: dict[str, int] = {}
        placed: dict[tuple[str, str, str], tuple[int, int]] = {}
        for variant, _ in combination:
            lengths.update(variant.lengths)
            placed.update(variant.spans)
        return _nest(self.nest, lengths, placed)


def tiles_of(nest: LoopNest, tile: Mapping[str, int]) -> Tiles:
    """Cut a nest into tiles."""
    sizes = nest.sizes
    windows = [
        ((operand.name, window), window)
        for operand in nest.operands
        for window in footprints(nest)[operand.name].windows
    ]
    choices = []
    for dims in _groups([set(window.dims) for _, window in windows], list(sizes)):
        mine = [one for one in windows if set(one[1].dims) <= dims]
        choices.append(tuple(_variants(sizes, tile, sorted(dims), mine).most_common()))
    return Tiles(nest, tuple(choices))


def _groups(sets: list[set[str]], dims: list[str]) -> list[set[str]]:
    """Dimensions that share a window vary together; all others alone."""
    groups: list[set[str]] = [{dim} for dim in dims]
    for joined in sets:
        touching = [group for group in groups if group & joined]
        groups = [group for group in groups if not group & joined] + [set().union(*touching)]
    return groups


def _variants(
    sizes: Mapping[str, int], tile: Mapping[str, int], dims: list[str], windows: list[tuple[tuple[str, Window], Window]]
) -> Counter[_Variant]:
    found: Counter[_Variant] = Counter()
    for combination in itertools.product(*(pieces(sizes[dim], tile.get(dim, sizes[dim])) for dim in dims)):
        at = dict(zip(dims, combination, strict=True))
        lengths = tuple((dim, length) for dim, (_, length) in at.items())
        spans = []
        for (operand, _), window in windows:
            low = window.offset + window.a * at[window.u][0]
            high = low + window.a * (at[window.u][1] - 1)
            if window.v:
                low += window.b * at[window.v][0]
                high += window.b * (at[window.v][0] + at[window.v][1] - 1)
            clipped = max(0, low), min(window.length - 1, high)
            spans.append(((operand, window.u, window.v), (low - clipped[0], max(1, clipped[1] - clipped[0] + 1))))
        found[_Variant(lengths, tuple(spans))] += 1
    return found


Placed = Mapping[tuple[str, str, str], tuple[int, int]]  # operand and window → (offset, length) inside the tile


def _nest(nest: LoopNest, lengths: Mapping[str, int], placed: Placed) -> LoopNest:
    dims = tuple((name, lengths.get(name, size)) for name, size in nest.dims)
    return LoopNest(dims, tuple(_operand(nest, one, lengths, placed) for one in nest.operands))


def _operand(nest: LoopNest, operand: Operand, lengths: Mapping[str, int], placed: Placed) -> Operand:
    windows = {(window.u, window.v) for window in footprints(nest)[operand.name].windows}
    shape, indices = [], []
    for index in operand.indices:
        names = tuple(name for name, factor in index.terms if factor and nest.sizes[name] > 1)
        key = (*names, "", "")[:2]
        if key in windows:
            offset, length = placed[operand.name, key[0], key[1]]
            shape.append(length)
            indices.append(Index(index.terms, offset))
            continue
        spans = [factor * (lengths.get(name, nest.sizes[name]) - 1) for name, factor in index.terms]
        reach, backwards = sum(map(abs, spans)), -sum(span for span in spans if span < 0)
        shape.append(reach + 1)
        indices.append(Index(index.terms, backwards))
    return replace(operand, shape=tuple(shape), indices=tuple(indices))
