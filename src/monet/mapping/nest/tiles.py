"""Cut a loop nest into tiles: the sizes that a search tries, the distinct shapes that occur, and how often."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from monet.graph.loop_nest import LoopNest
from monet.mapping.nest.footprint import divisors, footprints

FEW = 4  # fewer divisors than this: tile sizes that leave a remainder are tried as well
Ranges = dict[str, tuple[int, int]]  # dimension → (start, end)


def tile_sizes(size: int, parts: Iterable[int], most: int, grain: int = 1) -> tuple[int, ...]:
    """Tiles to try for a dimension, ascending, 1 and all of it among them: divisors; where there are few, also the
    tiles that cut it into about equal ``parts``; of more than ``most``, a selection from all over. ``grain``: so many
    positions stay together."""
    if grain > 1:
        return tuple(min(grain * tile, size) for tile in tile_sizes(-(-size // grain), parts, most))
    found = set(divisors(size))
    if len(found) < FEW and size > FEW:
        found |= {-(-size // count) for count in parts if count < size}
    ordered = sorted(found)
    if len(ordered) > most:
        picks = {round(i * (len(ordered) - 1) / (most - 1)) for i in range(most)}
        ordered = [ordered[i] for i in sorted(picks)]
    return tuple(ordered)


@dataclass(frozen=True, slots=True)
class TileShape:
    """Tiles of one shape: their nest, and how many of them there are. The first shape is the most frequent one."""

    nest: LoopNest
    count: int


@dataclass(frozen=True)
class Tiles:
    """All tiles of a nest, not yet spelt out: for dimensions that vary together, a place where each of the tiles that
    differ lies, and how often it occurs."""

    nest: LoopNest
    choices: tuple[tuple[tuple[Ranges, int], ...], ...]

    @cached_property
    def steady(self) -> TileShape:
        """The most frequent tile."""
        return self._spell(tuple(places[0] for places in self.choices))

    @cached_property
    def shapes(self) -> tuple[TileShape, ...]:
        """All tiles, equal ones together, beginning with the most frequent one."""
        found: Counter[LoopNest] = Counter()
        for combination in itertools.product(*self.choices):
            shape = self._spell(combination)
            found[shape.nest] += shape.count
        return tuple(TileShape(nest, count) for nest, count in found.items())

    def _spell(self, combination: tuple[tuple[Ranges, int], ...]) -> TileShape:
        ranges = {dim: extent for place, _ in combination for dim, extent in place.items()}
        return TileShape(self.nest.part(ranges), math.prod(count for _, count in combination))


def tiles_of(nest: LoopNest, tile: Mapping[str, int]) -> Tiles:
    """Cut a nest into tiles. Dimensions that share a window vary together, all others alone."""
    windows = [
        (index, length)
        for operand in nest.operands
        for index, length in zip(operand.indices, operand.shape, strict=True)
        if any(dim in footprints(nest)[operand.name].window_dims for dim, _ in index.terms)
    ]
    groups: list[set[str]] = [{dim} for dim in nest.sizes]
    for index, _ in windows:
        sliding = {dim for dim, _ in index.terms}
        groups = [group for group in groups if not group & sliding] + [
            set().union(*(group for group in groups if group & sliding))
        ]
    pieces = {
        dim: [(start, min(start + tile.get(dim, size), size)) for start in range(0, size, tile.get(dim, size))]
        for dim, size in nest.dims
    }
    choices = []
    for dims in map(sorted, groups):
        mine = [(index, length) for index, length in windows if index.terms[0][0] in dims]
        places: dict[object, Ranges] = {}
        counts: Counter[object] = Counter()
        for combination in itertools.product(*(pieces[dim] for dim in dims)):
            place = dict(zip(dims, combination, strict=True))
            shape = (
                tuple(end - start for start, end in combination),
                tuple(index.within(length, place) for index, length in mine),
            )
            places.setdefault(shape, place)
            counts[shape] += 1
        choices.append(tuple((places[shape], count) for shape, count in counts.most_common()))
    return Tiles(nest, tuple(choices))
