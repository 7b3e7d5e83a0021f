"""The mapper: the best mapping of one loop nest on one core, over bindings, array modes, unrollings and tilings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from monet.formats import whole_bytes
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import ArrayMode, Core, CoreKind
from monet.hardware.rates import Rate
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.mapper.canonical import pack, unpack
from monet.mapping.mapper.tiling import OBJECTIVES, Constraints, Tiling, search_frame
from monet.mapping.nest.cost import Cost, energy_j, frame_cost, tile_elements
from monet.mapping.nest.footprint import Footprint
from monet.mapping.nest.frame import Frame, Stream
from monet.mapping.nest.mapping import Mapping, Unrolled
from monet.mapping.nest.output_tiles import grouped_sizes
from monet.mapping.nest.prices import Prices, known_prices, known_shape, stream_shape
from monet.mapping.nest.spatial import MAX_UNROLLINGS, bindings, footprints_of, known_frame, rate_of, unrollings

NO_CONSTRAINTS = Constraints()
CANDIDATES = Section[tuple[Frame, ...]]("frames to search", 2048)
_Found = tuple[LoopNest, Tiling]  # a tiling, and the nest whose names it has
TILINGS = Section[_Found]("tilings", 50_000)


class Target(NamedTuple):
    """What the best mapping of a nest is sought for. ``stream``: DRAM as the source of streamed slots. ``limit``: most
    unrollings of a binding and mode. ``resident``: the cells of an analog array must hold all weights."""

    core: Core
    objective: str = "latency"
    stream: Stream | None = None
    constraints: Constraints = NO_CONSTRAINTS
    limit: int = MAX_UNROLLINGS
    resident: bool = True


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping and its cost at and below the border. ``energy_j_by_level`` includes ``compute`` and ``stream``."""

    mapping: Mapping
    cost: Cost
    energy_j_by_level: dict[str, float]
    nodes: int = 0

    @property
    def energy_j(self) -> float:
        """Energy of arithmetic, levels and streams."""
        return math.fsum(self.energy_j_by_level.values())


def frames(
    nest: LoopNest, core: Core, stream: Stream | None, store: CostStore, limit: int = MAX_UNROLLINGS
) -> tuple[Frame, ...]:
    """The frames that the search looks at, the fastest arrays first: bindings × modes × their best unrollings. The same
    for all cores of a shape."""
    if core.kind is CoreKind.VECTOR or not core.modes:
        raise MappingError("a vector core has no array to map a loop nest of multiply-accumulates on")
    key = nest, known_shape(core, store), stream_shape(stream if core.streamed else None), limit
    return store[CANDIDATES].get_or(
        key, lambda: tuple(sorted(_every_frame(*key), key=lambda frame: frame.compute_cycles))
    )


def _every_frame(nest: LoopNest, core: Core, stream: Stream | None, limit: int) -> Iterator[Frame]:
    sizes = {name: size for name, size in nest.dims if size > 1}
    for binding in bindings(nest, core):
        touched, rate = footprints_of(nest, binding), rate_of(nest, core, binding)
        for mode in core.modes:
            for unrolled in _whole_groups(touched, sizes, core, mode, rate, limit):
                yield Frame(nest, core, rate, mode.name, mode.axes, binding, unrolled, stream, touched)


