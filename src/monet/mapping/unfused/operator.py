"""An operator alone, its operands in DRAM: a fusion group of one. Chooses the DRAM-level tile and adds up its tiles.

Everything below the border comes from the mapper, tile by tile. What crosses it is counted here and kept apart:

* Tiles run in one loop order. A slot's tile stays while only loops run that do not move it, and slides along the
  innermost of them; inputs are read from DRAM when they enter, sums written when they leave, read when they return.
* A top memory holds two tiles of every operand whose tile changes, so that transfers overlap with the array.
* An input that the core can only read transposed after an explicit transpose goes through DRAM once more.
* Cells of an analog array are loaded while the array waits.
* Streamed slots are fetched from DRAM in every tile, as often as the mapper asks.
* Cycles = first tiles in + max(array over all tiles, what passes meanwhile) + last tile out, in whole bursts of DRAM
  (``monet.mapping.unfused.dram_route``): no wire is ever oversubscribed.

The tile is chosen among divisors (at most ``MOST_TILES`` per dimension; filter taps are never split) by an estimate
that is exact in DRAM traffic; the best of them, at most ``FINALISTS``, are mapped until the estimate of the next is
no better than the best found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, replace

import numpy as np

from monet.formats import whole_bytes
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Core, Flow
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.mapper.parts import Parts, best_parts, has_phases
from monet.mapping.mapper.search import NO_CONSTRAINTS, Mapped, Target, cached_tiling, frames
from monet.mapping.mapper.tiling import Constraints
from monet.mapping.nest.bias import bias_bits, bias_cost, bias_elements
from monet.mapping.nest.cost import Access, tile_elements
from monet.mapping.nest.footprint import Extent, tables
from monet.mapping.nest.frame import Crossing, Frame
from monet.mapping.nest.mapping import Binding, Loop, Mapping
from monet.mapping.nest.phases import phases
from monet.mapping.nest.prices import known_prices, prices_of
from monet.mapping.nest.spatial import footprints_of, frame_of
from monet.mapping.nest.tiles import Tiles, TileShape, tiles_of
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.border_traffic import Crossed, Memories, Moved, crossed, moved_bits
from monet.mapping.unfused.dram_route import OperandCost, UnfusedCost
from monet.mapping.unfused.tile_candidates import SPARE, TileOrder, tile_arrays
from monet.mapping.unfused.tile_ranking import SLACK, rank_tiles, taken_cycles
from monet.mapping.unfused.tile_totals import TileSums, sum_tiles

FINALISTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfused(UnfusedCost):
    """A matrix operator alone."""

    below: Below
    serial_cycles: float  # of loading cells, which the array waits for
    array: Core  # of the core, its own or its lanes
    binding: Binding
    order: tuple[Loop, ...]  # loops over tiles, outermost first
    tile: tuple[tuple[str, int], ...]
    shapes: tuple[TileShape, ...]
    mapped: Mapped  # of the most frequent tile, or of its first phase
    mapped_nest: LoopNest  # what that maps
    phases: int  # in which each tile is run one after another (``nest.phases``); 1: as it stands
    macs: int
    units: int
    copied_bytes: int  # of transposing copies in DRAM

    @property
    def utilisation(self) -> float:
        """Share of the array's multiply-accumulate slots that do work."""
        return self.macs / (self.units * self.cycles)

    @property
    def array_cycles(self) -> float:
        """Cycles of the array alone, its first fill included where it declares one; no other wait, no DRAM."""
        tiles = self.array.output_tiles
        return self.compute_cycles + (tiles.first_fill_cycles if tiles else 0)

    def score(self, objective: str) -> float:
        """What an objective asks to be small; ``throughput`` is about tiles, not about arrays to choose from."""
        if objective in ("latency", "throughput"):
            return self.cycles
        return {"energy": self.energy_j, "edp": self.cycles * self.energy_j}[objective]


def unfused(
    nest: LoopNest,
    core: Core,
    border: Border,
    objective: str = "latency",
    constraints: Constraints = NO_CONSTRAINTS,
    *,
    store: CostStore,
) -> Unfused:
    """The best way found to run ``nest`` on ``core`` from and to DRAM. A strided scatter runs as it stands or, where
    that is better, phase by phase in every tile. Objective ``throughput``: every tile is done soonest, as for
    ``latency``, but they are cut so that core and wires have the least to do together."""
    target = _target(nest, core, border, objective, constraints)
    direct = _unfused(nest, target, border, objective, False, store)
    if not has_phases(nest, target):
        return direct
    try:
        phased = _unfused(nest, target, border, objective, True, store)
    except DoesNotFit:
        return direct
    return min(direct, phased, key=lambda found: found.score(objective))


