"""An operator alone, its operands in DRAM: a fusion group of one. Chooses the DRAM-level tile and adds up its tiles.

Everything below the border comes from the mapper, tile by tile. What crosses it is counted here and kept apart:

* Tiles run in one loop order. A slot's tile stays while only loops run that do not move it, and slides along the
  innermost of them; inputs are read from DRAM when they enter, sums written when they leave, read when they return.
* A top memory holds two tiles of every operand whose tile changes, so that transfers overlap with the array.
* An input that the core can only read transposed after an explicit transpose goes through DRAM once more.
* Cells of an analog array are loaded while the array waits.
* Streamed slots are fetched from DRAM in every tile, as often as the mapper asks.
* Cycles = first tiles in + max(array over all tiles, DRAM) + last tile out: the DRAM channel is never oversubscribed.

The tile is chosen among divisors (at most ``MOST_TILES`` per dimension; filter taps are never split) by an estimate
that is exact in DRAM traffic; the best of them, at most ``FINALISTS``, are mapped until the estimate of the next is
no better than the best found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import OPERANDS, Core, Flow, MemoryLevel
from monet.mapping.border import Border
from monet.mapping.cost import Access, Cost, entries, frame_cost, tile_elements
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.footprint import Extent, Window, divisors, footprint, tables
from monet.mapping.frame import Crossing, Frame, Stream
from monet.mapping.mapping import Binding, Loop, Mapping, Unrolled
from monet.mapping.search import NO_CONSTRAINTS, Mapped, cached_tiling, evaluate
from monet.mapping.spatial import MAX_UNROLLINGS, frame_of, mirror_of
from monet.mapping.tile_kernel import rank_tiles
from monet.mapping.tile_nest import Tiles, TileShape, tiles_of
from monet.mapping.tiling import OBJECTIVES, Constraints

Memories = tuple[tuple[str, str, MemoryLevel], ...]  # slot, name, level: the top memories of a border
MOST_TILES, FINALISTS = 6, 8
SPARE = 1e-3  # at objective latency, doubling the energy counts as 0.1 % of the cycles


@dataclass(frozen=True, slots=True)
class Alone:
    """One operator alone. Bits and joules at the border are apart from those below it."""

    binding: Binding
    order: tuple[Loop, ...]  # loops over tiles, outermost first
    tile: tuple[tuple[str, int], ...]
    shapes: tuple[TileShape, ...]
    mapped: Mapped  # of the most frequent tile
    macs: int
    units: int
    compute_cycles: float
    core_cycles: float  # array with its stalls, over all tiles
    fill_cycles: float  # first tiles in, and dispatch
    drain_cycles: float  # last tile out
    dram_cycles: float  # the channel's busy time
    dram_read_bits: int
    dram_write_bits: int
    accesses: tuple[Access, ...]  # below the border, over all tiles
    border_accesses: tuple[Access, ...]  # at the top memories, from and to DRAM
    energy_j_by_level: dict[str, float]  # below the border, with ``compute``
    border_energy_j: dict[str, float]  # ``dram``, ``link`` and the top memories' side of transfers

    @property
    def cycles(self) -> float:
        """Latency in cycles of the core."""
        middle = self.dram_cycles - self.fill_cycles - self.drain_cycles
        return self.fill_cycles + max(self.core_cycles, middle) + self.drain_cycles

    @property
    def energy_j(self) -> float:
        """Dynamic energy, DRAM included."""
        return math.fsum((*self.energy_j_by_level.values(), *self.border_energy_j.values()))

    @property
    def bound_by(self) -> str:
        """``dram``, or what bounds the most frequent tile."""
        middle = self.dram_cycles - self.fill_cycles - self.drain_cycles
        return "dram" if middle > self.core_cycles else self.mapped.cost.bound_by

    @property
    def utilisation(self) -> float:
        """Share of the array's multiply-accumulate slots that do work."""
        return self.macs / (self.units * self.cycles)


