"""All tiles of an operator alone together, at and below the top memories of its core."""

from __future__ import annotations

from dataclasses import dataclass

from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Flow
from monet.mapping.cost_store import CostStore
from monet.mapping.errors import DoesNotFit
from monet.mapping.mapper.parts import Parts, best_parts
from monet.mapping.mapper.search import NO_CONSTRAINTS, Mapped, Target, cached_tiling, evaluate
from monet.mapping.nest.cost import Access, Cost, frame_cost
from monet.mapping.nest.frame import Frame
from monet.mapping.nest.mapping import Loop, Mapping, Unrolled
from monet.mapping.nest.prices import Prices, known_prices
from monet.mapping.nest.spatial import known_frame
from monet.mapping.nest.tiles import Tiles, TileShape


@dataclass(frozen=True, slots=True)
class TileCounts:
    """Counts of all tiles; ``products``: multiply-accumulates by operand types."""

    compute_cycles: float
    cycles: float
    accesses: tuple[Access, ...]
    products: tuple[tuple[tuple[str, str], int], ...]

    def joules(self, prices: Prices) -> dict[str, float]:
        """By level and ``compute``; streams are DRAM's."""
        joules = {"compute": sum(macs * prices.mac_j[inputs] for inputs, macs in self.products)}
        for access in self.accesses:
            if access.level != "stream":
                spent = access.billed_bits * prices.per_bit(access.level, access.flow.is_read)
                joules[access.level] = joules.get(access.level, 0.0) + spent
        return joules


@dataclass(frozen=True, slots=True)
class TileSums:
    """All tiles together."""

    shapes: tuple[TileShape, ...]
    mapped: Mapped  # of the most frequent tile
    macs: int
    counts: TileCounts
    joules: dict[str, float]


def sum_tiles(nest: LoopNest, tiles: Tiles, run: Parts, target: Target, store: CostStore) -> TileSums:
    """All tiles together; ``run`` is the most frequent one. Without an objective its mapping is given, and a tile that
    it does not fit is an error."""
    prices = known_prices(target.core, target.stream, store)
    if len(run.parts) == 1 and run.frame.nest == tiles.steady.nest:
        counts = _counts(tiles, run.frame, run.mapping, target, store)
    else:
        counts = _phased_counts(tiles, target, store)
    return TileSums(tiles.shapes, evaluate(run.frame, run.mapping, prices), nest.points, counts, counts.joules(prices))


def _phased_counts(tiles: Tiles, target: Target, store: CostStore) -> TileCounts:
    """Every phase of every tile, mapped by itself."""
    return _add(
        [
            (shape.count, frame, frame_cost(frame, mapping))
            for shape in tiles.shapes
            for frame, mapping in best_parts(shape.nest, target, store, phased=True).parts
        ]
    )


def _counts(tiles: Tiles, frame: Frame, mapping: Mapping, target: Target, store: CostStore) -> TileCounts:
    key = ("tiles", tiles.shapes, mapping)
    known: TileCounts | None = frame.known.get(key)
    if known is not None:
        return known
    parts, searched = [(tiles.shapes[0].count, frame, frame_cost(frame, mapping))], False
    for shape in tiles.shapes[1:]:
        fitted = fit_mapping(mapping, shape.nest)
        array = fitted.mode, fitted.binding, fitted.unrolled
        other = known_frame(shape.nest, target.core, *array, target.stream, store)
        try:
            counts = frame_cost(other, fitted)
        except DoesNotFit:  # its windows are wider than the steady tile's: a mapping of its own
            if not target.objective:
                raise
            other, tiling = cached_tiling(shape.nest, target._replace(constraints=NO_CONSTRAINTS), store)
            counts, searched = frame_cost(other, tiling.mapping), True
        parts.append((shape.count, other, counts))
    found = _add(parts)
    if not searched:  # else it depends on the core's energies
        frame.known[key] = found
    return found


def _add(parts: list[tuple[int, Frame, Cost]]) -> TileCounts:
    accesses: dict[tuple[str, str, Flow], list[float]] = {}
    products: dict[tuple[str, str], int] = {}
    for count, frame, cost in parts:
        inputs = frame.rate.inputs
        products[inputs] = products.get(inputs, 0) + count * cost.macs
        for access in cost.accesses:
            row = accesses.setdefault((access.level, access.slot, access.flow), [0, 0, 0.0])
            row[0] += count * access.elements
            row[1] += count * access.bits
            row[2] += count * access.billed_bits
    return TileCounts(
        sum(count * cost.compute_cycles for count, _, cost in parts),
        sum(count * cost.cycles for count, _, cost in parts),
        tuple(Access(*key, int(row[0]), row[1], row[2]) for key, row in accesses.items()),
        tuple(products.items()),
    )


def fit_mapping(mapping: Mapping, nest: LoopNest) -> Mapping:
    """The same mapping for a smaller tile: factors and trips cut down to what is left of each dimension."""
    unrolled, left = [], dict(nest.dims)
    for unrolling in mapping.unrolled:
        factor = min(unrolling.factor, left[unrolling.dim])
        if factor > 1:
            unrolled.append(Unrolled(unrolling.axis, unrolling.dim, factor))
            left[unrolling.dim] = -(-left[unrolling.dim] // factor)
    trips = [1] * len(mapping.loops)
    for i in reversed(range(len(mapping.loops))):
        dim = mapping.loops[i].dim
        outermost = not any(loop.dim == dim for loop in mapping.loops[:i])
        trips[i] = left[dim] if outermost else min(mapping.loops[i].trips, left[dim])
        left[dim] = -(-left[dim] // trips[i])
    loops = tuple(Loop(loop.dim, count) for loop, count in zip(mapping.loops, trips, strict=True))
    return Mapping(mapping.mode, mapping.binding, tuple(unrolled), loops, mapping.cuts)
