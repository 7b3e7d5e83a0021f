"""A loop nest on an array that works output tile by output tile (``hardware.output_tiles``): its cycles, and what the
array reads. A nest is a matrix product here: rows × summed by summed × columns, some number of times."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from monet.formats import format_named
from monet.graph.loop_nest import LoopNest
from monet.grouping import Group
from monet.hardware.core import Axis
from monet.hardware.output_tiles import OutputTiles
from monet.hardware.rates import Rate
from monet.mapping.nest.footprint import Footprint, footprints
from monet.mapping.nest.mapping import Unrolled

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Product:
    """A nest as a matrix product, by the lengths of its sides, each with its dimensions as one: ``rows`` index the
    first input and the output, ``columns`` the second input and the output, ``summed`` no output; ``repeats`` all."""

    rows: int
    columns: int
    summed: int
    repeats: int


def side_of(dim: str, touched: Mapping[str, Footprint]) -> str:
    """The side of the product that a dimension is on."""
    first, second, output = (dim in touched[slot].dims for slot in ("I", "W", "O"))
    return "summed" if not output else "repeats" if first == second else "rows" if first else "columns"


def product_of(sizes: Sizes, touched: Mapping[str, Footprint], col2im: bool = False) -> Product:
    """The product that a nest is. ``col2im``: an input gradient that walks the filter backwards over windows of dY is
    the product dY·Wᵀ instead, of as many multiplications, with the taps among its columns."""
    sides, taps = dict.fromkeys(("rows", "columns", "summed", "repeats"), 1), _backwards(touched) if col2im else {}
    for dim, size in sizes.items():
        sides[taps.get(dim, side_of(dim, touched))] *= size
    return Product(**sides)


def _backwards(touched: Mapping[str, Footprint]) -> dict[str, str]:
    """Dimensions that an input is walked backwards over, and the side that its own dimensions are on."""
    return {
        dim: side
        for slot, side in (("I", "rows"), ("W", "columns"))
        for index in touched[slot].operand.indices
        for dim, factor in index.terms
        if factor < 0
    }


def padded(product: Product, touched: Mapping[str, Footprint]) -> Product:
    """A product in whole groups, where elements share a scale: a vector group lies along what is summed, a square one
    along both sides of its operand."""
    groups = {"rows": 1, "columns": 1, "summed": 1}
    for slot, side in (("I", "rows"), ("W", "columns")):
        group = _multiplied_group(touched[slot].operand.dtype)
        if group is not None:
            groups["summed"] = max(groups["summed"], *group.extents)
            groups[side] = min(group.extents) if group.is_square else 1
    whole = {side: -(-getattr(product, side) // group) * group for side, group in groups.items()}
    return Product(**whole, repeats=product.repeats)


def _multiplied_group(dtype: str) -> Group | None:
    """The group that units take a format's elements in; none if only its storage has groups."""
    held = format_named(dtype)
    return held.group if held.element is not None else None


def grouped_sizes(sizes: dict[str, int], touched: Mapping[str, Footprint]) -> dict[str, int]:
    """Dimensions as an array works through them: those along which elements of an input share a scale are whole groups
    long."""
    found: dict[str, int] = {}
    for slot in ("I", "W"):
        for dim, extent in touched[slot].operand.grain(sizes).items():
            found[dim] = max(found.get(dim, 1), extent)
    return {dim: -(-size // found[dim]) * found[dim] if dim in found else size for dim, size in sizes.items()}


def multiplied(nest: LoopNest, tiles: OutputTiles | None) -> int:
    """Multiply-accumulates of a nest with those that only fill groups, on an array with such output tiles or none."""
    if not nest.points:
        return 0
    sizes = {dim: size for dim, size in nest.dims if size > 1}
    names = zip("IWO", (*nest.reads[:2], *nest.writes[:1]), strict=True)
    touched = {slot: footprints(nest)[operand.name] for slot, operand in names}
    if tiles is None or not tiles.flatten:
        return math.prod(grouped_sizes(sizes, touched).values())
    whole = padded(product_of(sizes, touched, tiles.col2im), touched)
    return whole.rows * whole.columns * whole.summed * whole.repeats


@dataclass(frozen=True, slots=True)
class Tiling:
    """Output tiles of a nest, counted by the positions that they take on every axis; each takes ``steps`` steps."""

    used: Mapping[tuple[int, ...], int]
    steps: int

    def cycles(
        self, axes: tuple[Axis, ...], cycles_per_step: float, tiles: OutputTiles, conflicts: float = 0.0
    ) -> float:
        """Cycles of all tiles, one after another; ``conflicts``: that each loses at the banks of a memory."""
        total = conflicts * sum(self.used.values())
        for used, count in self.used.items():
            skew = sum(length - 1 for axis, length in zip(axes, used, strict=True) if axis.systolic)
            total += count * tiles.tile_cycles(self.steps, cycles_per_step, skew)
        return total


def flattened_tiling(product: Product, axes: tuple[Axis, ...], rate: Rate) -> Tiling:
    """Tiles as wide as the axes: each side of the product lies along the axis that multicasts the other input."""
    lengths = [product.rows if "W" in axis.multicast else product.columns for axis in axes]
    parts = [_parts([(length, axis.size)]) for length, axis in zip(lengths, axes, strict=True)]
    return Tiling(_combined(parts, product.repeats), -(-product.summed // rate.products_per_step))


def unrolled_tiling(
    sizes: Sizes, touched: Mapping[str, Footprint], axes: tuple[Axis, ...], unrolled: tuple[Unrolled, ...]
) -> Tiling:
    """Tiles as wide as dimensions are unrolled on the axes; all other steps of the output are further tiles."""
    parts = [_parts([(sizes[each.dim], each.factor) for each in unrolled if each.axis == axis.name]) for axis in axes]
    placed = {each.dim: math.prod(other.factor for other in unrolled if other.dim == each.dim) for each in unrolled}
    on_axes = {each.dim for each in unrolled for axis in axes if each.axis == axis.name}
    further = steps = 1
    for dim, size in sizes.items():
        count = -(-size // placed.get(dim, 1))
        if side_of(dim, touched) == "summed":
            steps *= count
        elif dim not in on_axes:
            further *= count
    return Tiling(_combined(parts, further), steps)


def flattened_reads(product: Product, axes: tuple[Axis, ...], rate: Rate) -> dict[str, int]:
    """Elements that a flattening array asks of the innermost level of every slot: an input once for every tile of the
    other side; sums are added to once in every step."""
    width = {("W" if "W" in axis.multicast else "I"): axis.size for axis in axes}
    across = {"I": -(-product.columns // width["I"]), "W": -(-product.rows // width["W"])}
    steps = -(-product.summed // rate.products_per_step)
    return {
        "I": product.repeats * product.rows * product.summed * across["I"],
        "W": product.repeats * product.columns * product.summed * across["W"],
        "O": product.repeats * product.rows * product.columns * steps,
    }


def _combined(parts: list[Counter[int]], times: int) -> dict[tuple[int, ...], int]:
    return {
        tuple(used for used, _ in combination): times * math.prod(count for _, count in combination)
        for combination in itertools.product(*(part.items() for part in parts))
    }


def _parts(extents: list[tuple[int, int]]) -> Counter[int]:
    """Tiles along an axis by the positions they take, for (length, width) of all that lies on it."""
    found: Counter[int] = Counter({1: 1})
    for length, width in extents:
        whole, rest = divmod(length, width)
        longer: Counter[int] = Counter()
        for used, count in found.items():
            if whole:
                longer[used * width] += count * whole
            if rest:
                longer[used * rest] += count
        found = longer
    return found