def alone(
    nest: LoopNest, core: Core, border: Border, objective: str = "latency", constraints: Constraints = NO_CONSTRAINTS
) -> Alone:
    """The best way found to run ``nest`` on ``core`` from and to DRAM."""
    border.check_room(nest)
    source = border.stream if core.streamed else None
    bench = _bench(nest, core, border.memories, objective, source, constraints)
    frame, whole, arrays, counts = bench.frame, bench.whole, bench.arrays, bench.counts
    streams = {slot: counts.stream_bits(slot) for slot in core.streamed}
    prices = arrays.prices(border, objective, whole.energy_j, streams, counts)
    rank: Callable[..., tuple[Any, Any]] = rank_tiles
    # of some tiles the estimate knows less: analog cells, ports that bind, inputs transposed in every tile
    uncertain = core.weights_resident or counts.bound_by != "compute" or frame.transpose_cycles > 0
    scores, rows = rank(*arrays.arguments, *prices, 3 * FINALISTS if uncertain else FINALISTS)
    if not math.isfinite(scores[0]):
        if constraints != NO_CONSTRAINTS:
            raise MappingError(f"no tile that fits satisfies the constraints: {nest}")
        raise _does_not_fit(nest, frame, border)
    best: tuple[float, _Plan] | None = None
    problem: DoesNotFit | None = None
    mirror, last = mirror_of(frame.footprints, frame.sizes), dict[str, int]()
    for number, (score, row) in enumerate(zip(scores, rows, strict=True)):
        settled = best is not None and score >= best[0] and not (uncertain and number < FINALISTS)
        if settled or not math.isfinite(score):
            break
        tile = arrays.tile(row)
        if (
            number
            and score == scores[number - 1]
            and {mirror.get(dim, dim): size for dim, size in tile.items()} == last
        ):
            continue  # rows and columns changed over
        last = tile
        try:
            plan = _plan(bench, border, row)
        except DoesNotFit as error:  # the estimate knows the cells of an analog array only as a whole
            problem = error
            continue
        if best is None or plan.score < best[0]:
            best = plan.score, plan
    if best is None:
        assert problem is not None
        raise problem
    return _add_up(bench.sums(best[1].choice), core, border)


def alone_as(
    nest: LoopNest, core: Core, border: Border, tile: Dictionary[str, int], order: tuple[str, ...], mapping: Mapping
) -> Alone:
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
    loops = tuple(Loop(dim, counts[dim]) for dim in order if counts[dim] > 1)
    tiles = tiles_of(nest, whole)
    frame = frame_of(tiles.steady().nest, core, mapping.mode, mapping.binding, mapping.unrolled, border.stream)
    _check_room(nest, core, border, mapping.binding, whole, counts)
    moved = _moved(nest, core, border.memories, border.stream, mapping.binding, loops, whole)
    choice = _Choice(loops, whole, tiles, frame, mapping, 0.0, 0.0, moved)
    return _add_up(_sums(nest, core, border.stream, choice), core, border)


