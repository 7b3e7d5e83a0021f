"""Temporal search in one frame: arrays for the kernel in, a Mapping out.

The named space: uneven mappings. One loop order; every level of every slot is cut from it anywhere. Tiles (in steps of
the unrolled array) are divisors, or ceil(steps / m) where there are few; a tile divides the next larger one chosen,
unless that one is the whole dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from monet.arrays import F64, I64, U8, F64x2, I64x2, U8x3
from monet.hardware.core import OPERANDS
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.mapper.branch_and_bound import best_tiling
from monet.mapping.mapper.tiling_problem import (
    BEAT,
    BITS,
    CUT_COLUMNS,
    FEWEST_ENTRIES,
    JOULES_PER_ENTRY,
    MOST_ENTRIES,
    SMALLEST_TILE,
    TilingProblem,
)
from monet.mapping.nest.footprint import Extent, WindowTables, tables
from monet.mapping.nest.frame import Frame
from monet.mapping.nest.mapping import Cut, Loop, Mapping
from monet.mapping.nest.prices import Prices
from monet.mapping.nest.spatial import mirror_of
from monet.mapping.nest.tiles import tile_sizes

OBJECTIVES = ("latency", "energy", "edp")
PARTS, MOST_TILES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512), 10  # see ``tile_sizes``
MANY_TILINGS = 500  # tile combinations from which a coarse search first pays
LARGE, GAP = 1_000_000, 1e-7  # nests of more points than LARGE are searched to within GAP of the optimum
TIE = 1e-6  # relative weight of the second objective


@dataclass(frozen=True, slots=True)
class Constraints:
    """Parts of a mapping that the user pins. ``stationary``: operands that enter their levels only once. ``tiles``:
    (level, dimension, largest tile in elements) of the operands that the dimension indexes; level "": every level."""

    stationary: frozenset[str] = frozenset()
    tiles: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Tiling:
    """The best tiling of a frame: its score in the objective asked for, and the mapping. Next to a streamed slot,
    cycles allow for the other slots' share of the stream's bandwidth."""

    score: float
    cycles: float
    energy_j: float
    nodes: int
    mapping: Mapping


def candidate_tiles(steps: int) -> tuple[int, ...]:
    """Tiles that the search tries for a dimension of ``steps``, ascending; 1 and ``steps`` are among them."""
    return tile_sizes(steps, PARTS, MOST_TILES)


@dataclass(frozen=True)
class Arrays:
    """What the kernel takes, but for energies, and the names to read its answer with.

    Energies come in with ``flows`` (level, whether it is read) of all terms: bits of each that always move, and that
    move with an entry of each cut.
    """

    frame: Frame
    dims: tuple[str, ...]
    tiles: tuple[tuple[int, ...], ...]
    problem: TilingProblem  # without joules per entry and scalars
    flows: tuple[tuple[str, bool], ...]
    bits: F64  # [flow]
    bits_per_entry: F64x2  # [cut, flow]
    coarse: U8x3 | None  # tiles to search first, if there are many
    mirrored: tuple[int, int]  # two dimensions that may change places (with their taps), or (-1, -1)
    # answers of the kernel, spelt out: for other prices it is often the same one
    mappings: dict[bytes, Mapping] = field(default_factory=dict, compare=False)

    def mapping(self, path: I64x2) -> Mapping:
        """Loops and cuts that an answer of the kernel stands for."""
        key = path.tobytes()
        found = self.mappings.get(key)
        if found is None:
            found = self.mappings[key] = _mapping(self, path)
        return found

    @property
    def bytes(self) -> int:
        """What keeping them takes."""
        return 2000 + self.bits_per_entry.nbytes + sum(array.nbytes for array in self.problem)


@dataclass(frozen=True, slots=True)
class Priced:
    """The part of a problem that depends on the energies of one core."""

    per_cut: F64x2
    base_energy: float
    least_energy: float


ARRAYS = Section[Arrays | None]("arrays of frames", 64 * 2**20, lambda arrays: arrays.bytes if arrays else 500)


def priced(arrays: Arrays, prices: Prices) -> Priced:
    """Put a core's energies in."""
    frame, per_cut = arrays.frame, arrays.problem.per_cut.copy()
    joules = prices.of_flows(arrays.flows)
    base = frame.nest.points * prices.mac_j[frame.rate.inputs] + float(arrays.bits @ joules)
    base += resident_price(frame, prices)[0]
    per_cut[:, JOULES_PER_ENTRY] = arrays.bits_per_entry @ joules
    least = base + float(per_cut[:, JOULES_PER_ENTRY] @ per_cut[:, FEWEST_ENTRIES])
    return Priced(per_cut, base, least)