def _unfused(nest: LoopNest, target: Target, border: Border, goal: str, phased: bool, store: CostStore) -> Unfused:
    bench, choice, across = _chosen(nest, target, border, goal, phased, store)
    return _add_up(nest, bench.below(choice), choice, target.core, border, across)


def below_border(nest: LoopNest, core: Core, border: Border, objective: str, store: CostStore) -> tuple[Below, float]:
    """What ``unfused`` finds as far as it does not depend on what passes the border, and cycles of loading cells, which
    the array waits for."""
    target = _target(nest, core, border, objective, NO_CONSTRAINTS)
    if has_phases(nest, target):
        found = unfused(nest, core, border, objective, store=store)
        return found.below, found.serial_cycles
    bench, choice, across = _chosen(nest, target, border, objective, False, store)
    return bench.below(choice), across.serial_cycles


def _target(nest: LoopNest, core: Core, border: Border, objective: str, constraints: Constraints) -> Target:
    border.check_room(nest)
    inside = "latency" if objective == "throughput" else objective
    return Target(core, inside, border.stream if core.streamed else None, constraints)


def _chosen(
    nest: LoopNest, target: Target, border: Border, goal: str, phased: bool, store: CostStore
) -> tuple[_Bench, _Choice, Crossed]:
    """The best tile that is found, and what crosses the border for it."""
    constraints, key = target.constraints, (nest, target, border.memories, phased)
    bench = store[BENCHES].get_or(key, lambda: _Bench(*key, store))
    arrays, uncertain = bench.arrays, bench.uncertain
    keep = 3 * FINALISTS if uncertain else FINALISTS
    scored, ranked = np.empty(keep), np.empty((keep, len(arrays.dims) + 2), np.int64)
    rank_tiles(arrays.priced(bench.fixed_prices, border, goal), scored, ranked)
    scores = scored.tolist()
    if not math.isfinite(scores[0]):
        if constraints != NO_CONSTRAINTS:
            raise MappingError(f"no tile that fits satisfies the constraints: {nest}")
        raise _does_not_fit(nest, bench.frame, border)
    best: tuple[float, _Choice, Crossed] | None = None
    problem: DoesNotFit | None = None
    last: dict[str, int] = {}
    for number, score in enumerate(scores):
        settled = best is not None and score >= best[0] and not (uncertain and number < FINALISTS)
        if settled or not math.isfinite(score):
            break
        tiling = arrays.tiling(ranked[number])
        if number and score == scores[number - 1] and tiling.mirrored == last:
            continue  # rows and columns changed over
        last = tiling.tile
        if uncertain and best is not None and _least_score(bench, border, goal, tiling) > best[0] * SLACK:
            continue
        try:
            choice = bench.choice(tiling)
        except DoesNotFit as error:  # the estimate knows the cells of an analog array only as a whole
            problem = error
            continue
        across = crossed(choice.moved, border, choice.run.frame.binding, bench.prices)
        found = _score(bench, border, goal, choice, across)
        if best is None or found < best[0]:
            best = found, choice, across
    if best is None:
        assert problem is not None
        raise problem
    return bench, best[1], best[2]