def _whole_groups(
    touched: dict[str, Footprint], sizes: dict[str, int], core: Core, mode: ArrayMode, rate: Rate, limit: int
) -> tuple[tuple[Unrolled, ...], ...]:
    """Unrollings that suit dimensions in whole groups, where elements share a scale; none is longer than its own."""
    longer = grouped_sizes(sizes, touched)
    found = unrollings(touched, longer, core, mode, rate, limit)
    if longer == sizes:
        return found
    shorter = []
    for unrolled in found:
        left, kept = dict(sizes), []
        for each in unrolled:
            factor = min(each.factor, left[each.dim])
            left[each.dim] = -(-left[each.dim] // factor)
            kept += [Unrolled(each.axis, each.dim, factor)] if factor > 1 else []
        shorter.append(tuple(kept))
    return tuple(dict.fromkeys(shorter))


def search(
    nest: LoopNest,
    core: Core,
    objective: str = "latency",
    stream: Stream | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
    limit: int = MAX_UNROLLINGS,
    *,
    store: CostStore,
) -> Mapped:
    """The best mapping for ``objective`` (latency, energy or edp). An operator that cannot run here is an error."""
    frame, found = cached_tiling(nest, Target(core, objective, stream, constraints, limit), store)
    return evaluate(frame, found.mapping, known_prices(core, stream, store), found.nodes)


def pareto(
    nest: LoopNest,
    core: Core,
    stream: Stream | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
    *,
    store: CostStore,
) -> tuple[Mapped, ...]:
    """The best mappings for latency, EDP and energy that do not dominate each other, fastest first."""
    objectives = ("latency", "edp", "energy")
    found = [search(nest, core, objective, stream, constraints, store=store) for objective in objectives]
    kept: list[Mapped] = []
    for candidate in sorted(found, key=lambda mapped: (mapped.cost.cycles, mapped.energy_j)):
        if not kept or candidate.energy_j < kept[-1].energy_j:
            kept.append(candidate)
    return tuple(kept)


def cached_tiling(nest: LoopNest, target: Target, store: CostStore) -> tuple[Frame, Tiling]:
    """``best_tiling_of``, looked up by content."""
    fresh: list[Frame] = []

    def compute() -> _Found:
        frame, tiling = best_tiling_of(nest, target, store)
        fresh.append(frame)
        return nest, tiling

    core, stream = target.core, target.stream
    asked = target._replace(stream=stream if core.streamed else None)  # without a streamed slot, DRAM changes nothing
    key = store.key("tiling", nest, *asked, by_name=target.constraints != NO_CONSTRAINTS)
    of, tiling = store.lasting(TILINGS, key, compute, _pack, lambda stored: _unpack(stored, nest))
    if fresh:
        return fresh[0], tiling
    if of != nest:  # equal up to names
        tiling = replace(tiling, mapping=unpack(pack(tiling.mapping, of), nest))
    mapping = tiling.mapping
    return known_frame(nest, core, mapping.mode, mapping.binding, mapping.unrolled, stream, store), tiling


def _pack(found: _Found) -> dict[str, Any]:
    nest, tiling = found
    counts = [tiling.score, tiling.cycles, tiling.energy_j, tiling.nodes]
    return {"counts": counts, "mapping": pack(tiling.mapping, nest)}


def _unpack(stored: dict[str, Any], nest: LoopNest) -> _Found:
    score, cycles, joules, nodes = stored["counts"]
    return nest, Tiling(score, cycles, joules, nodes, unpack(stored["mapping"], nest))


def evaluate(frame: Frame, mapping: Mapping, prices: Prices, nodes: int = 0) -> Mapped:
    """Cost and energy of a mapping in its frame."""
    counts = frame_cost(frame, mapping)
    return Mapped(mapping, counts, energy_j(frame, counts, prices), nodes)


def best_tiling_of(nest: LoopNest, target: Target, store: CostStore) -> tuple[Frame, Tiling]:
    """The frame and tiling that win; frames that cannot win are not searched."""
    core, objective, stream, constraints, limit, resident = target
    if objective not in OBJECTIVES:
        raise MappingError(f"unknown objective {objective!r}; allowed: {', '.join(OBJECTIVES)}")
    best: tuple[Frame, Tiling] | None = None
    prices = known_prices(core, stream, store)
    for frame in frames(nest, core, stream, store, limit):
        if best and objective == "latency" and frame.compute_cycles > best[1].score:
            break
        if resident and frame.overfull_cells():
            continue
        tiling = search_frame(frame, prices, objective, constraints, store, best[1].score if best else math.inf)
        if tiling and (best is None or tiling.score < best[1].score * (1 - 1e-12)):
            best = frame, tiling
    if best is None:
        _explain(nest, core, stream, limit, store)
    assert best is not None
    return best


def _explain(nest: LoopNest, core: Core, stream: Stream | None, limit: int, store: CostStore) -> None:
    """Raise the error that says why no frame works: the frame that needs the fewest bytes more."""
    shortest: DoesNotFit | None = None
    for frame in frames(nest, core, stream, store, limit):
        overfull = frame.overfull_cells()
        if overfull:
            shortest = DoesNotFit(frame.binding.operand(overfull[0]), core.top(overfull[0]).name, *overfull[1:])
        for crossing in frame.crossings:
            level = crossing.level
            needed = whole_bytes(tile_elements(frame, crossing, {}) * frame.bits[crossing.slot])
            if needed > level.tile_bytes:
                problem = DoesNotFit(frame.binding.operand(crossing.slot), level.name, needed, level.tile_bytes)
                if shortest is None or needed - level.tile_bytes < shortest.needed_bytes - shortest.offered_bytes:
                    shortest = problem
    if shortest:
        raise shortest
    raise MappingError(f"no mapping satisfies the constraints: {nest}")