def search_frame(
    frame: Frame, prices: Prices, objective: str, constraints: Constraints, store: CostStore, beat: float = math.inf
) -> Tiling | None:
    """The best tiling of a frame, or None if nothing fits (or nothing beats ``beat``)."""
    arrays = store[ARRAYS].get_or((frame, constraints), lambda: compile_frame(frame, constraints))
    if arrays is None:
        return None
    found, compute = priced(arrays, prices), float(frame.compute_cycles)
    if least_score(frame, prices, objective, found.least_energy) >= beat:
        return None
    scalars = np.array(
        [
            compute,
            frame.constant_fill_cycles,
            float(frame.inputs_share_a_port),
            found.base_energy,
            float(OBJECTIVES.index(objective)),
            tie_weight(frame, prices, objective, found.least_energy),
            beat,
            1 - (GAP if frame.nest.points > LARGE else 1e-12),
            *arrays.mirrored,
        ]
    )
    problem = arrays.problem._replace(per_cut=found.per_cut, scalars=scalars)
    early: tuple[F64, I64x2] | None = None
    if math.isinf(beat) and arrays.coarse is not None:  # a good score early prunes most of the rest
        early = best_tiling(problem._replace(nests=arrays.coarse))
        scalars[BEAT] = early[0][0]
    result, path = best_tiling(problem)
    if not math.isfinite(result[1]):
        if early is None or not math.isfinite(early[0][1]):
            return None
        result, path = early
    joules = float(result[2]) - resident_price(frame, prices)[0]
    return Tiling(float(result[0]), float(result[1]), joules, int(result[3]), arrays.mapping(path))