def unfused_as(
    nest: LoopNest,
    core: Core,
    border: Border,
    tile: Dictionary[str, int],
    order: tuple[str, ...],
    mapping: Mapping,
    *,
    store: CostStore,
) -> Unfused:
    """Cost of a mapping written by hand, as it stands: loops over tiles in ``order``, ``mapping`` for each tile."""
    sizes = {dim: size for dim, size in nest.dims if size > 1}
    unknown = [dim for dim in (*tile, *order) if dim not in sizes]
    if unknown:
        raise MappingError(f"dram: the nest has no dimension {unknown[0]!r}; it has {', '.join(sizes)}")
    whole = {dim: min(tile.get(dim, size), size) for dim, size in sizes.items()}
    counts = {dim: -(-size // whole[dim]) for dim, size in sizes.items()}
    missing = [dim for dim, count in counts.items() if count > 1 and dim not in order]
    if missing:
        raise MappingError(f"dram: {missing[0]} is split into {counts[missing[0]]} tiles but is not in the order")
    for dim, grain in nest.grain.items():
        if counts.get(dim, 1) > 1 and whole[dim] % grain:
            groups = f"groups of {grain} elements that share a scale"
            raise MappingError(f"dram: tiles of {whole[dim]} along {dim} cut {groups}; take a multiple")
    loops = tuple(Loop(dim, counts[dim]) for dim in order if counts[dim] > 1)
    tiles = tiles_of(nest, whole)
    frame = frame_of(tiles.steady.nest, core, mapping.mode, mapping.binding, mapping.unrolled, border.stream)
    _check_room(nest, core, border, mapping.binding, whole, counts)
    moved = moved_bits(nest, core, border.memories, border.stream, mapping.binding, loops, whole, store)
    count = math.prod(loop.trips for loop in loops)
    choice = _Choice(b"", loops, whole, count, tiles, Parts(((frame, mapping),), 0.0, 0.0), moved)
    totals = sum_tiles(nest, tiles, choice.run, Target(core, "", border.stream), store)
    prices = prices_of(core, border.stream if core.streamed else None)
    across = crossed(moved, border, mapping.binding, prices)
    return _add_up(nest, _below(nest, choice, totals, core, store), choice, core, border, across)


def _check_room(
    nest: LoopNest, core: Core, border: Border, binding: Binding, tile: dict[str, int], counts: Dictionary[str, int]
) -> None:
    flat, used = frame_of(nest, core, core.modes[0].name, binding, (), border.stream), dict[str, float]()
    for slot, name, level in border.memories:
        elements = tile_elements(flat, Crossing(slot, level, None, 1, 1, 1), tile)
        twice = 2 if any(counts[dim] > 1 for dim in flat.footprints[slot].dims) else 1
        needed = elements * flat.bits[slot] * twice
        free = level.total_bytes * 8 - used.get(name, 0)
        if needed > free:
            raise DoesNotFit(binding.operand(slot), name, whole_bytes(needed), whole_bytes(free, down=True))
        used[name] = used.get(name, 0) + needed


# --- the finalists ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """A tile with its loop order and the mapping of its most frequent shape: nothing here depends on DRAM, unless the
    core streams from it."""

    key: bytes  # see ``TileOrder``
    order: tuple[Loop, ...]
    tile: dict[str, int]
    count: int  # of tiles
    tiles: Tiles
    run: Parts  # of the most frequent tile
    moved: Moved


class _Bench:
    """All that stays when only DRAM or the way to it changes: the tiles to choose from, and those looked at so far.
    ``phased``: they run phase by phase."""

    def __init__(self, nest: LoopNest, target: Target, memories: Memories, phased: bool, store: CostStore) -> None:
        self.nest, self.target, self.memories, self.phased, self.store = nest, target, memories, phased, store
        whole = target._replace(resident=False)
        self.whole = best_parts(nest, whole, store, phased=phased)
        self.frame = self.whole.frame if not phased else cached_tiling(nest, whole, store)[0]
        self.arrays = tile_arrays(self.frame, memories, target.constraints, self.whole.frame.factors)
        self.counts = self.whole.cost
        self.streams = {slot: self.counts.stream_bits(slot) for slot in target.core.streamed}
        self.prices = known_prices(target.core, target.stream, store)
        leakage = self.prices.leakage_j_per_cycle
        self.fixed_prices = self.arrays.fixed_prices(memories, self.whole.energy_j, leakage, self.streams, self.counts)
        # of some tiles the estimate knows less: analog cells, phases, ports that bind, inputs transposed in every tile
        binds = self.counts.bound_by != "compute" or self.frame.transpose_cycles > 0
        self.uncertain = target.core.weights_resident or phased or binds
        self._choices: dict[bytes, _Choice] = {}
        self._below: dict[bytes, Below] = {}

    def tiles(self, tiling: TileOrder) -> Tiles:
        """The nest cut into tiles: the same nests for every core, so what they know of themselves is found once."""
        key = self.nest, tuple(tiling.tile.items())
        return self.store[TILES].get_or(key, lambda: tiles_of(self.nest, tiling.tile))

    def moved(self, tiling: TileOrder, binding: Binding) -> Moved:
        """What passes the border."""
        if binding not in tiling.known:
            core, stream = self.target.core, self.target.stream
            tiling.known[binding] = moved_bits(
                self.nest, core, self.memories, stream, binding, tiling.order, tiling.tile, self.store
            )
        found: Moved = tiling.known[binding]
        return found

    def array_cycles(self, tiling: TileOrder) -> float:
        """Cycles of the best arrays for all tiles, each counted as the most frequent."""
        key = "array cycles", self.phased, self.target.limit
        if key not in tiling.known:
            target, steady = self.target, self.tiles(tiling).steady.nest
            parts = (phases(steady) if self.phased else ()) or (steady,)
            every = (frames(part, target.core, target.stream, self.store, target.limit) for part in parts)
            tiling.known[key] = sum(best.compute_cycles for best, *_ in every) * tiling.tiles
        found: float = tiling.known[key]
        return found

    def choice(self, tiling: TileOrder) -> _Choice:
        """A tile and its loops, with its most frequent shape mapped."""
        found = self._choices.get(tiling.key)
        if found is None:
            tiles = self.tiles(tiling)
            run = best_parts(tiles.steady.nest, self.target, self.store, phased=self.phased)
            moved = self.moved(tiling, run.frame.binding)
            found = _Choice(tiling.key, tiling.order, tiling.tile, tiling.tiles, tiles, run, moved)
            self._choices[tiling.key] = found
        return found

    def below(self, choice: _Choice) -> Below:
        """All tiles of a choice together."""
        found = self._below.get(choice.key)
        if found is None:
            totals = sum_tiles(self.nest, choice.tiles, choice.run, self.target, self.store)
            found = self._below[choice.key] = _below(self.nest, choice, totals, self.target.core, self.store)
        return found


BENCHES = Section[_Bench]("tiles to choose from", 1024)
TILES = Section[Tiles]("tiles of nests", 4096)


def _score(bench: _Bench, border: Border, goal: str, choice: _Choice, across: Crossed) -> float:
    """The score of a finalist, all tiles counted as the most frequent one."""
    streamed: float = 0
    core_cycles = choice.run.cycles
    if bench.streams:
        counts = choice.run.cost
        streamed, core_cycles = sum(counts.stream_bits(slot) for slot in bench.streams) * choice.count, counts.cycles
    busy = across.passing_cycles + streamed / border.bits_per_cycle
    edges = across.first_cycles + across.last_cycles
    in_core = core_cycles * choice.count + across.serial_cycles
    joules = choice.run.energy_j * choice.count + math.fsum(across.joules.values())
    return _score_of(bench, border, goal, in_core, busy, edges, joules)


def _least_score(bench: _Bench, border: Border, goal: str, tiling: TileOrder) -> float:
    """A score that a tile cannot be under, whatever its mapping: the best arrays for its most frequent shape, and what
    passes the border."""
    binding = bench.frame.binding
    across = crossed(bench.moved(tiling, binding), border, binding, bench.prices)
    edges, in_core = across.first_cycles + across.last_cycles, bench.array_cycles(tiling)
    joules = across.joules["dram"] + across.joules["link"]
    return _score_of(bench, border, goal, in_core, across.passing_cycles, edges, joules)


def _score_of(
    bench: _Bench, border: Border, goal: str, in_core: float, busy: float, edges: float, joules: float
) -> float:
    """What finalists are compared by: cycles in the core, over the wires, and of first and last tiles; joules."""
    if goal == "throughput":
        cycles = taken_cycles(in_core, busy, edges - 2 * border.latency_cycles)
    else:
        cycles = edges + max(in_core, busy - edges)
    if goal in ("latency", "throughput"):
        return cycles * (1 + SPARE * joules / bench.whole.energy_j)
    return joules + bench.prices.leakage_j_per_cycle * cycles if goal == "energy" else cycles * joules


@dataclass(frozen=True, slots=True)
class Below:
    """A matrix operator alone, as far as it does not depend on what passes the border. ``number``: one for each."""

    number: int
    array: Core  # of the core, its own or its lanes
    binding: Binding
    totals: TileSums
    compute_cycles: float
    core_cycles: float  # with all stalls but those at the border
    operands: tuple[OperandCost, ...]
    border_accesses: tuple[Access, ...]

    @property
    def mode(self) -> str:
        """Of the array."""
        return self.totals.mapped.mapping.mode


def _below(nest: LoopNest, choice: _Choice, totals: TileSums, core: Core, store: CostStore) -> Below:
    compute = _compute_cycles(nest, choice, totals, core)
    cycles = totals.counts.cycles + (compute - totals.counts.compute_cycles)
    operands, binding = _operands_of(nest, choice, totals), choice.run.frame.binding
    return Below(store.next_number(), core, binding, totals, compute, cycles, operands, choice.moved.accesses)


def _add_up(nest: LoopNest, below: Below, choice: _Choice, core: Core, border: Border, across: Crossed) -> Unfused:
    """All tiles with what crosses the border for them."""
    read, written, totals = choice.moved.read_bits, choice.moved.write_bits, below.totals
    for access in totals.counts.accesses:  # streams are DRAM traffic
        if access.level == "stream":
            read += access.bits if access.flow.is_read else 0
            written += 0 if access.flow.is_read else access.bits
    copied_bytes = whole_bytes(choice.moved.copied, down=True)
    passed, joules = border.pass_operands(nest, below.operands, core, copied_bytes)
    return Unfused(
        below=below,
        serial_cycles=across.serial_cycles,
        array=core,
        binding=below.binding,
        order=choice.order,
        tile=tuple(choice.tile.items()),
        shapes=totals.shapes,
        mapped=totals.mapped,
        mapped_nest=choice.run.frame.nest,
        phases=len(choice.run.parts),
        macs=totals.macs,
        units=totals.mapped.cost.units,
        compute_cycles=below.compute_cycles,
        core_cycles=below.core_cycles + across.serial_cycles,
        core_bound_by=totals.mapped.cost.bound_by,
        dispatch_cycles=core.dispatch_cycles,
        operands=below.operands,
        copied_bytes=copied_bytes,
        passing=passed,
        dram_read_bits=read,
        dram_write_bits=written,
        accesses=totals.counts.accesses,
        border_accesses=choice.moved.accesses,
        energy_j_by_level=dict(totals.joules),
        border_energy_j=joules,
    )


def _compute_cycles(nest: LoopNest, choice: _Choice, totals: TileSums, core: Core) -> float:
    """Cycles of the array over all tiles. Sums that stay in it until they are done do not notice when the memory that
    feeds it goes on to other operands: output tiles are those of the whole operator, however it is cut for DRAM."""
    if core.output_tiles is None:
        return totals.counts.compute_cycles
    run = choice.run.frame
    return replace(run, nest=nest, footprints=footprints_of(nest, run.binding)).compute_cycles


def with_bias(found: Unfused, nest: LoopNest, dtype: str, core: Core, border: Border) -> Unfused:
    """An operator alone that adds a bias to its results."""
    cost, more = bias_cost(nest, dtype, core)
    operands, below = (*found.operands, cost), dict(found.energy_j_by_level)
    for level, joules in more.items():
        below[level] = below.get(level, 0.0) + joules
    passing, across = border.pass_operands(nest, operands, core, found.copied_bytes)
    bits, name = bias_bits(nest, dtype), core.top("O").name
    elements = bias_elements(nest)
    return replace(
        found,
        operands=operands,
        passing=passing,
        dram_read_bits=found.dram_read_bits + bits,
        accesses=(*found.accesses, Access(name, "O", Flow.FEED, elements, bits, float(bits))),
        border_accesses=(*found.border_accesses, Access(name, "O", Flow.FILL, elements, bits, float(bits))),
        energy_j_by_level=below,
        border_energy_j=across,
    )


def _operands_of(nest: LoopNest, choice: _Choice, totals: TileSums) -> tuple[OperandCost, ...]:
    """What crosses the border for every operand; what is streamed past the memory depends on the mapping too."""
    held, binding, operands = {moved.slot: moved for moved in choice.moved.operands}, choice.run.frame.binding, []
    for operand in nest.operands:
        slot = binding.slot(operand.name)
        if slot in held:
            operands.append(held[slot])
            continue
        bits = sum(access.bits for access in totals.counts.accesses if access.level == "stream" and access.slot == slot)
        operands.append(OperandCost(slot, whole_bytes(bits, down=True), 0, 0, 0, True))
    return tuple(operands)


def _does_not_fit(nest: LoopNest, frame: Frame, border: Border) -> MappingError:
    """The first operand that even in its smallest tile finds no room; if each does, that none fits them all."""
    used: dict[str, int] = {}
    for slot, name, level in border.memories:
        footprint = frame.footprints[slot]
        smallest = math.prod(
            int(
                tables(
                    w, Extent(frame.sizes[w.u]), Extent(frame.sizes.get(w.v, 1)), (1,), (frame.sizes.get(w.v, 1),)
                ).largest[0, 0]
            )
            for w in footprint.windows
        )
        taps = {window.v for touched in frame.footprints.values() for window in touched.windows}
        smallest *= math.prod(frame.sizes[dim] for dim in footprint.plain if dim in taps)
        needed = whole_bytes(smallest * frame.bits[slot] * 2)
        free = level.total_bytes - used.get(name, 0)
        if needed > free:
            return DoesNotFit(frame.binding.operand(slot), name, needed, free)
        used[name] = used.get(name, 0) + needed
    sizes = {name: level.total_bytes for _, name, level in border.memories}
    listed = ", ".join(f"{name} ({size:,} bytes, at least {used[name]:,} needed)" for name, size in sizes.items())
    return MappingError(f"no tile whose operands all fit was found: {listed}")