def _check_room(
    nest: LoopNest,
    core: Core,
    border: Border,
    binding: Binding,
    tile: dict[str, int],
    counts: Dictionary[str, int],
) -> None:
    flat, used = frame_of(nest, core, core.modes[0].name, binding, (), border.stream), dict[str, int]()
    for slot, name, level in border.memories:
        elements = tile_elements(flat, Crossing(slot, level, None, 1, 1, 1), tile)
        twice = 2 if any(counts[dim] > 1 for dim in flat.footprints[slot].dims) else 1
        needed = elements * flat.bits[slot] * twice
        free = level.total_bytes * 8 - used.get(name, 0)
        if needed > free:
            raise DoesNotFit(binding.operand(slot), name, -(-needed // 8), free // 8)
        used[name] = used.get(name, 0) + needed


# --- choosing the tile ------------------------------------------------------------------------------------------------


def dram_tiles(size: int, taps: bool) -> tuple[int, ...]:
    """Tiles of a dimension that DRAM traffic may be cut into."""
    if taps:
        return (size,)
    found = list(divisors(size))
    if len(found) < 4 and size > 4:
        found = sorted({*found, *(-(-size // m) for m in (2, 4, 8, 16, 64, 256) if m < size)})
    if len(found) > MOST_TILES:
        picks = {round(i * (len(found) - 1) / (MOST_TILES - 1)) for i in range(MOST_TILES)}
        found = [found[i] for i in sorted(picks)]
    return tuple(found)


def _in_padding(window: Window, size: int, tile: int) -> bool:
    """Whether the first or the last tile of a window over one dimension lies outside the tensor altogether."""
    last = (size - 1) // tile * tile
    return tile < size and (
        window.offset + window.a * (tile - 1) < 0 or window.offset + window.a * last >= window.length
    )


class _TileArrays:
    """Arrays for the ranking kernel."""

    def __init__(self, nest: LoopNest, frame: Frame, memories: Memories, constraints: Constraints) -> None:
        self.nest, self.frame, self.dims = nest, frame, tuple(frame.sizes)
        self.stationary = constraints.stationary
        touched = [frame.footprints[slot] for slot in OPERANDS]
        # taps of a window; where one row of outputs is left, the window has only its taps to move it
        taps = {window.v or window.u for one in touched for window in one.windows}
        alone = [window for one in touched for window in one.windows if not window.v]
        self.tiles = tuple(
            tuple(
                tile
                for tile in dram_tiles(frame.sizes[dim], dim in taps)
                if not any(window.u == dim and _in_padding(window, frame.sizes[dim], tile) for window in alone)
            )
            for dim in self.dims
        )
        many = max(map(len, self.tiles), default=1)
        index = {dim: d for d, dim in enumerate(self.dims)}
        counts, steps = np.ones((len(self.dims), many)), np.ones((len(self.dims), many))
        for d, (dim, sizes) in enumerate(zip(self.dims, self.tiles, strict=True)):
            size, factor, values = frame.sizes[dim], frame.factors[dim], np.array(sizes)
            counts[d, : len(sizes)] = -(-size // values)
            steps[d, : len(sizes)] = size // values * -(-values // factor) + -(-(size % values) // factor)
        most = max(1, *(len(one.windows) for one in touched))
        windows_of = np.array([len(one.windows) for one in touched], np.int64)
        window_dims = np.full((3, most, 2), -1, np.int64)
        widths = np.ones((3, max(1, len(self.dims)) * many))
        wide = many if windows_of.any() else 1
        largest, total = np.ones((3, most, wide, wide)), np.ones((3, most, wide, wide))
        kept_u, kept_v = np.zeros((3, most, wide, wide, wide)), np.zeros((3, most, wide, wide, wide))
        for s, one in enumerate(touched):
            for dim in one.plain:
                row = index[dim] * many
                widths[s, row : row + len(self.tiles[index[dim]])] = self.tiles[index[dim]]
            for w, window in enumerate(one.windows):
                window_dims[s, w] = index[window.u], index.get(window.v, -1)
                u, v = Extent(frame.sizes[window.u]), Extent(frame.sizes.get(window.v, 1))
                tiles_u, tiles_v = self.tiles[index[window.u]], self.tiles[index[window.v]] if window.v else (1,)
                found, a, b = tables(window, u, v, tiles_u, tiles_v), len(tiles_u), len(tiles_v)
                largest[s, w, :a, :b], total[s, w, :a, :b] = found.largest, found.total
                kept_u[s, w, :a, :a, :b], kept_v[s, w, :b, :b, :a] = found.kept_u, found.kept_v
        for s, slot in enumerate(OPERANDS):  # a tile that the constraints forbid has no room
            for d, most in self._limits(slot, memories, constraints):
                forbidden = np.array(self.tiles[d]) > most
                widths[s, d * many : d * many + len(forbidden)][forbidden] = np.inf
                for w, (u, v) in enumerate(window_dims[s]):
                    if u == d:
                        largest[s, w, : len(forbidden)][forbidden] = np.inf
                    elif v == d:
                        largest[s, w, :, : len(forbidden)][:, forbidden] = np.inf
        relevant = np.array([[dim in one.dims for dim in self.dims] for one in touched], np.uint8)
        plain = np.array([[dim in one.plain for dim in self.dims] for one in touched], np.uint8)
        self.arguments: tuple[Any, ...] = (
            np.array([len(sizes) for sizes in self.tiles], np.int64), counts, steps,
            relevant.reshape(3, -1), plain.reshape(3, -1), widths,
            windows_of, window_dims, largest, total, kept_u, kept_v,
        )  # fmt: skip

    def _limits(self, slot: str, memories: Memories, constraints: Constraints) -> list[tuple[int, int]]:
        """(dimension, largest tile) that the constraints ask of a slot's tile in its top memory."""
        level = next((level for name, _, level in memories if name == slot), None)
        dims = self.frame.footprints[slot].dims
        return [
            (self.dims.index(dim), most)
            for name, dim, most in constraints.tiles
            if level is not None and name in ("", level.name) and dim in dims and dim in self.dims
        ]

    def prices(
        self, border: Border, objective: str, joules: float, streams: Dictionary[str, int], counts: Cost
    ) -> tuple[Any, ...]:
        """Per slot: elements over plain dimensions, bits of one, memory (-1: streamed), room in it, bits streamed,
        joules per bit coming in and going out, results, cycles of transposing it, whether it may enter
        only once. Scalars: cycles per bit, latency, joules below the border, leakage per cycle, objective, cycles per
        step, bits of a result, cycles that every tile adds, weight of energy, cycles of array and ports.
        """
        overhead = counts.fill_cycles + counts.drain_cycles - self.frame.transpose_cycles
        busy = counts.cycles - counts.fill_cycles - counts.drain_cycles
        frame, names = self.frame, [name for _, name, _ in border.memories]
        per_slot = np.zeros((3, 10))
        turning = frame.core.transposed_read.cycles_per_element if frame.transpose_cycles else 0.0
        source = border.stream
        for s, slot in enumerate(OPERANDS):
            level = border.memory_of(slot)
            plain = math.prod(frame.sizes[dim] for dim in frame.footprints[slot].plain)
            memory = -1 if level is None else names.index(_memory_name(border, slot))
            room = 0 if level is None else level.total_bytes * 8
            if level is not None and level.instances > 1:  # analog cells: those in use, one tile, no second to fill
                room = 2 * level.size_bytes * 8 * frame.used_instances(level)
            fill = level.write_energy_j_per_bit if level else 0.0
            drain = level.read_energy_j_per_bit if level else 0.0
            per_slot[s] = (
                plain, frame.bits[slot], memory, room, streams.get(slot, 0), source.read_energy_j_per_bit + fill,
                source.write_energy_j_per_bit + drain, frame.distinct_results if slot == "O" else 0,
                turning * frame.elements(slot) if slot in frame.transposed else 0.0,
                frame.binding.operand(slot) in self.stationary,
            )  # fmt: skip
        scalars = np.array(
            [
                1 / border.bits_per_cycle,
                2 * border.latency_cycles,
                joules,
                frame.core.leakage_w / frame.core.clock_hz,
                OBJECTIVES.index(objective),
                frame.compute_cycles / math.prod(frame.steps.values()),
                frame.result_bits,
                overhead,
                SPARE,
                busy,
            ]
        )
        return per_slot, scalars

    def tile(self, row: Any) -> dict[str, int]:
        """Tile sizes that a row of the kernel's answer stands for."""
        return {dim: tiles[pick] for dim, tiles, pick in zip(self.dims, self.tiles, row[2:], strict=True)}

    def order(self, row: Any) -> tuple[Loop, ...]:
        """Loops over tiles: those that leave the stationary slot in place innermost, the sliding one last."""
        tile, stays = self.tile(row), self.frame.footprints[OPERANDS[row[0]]].dims
        counts = {dim: -(-self.frame.sizes[dim] // tile[dim]) for dim in self.dims}
        sliding = self.dims[row[1]] if row[1] >= 0 else ""
        outer = [dim for dim in self.dims if counts[dim] > 1 and dim in stays]
        inner = [dim for dim in self.dims if counts[dim] > 1 and dim not in stays and dim != sliding]
        return tuple(Loop(dim, counts[dim]) for dim in (*outer, *inner, *((sliding,) if sliding else ())))


def _memory_name(border: Border, slot: str) -> str:
    return next(name for one, name, _ in border.memories if one == slot)


# --- the finalists ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """A tile with its loop order and the mapping of its most frequent shape: nothing here depends on DRAM, unless the
    core streams from it."""

    order: tuple[Loop, ...]
    tile: dict[str, int]
    tiles: Tiles
    frame: Frame
    mapping: Mapping
    cycles: float
    energy_j: float
    moved: _Moved


@dataclass(frozen=True, slots=True)
class _Plan:
    score: float
    choice: _Choice


class _Bench:
    """All that stays when only DRAM or the way to it changes: the tiles to choose from, and those looked at so far."""

    def __init__(
        self, nest: LoopNest, core: Core, memories: Memories, objective: str, source: Stream | None, limits: Constraints
    ) -> None:
        self.nest, self.core, self.memories, self.objective = nest, core, memories, objective
        self.source, self.constraints = source, limits
        self.frame, self.whole = cached_tiling(nest, core, objective, source, limits, MAX_UNROLLINGS, resident=False)
        self.arrays = _TileArrays(nest, self.frame, memories, limits)
        self.counts = frame_cost(self.frame, self.whole.mapping)
        self._choices: dict[tuple[int, ...], _Choice] = {}
        self._sums: dict[int, _Sums] = {}

    def choice(self, row: Any) -> _Choice:
        """A row of the kernel's answer, with its most frequent tile mapped."""
        key = tuple(row.tolist())
        if key not in self._choices:
            tile, order = self.arrays.tile(row), self.arrays.order(row)
            tiles = _tiles_of(self.nest, tuple(tile.items()))
            frame, tiling = cached_tiling(
                tiles.steady().nest, self.core, self.objective, self.source, self.constraints, MAX_UNROLLINGS
            )
            moved = _moved(self.nest, self.core, self.memories, self.source, frame.binding, order, tile)
            self._choices[key] = _Choice(
                order, tile, tiles, frame, tiling.mapping, tiling.cycles, tiling.energy_j, moved
            )
        return self._choices[key]

    def sums(self, choice: _Choice) -> _Sums:
        """All tiles of a choice together."""
        if id(choice) not in self._sums:  # choices live as long as the bench does
            self._sums[id(choice)] = _sums(self.nest, self.core, self.source, choice, self.objective)
        return self._sums[id(choice)]


@lru_cache(maxsize=4096)
def _tiles_of(nest: LoopNest, tile: tuple[tuple[str, int], ...]) -> Tiles:
    """The same nests for every core, so that what is known of them by identity stays known."""
    return tiles_of(nest, dict(tile))


@lru_cache(maxsize=1024)
def _bench(
    nest: LoopNest, core: Core, memories: Memories, objective: str, source: Stream | None, constraints: Constraints
) -> _Bench:
    return _Bench(nest, core, memories, objective, source, constraints)


def _plan(bench: _Bench, border: Border, row: Any) -> _Plan:
    """A finalist with its most frequent tile mapped; the score counts all tiles as that one."""
    choice, core, objective = bench.choice(row), bench.core, bench.objective
    crossed = _crossed(choice.moved, border)
    tiles = math.prod(loop.trips for loop in choice.order)
    streamed, core_cycles = 0, choice.cycles
    if core.streamed:
        counts = frame_cost(choice.frame, choice.mapping)
        streamed, core_cycles = sum(counts.stream_bits(slot) for slot in core.streamed) * tiles, counts.cycles
    busy = (choice.moved.read_bits + choice.moved.write_bits + streamed) / border.bits_per_cycle
    edges = crossed.first_cycles + crossed.last_cycles
    cycles = edges + max(core_cycles * tiles + crossed.serial_cycles, busy - edges)
    joules = choice.energy_j * tiles + math.fsum(crossed.joules.values())
    if objective == "latency":
        score = cycles * (1 + SPARE * joules / bench.whole.energy_j)
    else:
        score = joules + core.leakage_w / core.clock_hz * cycles if objective == "energy" else cycles * joules
    return _Plan(score, choice)


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bits between DRAM and the top memories over all tiles. ``first``: of every input's first tile; ``last``: of the
    last results; ``serial``: of cells that are loaded while the array waits."""

    read_bits: int
    write_bits: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    serial: tuple[int, ...]
    accesses: tuple[Access, ...]
    joules: tuple[tuple[str, float], ...]  # of the top memories


def _moved(
    nest: LoopNest,
    core: Core,
    memories: Memories,
    source: Stream | None,
    binding: Binding,
    order: tuple[Loop, ...],
    tile: Dictionary[str, int],
) -> _Moved:
    """What passes between DRAM and the top memories over all tiles; streams are not in it."""
    flat = frame_of(nest, core, core.modes[0].name, binding, (), source)
    loops = (*order, *(Loop(dim, size) for dim, size in tile.items()))
    read, written = 0, 0
    first, last, serial = list[int](), list[int](), list[int]()
    accesses: list[Access] = []
    for slot, _, level in memories:
        crossing = Crossing(slot, level, None, 1, 1, 1)
        entered = entries(flat, crossing, loops, len(order))
        held, bits = tile_elements(flat, crossing, dict(tile)), flat.bits[slot]
        if slot != "O":
            read += entered * bits
            first.append(held * bits)
            if level.instances > 1:
                serial.append((entered - held) * bits)
            accesses.append(Access(level.name, slot, Flow.FILL, entered, entered * bits, entered * bits))
            continue
        again = entered - flat.distinct_results
        out = again * bits + flat.distinct_results * flat.result_bits
        read, written = read + again * bits, written + out
        last.append(held * flat.result_bits)
        accesses.append(Access(level.name, slot, Flow.FILL, again, again * bits, again * bits))
        accesses.append(Access(level.name, slot, Flow.DRAIN, entered, out, out))
    if core.transposed_read.kind == "explicit":  # a transposing copy of its own: once more through DRAM
        copied = sum(flat.elements(slot) * flat.bits[slot] for slot in flat.transposed)
        read, written = read + copied, written + copied
    joules = []
    for access in accesses:
        level = core.level(access.level)
        per_bit = level.read_energy_j_per_bit if access.flow.is_read else level.write_energy_j_per_bit
        joules.append((access.level, access.bits * per_bit))
    return _Moved(read, written, tuple(first), tuple(last), tuple(serial), tuple(accesses), tuple(joules))


@dataclass(frozen=True, slots=True)
class _Crossed:
    first_cycles: float
    last_cycles: float
    joules: dict[str, float]
    serial_cycles: float  # loading cells, which the array waits for


def _crossed(moved: _Moved, border: Border) -> _Crossed:
    """Cycles and joules of what passes between DRAM and the top memories."""
    first = last = border.latency_cycles
    serial = 0.0
    for bits in moved.first:
        first += bits / border.bits_per_cycle
    for bits in moved.last:
        last += bits / border.bits_per_cycle
    for bits in moved.serial:
        serial += bits / border.bits_per_cycle
    read, written = moved.read_bits, moved.write_bits
    joules: dict[str, float] = {
        "dram": read * border.read_energy_j_per_bit + written * border.write_energy_j_per_bit,
        "link": (read + written) * border.link_energy_j_per_bit,
    }
    for level, spent in moved.joules:
        joules[level] = joules.get(level, 0.0) + spent
    return _Crossed(first, last, joules, serial)


# --- adding up --------------------------------------------------------------------------------------------------------


def fit_mapping(mapping: Mapping, nest: LoopNest) -> Mapping:
    """The same mapping for a smaller tile: factors and trips cut down to what is left of each dimension."""
    unrolled, left = [], dict(nest.dims)
    for one in mapping.unrolled:
        factor = min(one.factor, left[one.dim])
        if factor > 1:
            unrolled.append(Unrolled(one.axis, one.dim, factor))
            left[one.dim] = -(-left[one.dim] // factor)
    trips = [1] * len(mapping.loops)
    for i in reversed(range(len(mapping.loops))):
        dim = mapping.loops[i].dim
        outermost = not any(loop.dim == dim for loop in mapping.loops[:i])
        trips[i] = left[dim] if outermost else min(mapping.loops[i].trips, left[dim])
        left[dim] = -(-left[dim] // trips[i])
    loops = tuple(Loop(loop.dim, count) for loop, count in zip(mapping.loops, trips, strict=True))
    return Mapping(mapping.mode, mapping.binding, tuple(unrolled), loops, mapping.cuts)


def _rare_tile(nest: LoopNest, core: Core, source: Stream | None, mapping: Mapping, objective: str) -> Mapped:
    """A tile of another shape: the steady tile's mapping cut to fit, or one of its own if its windows are wider."""
    fitted = fit_mapping(mapping, nest)
    try:
        return evaluate(frame_of(nest, core, fitted.mode, fitted.binding, fitted.unrolled, source), fitted)
    except DoesNotFit:
        if not objective:
            raise
    frame, tiling = cached_tiling(nest, core, objective, source, NO_CONSTRAINTS, MAX_UNROLLINGS)
    return evaluate(frame, tiling.mapping)


@dataclass(frozen=True, slots=True)
class _Sums:
    """All tiles together, at and below the top memories."""

    choice: _Choice
    shapes: tuple[TileShape, ...]
    mapped: Mapped
    macs: int
    compute_cycles: float
    cycles: float
    accesses: tuple[Access, ...]
    joules: dict[str, float]


def _sums(nest: LoopNest, core: Core, source: Stream | None, choice: _Choice, objective: str = "") -> _Sums:
    """All tiles together. Without an objective the mapping is given, and a tile that it does not fit is an error."""
    mapped, shapes = evaluate(choice.frame, choice.mapping), choice.tiles.shapes()
    parts = [(shapes[0].count, mapped)]
    for shape in shapes[1:]:
        parts.append((shape.count, _rare_tile(shape.nest, core, source, choice.mapping, objective)))
    below: dict[str, float] = {}
    accesses: dict[tuple[str, str, Flow], Access] = {}
    for count, one in parts:
        for level, joules in one.energy_j_by_level.items():
            below[level] = below.get(level, 0.0) + count * joules
        for access in one.cost.accesses:
            key = (access.level, access.slot, access.flow)
            old = accesses.get(key, Access(*key, 0, 0, 0.0))
            accesses[key] = Access(
                *key,
                old.elements + count * access.elements,
                old.bits + count * access.bits,
                old.billed_bits + count * access.billed_bits,
            )
    below.pop("stream", None)
    return _Sums(
        choice,
        shapes,
        mapped,
        nest.points,
        sum(count * one.cost.compute_cycles for count, one in parts),
        sum(count * one.cost.cycles for count, one in parts),
        tuple(accesses.values()),
        below,
    )


def _add_up(sums: _Sums, core: Core, border: Border) -> Alone:
    """All tiles with what crosses the border for them."""
    choice = sums.choice
    crossed = _crossed(choice.moved, border)
    read, written = choice.moved.read_bits, choice.moved.write_bits
    joules_across = dict(crossed.joules)
    for access in sums.accesses:  # streams are DRAM traffic
        if access.level == "stream":
            read += access.bits if access.flow.is_read else 0
            written += 0 if access.flow.is_read else access.bits
            per_bit = border.read_energy_j_per_bit if access.flow.is_read else border.write_energy_j_per_bit
            joules_across["dram"] += access.bits * per_bit
            joules_across["link"] += access.bits * border.link_energy_j_per_bit
    return Alone(
        choice.frame.binding,
        choice.order,
        tuple(choice.tile.items()),
        sums.shapes,
        sums.mapped,
        sums.macs,
        sums.mapped.cost.units,
        sums.compute_cycles,
        sums.cycles + crossed.serial_cycles,
        crossed.first_cycles + core.dispatch_cycles,
        crossed.last_cycles,
        (read + written) / border.bits_per_cycle,
        read,
        written,
        sums.accesses,
        choice.moved.accesses,
        dict(sums.joules),
        joules_across,
    )


def _does_not_fit(nest: LoopNest, frame: Frame, border: Border) -> DoesNotFit:
    """The first operand that even in its smallest tile finds no room."""
    used: dict[str, int] = {}
    worst: DoesNotFit | None = None
    for slot, name, level in border.memories:
        one = footprint(nest, frame.footprints[slot].operand)
        smallest = math.prod(
            int(
                tables(
                    w, Extent(frame.sizes[w.u]), Extent(frame.sizes.get(w.v, 1)), (1,), (frame.sizes.get(w.v, 1),)
                ).largest[0, 0]
            )
            for w in one.windows
        )
        taps = {window.v for touched in frame.footprints.values() for window in touched.windows}
        smallest *= math.prod(frame.sizes[dim] for dim in one.plain if dim in taps)
        needed = -(-smallest * frame.bits[slot] * 2 // 8)
        free = level.total_bytes - used.get(name, 0)
        worst = DoesNotFit(frame.binding.operand(slot), name, needed, free)
        if needed > free:
            return worst
        used[name] = used.get(name, 0) + needed
    assert worst is not None
    return worst