def _coarse(nests: U8x3, candidates: I64) -> U8x3:
    """Only three tiles of each dimension: one step, all, and one between."""
    coarse = np.zeros_like(nests)
    for d, count in enumerate(candidates):
        for pick in {0, int(count) // 2, int(count) - 1}:
            coarse[d, :, pick] = nests[d, :, pick]
    return coarse


def least_score(frame: Frame, prices: Prices, objective: str, least_energy: float) -> float:
    """A score that no tiling of the frame can beat."""
    cycles = frame.compute_cycles + frame.constant_fill_cycles
    if objective == "edp":
        return cycles * least_energy
    tie = tie_weight(frame, prices, objective, least_energy)
    return cycles + tie * least_energy if objective == "latency" else least_energy + tie * cycles


def tie_weight(frame: Frame, prices: Prices, objective: str, least_energy: float) -> float:
    """Weight of the other quantity in a score: equals are decided by it, and energy pays for the core's leakage."""
    cycles = float(frame.compute_cycles)
    if objective == "latency":
        return TIE * cycles / least_energy
    return max(TIE * least_energy / cycles, prices.leakage_j_per_cycle)


def compile_frame(frame: Frame, constraints: Constraints) -> Arrays | None:
    """Arrays of a frame; None if even the smallest tiles do not fit."""
    dims = tuple(dim for dim, steps in frame.steps.items() if steps > 1)
    tiles = tuple(candidate_tiles(frame.steps[dim]) for dim in dims)
    many = max((len(per_dim) for per_dim in tiles), default=1)
    visits = np.ones((len(dims), many))
    nests = np.zeros((len(dims), many, many), np.uint8)
    for d, (dim, sizes) in enumerate(zip(dims, tiles, strict=True)):
        count, values = len(sizes), np.array(sizes)
        visits[d, :count] = -(-frame.steps[dim] // values)
        nests[d, :count, :count] = values[:, None] % values[None, :] == 0
        nests[d, count - 1, :count] = 1
    per_cut, widths, windows = _per_cut(frame, dims, tiles, many)
    slope, base = _port_loads(frame, per_cut)
    memory_of, room = _room(frame)
    relevant = np.array([[dim in frame.footprints[slot].dims for dim in dims] for slot in OPERANDS], np.uint8)
    plain = np.array([[dim in frame.footprints[slot].plain for dim in dims] for slot in OPERANDS], np.uint8)
    if (per_cut[:, SMALLEST_TILE] * per_cut[:, BITS] > room[memory_of]).any():
        return None
    limits, pinned = _constraints(frame, constraints, dims, tiles)
    at = [[k for k, crossing in enumerate(frame.crossings) if crossing.slot == slot][::-1] for slot in OPERANDS]
    cut_at = np.full((3, max(1, max(map(len, at)))), -1, np.int64)
    for s, mine in enumerate(at):
        cut_at[s, : len(mine)] = mine
    candidates = np.array([len(per_dim) for per_dim in tiles], np.int64)
    windows_of, window_dims, largest, total, kept_u, kept_v = windows
    problem = TilingProblem(
        candidates=candidates,
        visits=visits,
        nests=nests,
        relevant=relevant.reshape(3, len(dims)),
        plain=plain.reshape(3, len(dims)),
        slot_of=np.array([OPERANDS.index(crossing.slot) for crossing in frame.crossings], np.int64),
        cut_at=cut_at,
        cuts_of=np.array([len(mine) for mine in at], np.int64),
        widths=widths,
        windows_of=windows_of,
        window_dims=window_dims,
        largest=largest,
        total=total,
        kept_u=kept_u,
        kept_v=kept_v,
        per_cut=per_cut,
        memory_of=memory_of,
        room=room,
        port_slope=slope,
        port_base=base,
        limits=limits,
        pinned=pinned,
        scalars=np.zeros(0),
    )
    coarse = _coarse(nests, candidates) if math.prod(map(len, tiles)) > MANY_TILINGS else None
    mirrored = _mirrored(frame, constraints, dims)
    return Arrays(frame, dims, tiles, problem, *_flows(frame), coarse, mirrored)


def _mirrored(frame: Frame, constraints: Constraints, dims: tuple[str, ...]) -> tuple[int, int]:
    """Rows and columns of the outputs, if the frame is the same with rows and columns changed over."""
    pairs = mirror_of(frame.footprints, frame.sizes)
    unrolled = {
        (unrolling.axis, pairs.get(unrolling.dim, unrolling.dim), unrolling.factor) for unrolling in frame.unrolled
    }
    if (
        not pairs
        or constraints.tiles
        or unrolled != {(unrolling.axis, unrolling.dim, unrolling.factor) for unrolling in frame.unrolled}
    ):
        return -1, -1
    for touched in frame.footprints.values():
        image = {
            replace(window, u=pairs.get(window.u, window.u), v=pairs.get(window.v, window.v))
            for window in touched.windows
        }
        if image != set(touched.windows) or {pairs.get(dim, dim) for dim in touched.plain} != set(touched.plain):
            return -1, -1
    first = next((dim for dim in pairs if dim in dims), "")
    return (dims.index(first), dims.index(pairs[first])) if first else (-1, -1)


def _flows(frame: Frame) -> tuple[tuple[tuple[str, bool], ...], F64, F64x2]:
    """(level, whether it is read) of every flow that costs energy, its bits that always move, and those per entry."""
    flows = tuple(dict.fromkeys((term.level, term.flow.is_read) for term in frame.terms))
    bits, per_entry = np.zeros(len(flows)), np.zeros((len(frame.crossings), len(flows)))
    for term in frame.terms:
        at = flows.index((term.level, term.flow.is_read))
        bits[at] += term.bits * term.billed
        if term.crossing >= 0:
            per_entry[term.crossing, at] += term.bits_per_entry * term.billed
    return flows, bits, per_entry


def _per_cut(frame: Frame, dims: tuple[str, ...], tiles: tuple[tuple[int, ...], ...], many: int) -> Any:
    """Tile sizes and entries of every crossing, as tables over tiles."""
    cuts, index = len(frame.crossings), {dim: d for d, dim in enumerate(dims)}
    most = max(1, *(len(frame.footprints[slot].windows) for slot in OPERANDS))
    per_cut = np.zeros((cuts, CUT_COLUMNS))
    widths = np.ones((cuts, max(1, len(dims)) * many))
    windows_of = np.array([len(frame.footprints[slot].windows) for slot in OPERANDS], np.int64)
    window_dims = np.full((3, most, 2), -1, np.int64)
    wide = many if windows_of.any() else 1
    largest, total = np.ones((cuts, most, wide, wide)), np.ones((cuts, most, wide, wide))
    kept_u, kept_v = np.zeros((cuts, most, wide, wide, wide)), np.zeros((cuts, most, wide, wide, wide))
    for s, slot in enumerate(OPERANDS):
        for w, window in enumerate(frame.footprints[slot].windows):
            window_dims[s, w] = index.get(window.u, -1), index.get(window.v, -1)
    for k, crossing in enumerate(frame.crossings):
        touched, smallest = frame.footprints[crossing.slot], 1.0
        fixed = 1
        for dim in touched.plain:
            inside = frame.extent(dim, crossing.level).inside
            if dim in index:
                row = index[dim] * many
                widths[k, row : row + len(tiles[index[dim]])] = np.array(tiles[index[dim]]) * inside
            else:
                fixed *= inside
            smallest *= inside
        plain_elements = math.prod(frame.sizes[dim] for dim in touched.plain)
        held: list[WindowTables] = []
        for w, window in enumerate(touched.windows):
            u, v = (frame.extent(dim, crossing.level) if dim else Extent(1) for dim in (window.u, window.v))
            tiles_u, tiles_v = (tiles[index[dim]] if dim in index else (1,) for dim in (window.u, window.v))
            found = tables(window, u, v, tiles_u, tiles_v)
            a, b = len(tiles_u), len(tiles_v)
            largest[k, w, :a, :b], total[k, w, :a, :b] = found.largest, found.total
            kept_u[k, w, :a, :a, :b], kept_v[k, w, :b, :b, :a] = found.kept_u, found.kept_v
            held.append(found)
            smallest *= float(found.largest[0, 0])
        fewest = plain_elements * _fewest(held, crossing.level.tile_bytes * 8 / frame.bits[crossing.slot])
        transfer = frame.transfer_cycles[k]
        is_output = crossing.slot == "O"
        waits = 0.0 if crossing.level.double_buffered else transfer * (2 if is_output else 1)
        less = -transfer * frame.distinct_results if waits and is_output else 0.0
        per_cut[k] = (
            plain_elements, fixed, frame.bits[crossing.slot], 0.0, waits, less,
            transfer * crossing.positions, fewest, smallest, 0.0, frame.overlapped_bits(crossing),
        )  # fmt: skip
    return per_cut, widths, (windows_of, window_dims, largest, total, kept_u, kept_v)


def _fewest(windows: list[WindowTables], room: float) -> float:
    """Fewest window positions that must enter a level, over all tiles that fit it, one of the windows sliding."""
    sizes, whole, slid = np.ones(1), np.ones(1), np.ones(1)
    for found in windows:
        kept = np.maximum(found.kept_u.max(axis=1), found.kept_v.max(axis=1).T)
        total, size = found.total.ravel().astype(float), found.largest.ravel().astype(float)
        slid = np.minimum(np.outer(slid, total), np.outer(whole, total - kept.ravel())).ravel()
        whole, sizes = np.outer(whole, total).ravel(), np.outer(sizes, size).ravel()
    least = math.prod(float(found.total[-1, -1]) for found in windows)
    fitting = slid[sizes <= room]
    return max(least, float(fitting.min())) if fitting.size else least


def _port_loads(frame: Frame, per_cut: F64x2) -> tuple[F64x2, F64]:
    """Cycles per entry and port, base cycles of every port; fills in the most entries of every cut."""
    cuts = len(frame.crossings)
    slopes: dict[str, F64] = {}
    bases: dict[str, float] = {}
    for term in frame.terms:
        port, cycles = frame.cycles_per_bit(term.level, term.slot, term.flow)
        slope = slopes.setdefault(port, np.zeros(cuts))
        bases[port] = bases.get(port, 0.0) + cycles * term.bits
        if term.crossing >= 0:
            slope[term.crossing] += cycles * term.bits_per_entry
    cycles = resident_price(frame, None)[1]
    if cycles:
        bases["stream"] = bases.get("stream", 0.0) + cycles
        slopes.setdefault("stream", np.zeros(cuts))
    per_cut[:, MOST_ENTRIES] = _most_entries(frame)
    rising = {
        port: bases[port] + float(np.maximum(slope, 0.0) @ per_cut[:, MOST_ENTRIES]) for port, slope in slopes.items()
    }
    kept = [port for port, most in rising.items() if most > frame.compute_cycles]  # others are never the bottleneck
    if not kept:
        return np.zeros((0, cuts)), np.zeros(0)
    return np.array([slopes[port] for port in kept]), np.array([bases[port] for port in kept])


def resident_price(frame: Frame, prices: Prices | None) -> tuple[float, float]:
    """(joules, cycles) of bringing the operands that are not streamed past the border once; without prices, no joules.

    Only cores with a streamed slot need it: there a binding decides whether an operand's way from DRAM is part of the
    tiling's cost (streamed) or not (resident), and bindings are compared by their scores.
    """
    if not frame.core.streamed or frame.stream is None:
        return 0.0, 0.0
    joules = cycles = 0.0
    for slot in OPERANDS:
        if slot in frame.core.streamed:
            continue
        outward, top = slot == "O", frame.levels[slot][-1].name
        bits = frame.elements(slot) * (frame.result_bits if outward else frame.bits[slot])
        if prices is not None:
            joules += bits * (prices.per_bit("stream", not outward) + prices.per_bit(top, outward))
        cycles += bits / frame.stream.bandwidth_bits_per_cycle
    return joules, cycles


def _most_entries(frame: Frame) -> F64:
    """Entries of every crossing with the smallest tiles everywhere."""
    most = np.empty(len(frame.crossings))
    for k, crossing in enumerate(frame.crossings):
        touched = frame.footprints[crossing.slot]
        most[k] = math.prod(steps for dim, steps in frame.steps.items() if dim not in touched.dims)
        most[k] *= math.prod(frame.sizes[dim] for dim in touched.plain)
        for window in touched.windows:
            most[k] *= frame.sizes[window.u] * frame.sizes.get(window.v, 1)
    return most


def _room(frame: Frame) -> tuple[I64, F64]:
    """Memory of every crossing and the bits that tiles may take there."""
    names = list(dict.fromkeys(crossing.level.name for crossing in frame.crossings))
    room = [frame.core.level(name).tile_bytes * 8.0 for name in names]
    return np.array([names.index(crossing.level.name) for crossing in frame.crossings], np.int64), np.array(room)


def _constraints(
    frame: Frame, constraints: Constraints, dims: tuple[str, ...], tiles: tuple[tuple[int, ...], ...]
) -> tuple[I64x2, U8]:
    limits = np.full((len(frame.crossings), len(dims)), 1 << 30, np.int64)
    pinned = np.array(
        [frame.binding.operand(crossing.slot) in constraints.stationary for crossing in frame.crossings], np.uint8
    )
    for k, crossing in enumerate(frame.crossings):
        for level, dim, most in constraints.tiles:
            if level in ("", crossing.level.name) and dim in dims and dim in frame.footprints[crossing.slot].dims:
                d = dims.index(dim)
                fitting = [i for i, tile in enumerate(tiles[d]) if tile * frame.factors[dim] <= most]
                limits[k, d] = min(limits[k, d], max(fitting, default=-1))
    return limits, pinned


def _mapping(arrays: Arrays, path: I64x2) -> Mapping:
    """Loops and cuts from the kernel's path: each row adds the block of loops above its cut."""
    frame, loops, cuts = arrays.frame, [], []
    at = [len(tiles) - 1 for tiles in arrays.tiles]
    for row in path[: len(frame.crossings)]:
        crossing, innermost, picks = frame.crossings[row[0]], int(row[1]), row[2:]
        changed = [d for d in range(len(arrays.dims)) if picks[d] != at[d] and d != innermost]
        if innermost >= 0 and picks[innermost] != at[innermost]:
            changed.append(innermost)
        loops += [_loop(arrays, d, at[d], int(picks[d])) for d in changed]
        at = [int(pick) for pick in picks]
        cuts.append(Cut(crossing.slot, crossing.level.name, len(loops)))
    loops += [_loop(arrays, d, at[d], 0) for d in range(len(arrays.dims)) if at[d] > 0]
    return Mapping(frame.mode, frame.binding, frame.unrolled, tuple(loops), tuple(cuts))


def _loop(arrays: Arrays, d: int, outer: int, inner: int) -> Loop:
    tiles = arrays.tiles[d]
    return Loop(arrays.dims[d], -(-tiles[outer] // tiles[inner]))
