"""The tiles in which an operator alone passes its operands between DRAM and the top memories: candidates, and arrays
for the kernel that ranks them."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from typing import Any, NamedTuple

import numpy as np

from monet.arrays import F64, I64, F64x2, F64x4, F64x5, I64x3
from monet.hardware.core import OPERANDS
from monet.mapping.mapper.tiling import OBJECTIVES, Constraints
from monet.mapping.nest.cost import Cost
from monet.mapping.nest.footprint import Extent, Footprint, Window, tables
from monet.mapping.nest.frame import Frame
from monet.mapping.nest.mapping import Loop
from monet.mapping.nest.spatial import mirror_of
from monet.mapping.nest.tiles import tile_sizes
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.border_traffic import Memories
from monet.mapping.unfused.tile_ranking import (
    BITS,
    BUSY_CYCLES,
    CYCLES_PER_BIT,
    CYCLES_PER_STEP,
    JOULES_BELOW,
    JOULES_IN,
    JOULES_OUT,
    LATENCY_CYCLES,
    LEAKAGE,
    MEMORY,
    OBJECTIVE,
    ONCE,
    PLAIN_ELEMENTS,
    RESULT_BITS,
    RESULTS,
    ROOM,
    SCALARS,
    SLOT_COLUMNS,
    SPARE_WEIGHT,
    STREAMED_BITS,
    THROUGHPUT,
    TILE_CYCLES,
    TRANSPOSE_CYCLES,
    Ranking,
)

PARTS, MOST_TILES = (2, 4, 8, 16, 64, 256), 6  # see ``tile_sizes``
SPARE = 1e-3  # at objective latency, doubling the energy counts as 0.1 % of the cycles
GOALS = {objective: number for number, objective in enumerate(OBJECTIVES)} | {"throughput": THROUGHPUT}


def _in_padding(window: Window, size: int, tile: int) -> bool:
    """Whether the first or the last tile of a window over one dimension lies outside the tensor altogether."""
    last = (size - 1) // tile * tile
    return tile < size and (
        window.offset + window.a * (tile - 1) < 0 or window.offset + window.a * last >= window.length
    )


def tile_arrays(
    frame: Frame, memories: Memories, constraints: Constraints, factors: Dictionary[str, int]
) -> TileArrays:
    """Arrays for the tiles of a frame's nest; remembered with the frame, since sizes of the memories come in later.
    ``factors``: how far its dimensions are unrolled."""
    names = [name for _, name, _ in memories]
    places = tuple((slot, level.name, names.index(name)) for slot, name, level in memories)
    key = ("tile arrays", places, constraints, tuple(factors.items()))
    known: TileArrays | None = frame.known.get(key)
    if known is None:
        known = frame.known[key] = TileArrays(frame, memories, constraints, factors)
    return known


def _candidates(frame: Frame, touched: list[Footprint]) -> tuple[tuple[int, ...], ...]:
    """Tiles of every dimension; their edges lie between groups that share a scale."""
    # taps of a window; where one row of outputs is left, the window has only its taps to move it
    taps = {window.v or window.u for footprint in touched for window in footprint.windows}
    unpaired = [window for footprint in touched for window in footprint.windows if not window.v]
    return tuple(
        tuple(
            tile
            for tile in ((size,) if dim in taps else tile_sizes(size, PARTS, MOST_TILES, frame.nest.grain.get(dim, 1)))
            if not any(window.u == dim and _in_padding(window, size, tile) for window in unpaired)
        )
        for dim, size in frame.sizes.items()
    )


class TileOrder(NamedTuple):
    """A tile with an order of the loops over all of them. ``mirrored``: the same tile, rows and columns changed over.
    ``known``: what was found out about it."""

    key: bytes  # the row
    tile: dict[str, int]
    order: tuple[Loop, ...]
    tiles: int  # in all
    mirrored: dict[str, int]
    known: dict[Any, Any]


class TileArrays:
    """What the ranking kernel takes, and how to read its answer."""

    def __init__(
        self, frame: Frame, memories: Memories, constraints: Constraints, factors: Dictionary[str, int]
    ) -> None:
        self.frame, self.dims, self.stationary = frame, tuple(frame.sizes), constraints.stationary
        self._mirror = mirror_of(frame.footprints, frame.sizes)
        self._orders: dict[bytes, TileOrder] = {}
        self.steps = math.prod(-(-size // factors.get(dim, 1)) for dim, size in frame.sizes.items())
        touched = [frame.footprints[slot] for slot in OPERANDS]
        self.tiles = _candidates(frame, touched)
        many = max(map(len, self.tiles), default=1)
        counts, steps = np.ones((len(self.dims), many)), np.ones((len(self.dims), many))
        for d, (dim, sizes) in enumerate(zip(self.dims, self.tiles, strict=True)):
            size, factor, values = frame.sizes[dim], factors.get(dim, 1), np.array(sizes)
            counts[d, : len(sizes)] = -(-size // values)
            steps[d, : len(sizes)] = size // values * -(-values // factor) + -(-(size % values) // factor)
        widths, windows = self._footprints(touched, many)
        windows_of, window_dims, largest, total, kept_u, kept_v = windows
        for s, slot in enumerate(OPERANDS):  # a tile that the constraints forbid has no room
            for d, most in self._limits(slot, memories, constraints):
                forbidden = np.array(self.tiles[d]) > most
                widths[s, d * many : d * many + len(forbidden)][forbidden] = np.inf
                for w, (u, v) in enumerate(window_dims[s]):
                    if u == d:
                        largest[s, w, : len(forbidden)][forbidden] = np.inf
                    elif v == d:
                        largest[s, w, :, : len(forbidden)][:, forbidden] = np.inf
        relevant = np.array([[dim in footprint.dims for dim in self.dims] for footprint in touched], np.uint8)
        plain = np.array([[dim in footprint.plain for dim in self.dims] for footprint in touched], np.uint8)
        self._per_slot = self._priceless(memories)
        self.ranking = Ranking(
            candidates=np.array([len(sizes) for sizes in self.tiles], np.int64),
            counts=counts,
            steps=steps,
            relevant=relevant.reshape(3, -1),
            plain=plain.reshape(3, -1),
            widths=widths,
            windows_of=windows_of,
            window_dims=window_dims,
            largest=largest,
            total=total,
            kept_u=kept_u,
            kept_v=kept_v,
            per_slot=np.zeros((0, SLOT_COLUMNS)),  # these come with the prices
            scalars=np.zeros(0),
        )

    def _footprints(
        self, touched: list[Footprint], many: int
    ) -> tuple[F64x2, tuple[I64, I64x3, F64x4, F64x4, F64x5, F64x5]]:
        """Widths of plain dimensions by tile, and tables of all windows."""
        index = {dim: d for d, dim in enumerate(self.dims)}
        most = max(1, *(len(footprint.windows) for footprint in touched))
        windows_of = np.array([len(footprint.windows) for footprint in touched], np.int64)
        window_dims = np.full((3, most, 2), -1, np.int64)
        widths = np.ones((3, max(1, len(self.dims)) * many))
        wide = many if windows_of.any() else 1
        largest, total = np.ones((3, most, wide, wide)), np.ones((3, most, wide, wide))
        kept_u, kept_v = np.zeros((3, most, wide, wide, wide)), np.zeros((3, most, wide, wide, wide))
        sizes = self.frame.sizes
        for s, footprint in enumerate(touched):
            for dim in footprint.plain:
                row = index[dim] * many
                widths[s, row : row + len(self.tiles[index[dim]])] = self.tiles[index[dim]]
            for w, window in enumerate(footprint.windows):
                window_dims[s, w] = index[window.u], index.get(window.v, -1)
                u, v = Extent(sizes[window.u]), Extent(sizes.get(window.v, 1))
                tiles_u, tiles_v = self.tiles[index[window.u]], self.tiles[index[window.v]] if window.v else (1,)
                found, a, b = tables(window, u, v, tiles_u, tiles_v), len(tiles_u), len(tiles_v)
                largest[s, w, :a, :b], total[s, w, :a, :b] = found.largest, found.total
                kept_u[s, w, :a, :a, :b], kept_v[s, w, :b, :b, :a] = found.kept_u, found.kept_v
        return widths, (windows_of, window_dims, largest, total, kept_u, kept_v)

    def _limits(self, slot: str, memories: Memories, constraints: Constraints) -> list[tuple[int, int]]:
        """(dimension, largest tile) that the constraints ask of a slot's tile in its top memory."""
        level = next((level for name, _, level in memories if name == slot), None)
        dims = self.frame.footprints[slot].dims
        return [
            (self.dims.index(dim), most)
            for name, dim, most in constraints.tiles
            if level is not None and name in ("", level.name) and dim in dims and dim in self.dims
        ]

    def _priceless(self, memories: Memories) -> F64x2:
        """``per_slot`` of the ranking, as far as it is the same for every border with these memories."""
        frame, memory_name = self.frame, {slot: name for slot, name, _ in memories}
        names, found = list(memory_name.values()), np.zeros((3, SLOT_COLUMNS))
        turning = frame.core.transposed_read.cycles_per_element if frame.transpose_cycles else 0.0
        for s, slot in enumerate(OPERANDS):
            found[s, PLAIN_ELEMENTS] = math.prod(frame.sizes[dim] for dim in frame.footprints[slot].plain)
            found[s, BITS] = frame.bits[slot]
            found[s, MEMORY] = names.index(memory_name[slot]) if slot in memory_name else -1
            found[s, RESULTS] = frame.distinct_results if slot == "O" else 0
            found[s, TRANSPOSE_CYCLES] = turning * frame.elements(slot) if slot in frame.transposed else 0.0
            found[s, ONCE] = frame.binding.operand(slot) in self.stationary
        return found

    def fixed_prices(
        self,
        memories: Memories,
        joules: float,
        leakage_j_per_cycle: float,
        streams: Dictionary[str, float],
        counts: Cost,
    ) -> tuple[F64x2, F64]:
        """Prices of the ranking as far as they are the same for every border with these memories."""
        overhead = counts.fill_cycles + counts.drain_cycles - self.frame.transpose_cycles
        busy = counts.cycles - counts.fill_cycles - counts.drain_cycles
        frame, per_slot = self.frame, self._per_slot.copy()
        levels = {slot: level for slot, _, level in memories}
        for s, slot in enumerate(OPERANDS):
            level = levels.get(slot)
            if level is not None:
                room = level.total_bytes * 8
                if level.instances > 1:  # analog cells: those in use, one tile, no second to fill
                    room = 2 * level.size_bytes * 8 * frame.used_instances(level)
                per_slot[s, ROOM] = room
                per_slot[s, JOULES_IN], per_slot[s, JOULES_OUT] = (
                    level.write_energy_j_per_bit,
                    level.read_energy_j_per_bit,
                )
            per_slot[s, STREAMED_BITS] = streams.get(slot, 0)
        scalars = np.zeros(SCALARS)
        scalars[JOULES_BELOW], scalars[LEAKAGE] = joules, leakage_j_per_cycle
        scalars[CYCLES_PER_STEP], scalars[RESULT_BITS] = counts.compute_cycles / self.steps, frame.result_bits
        scalars[TILE_CYCLES], scalars[SPARE_WEIGHT], scalars[BUSY_CYCLES] = overhead, SPARE, busy
        return per_slot, scalars

    def priced(self, fixed: tuple[F64x2, F64], border: Border, goal: str) -> Ranking:
        """The ranking with its prices."""
        per_slot, scalars = fixed[0].copy(), fixed[1].copy()
        source, binding = border.stream, self.frame.binding
        per_slot[:, JOULES_IN] += source.read_energy_j_per_bit
        per_slot[:, JOULES_OUT] += source.write_energy_j_per_bit
        per_slot[:, CYCLES_PER_BIT] = [1 / border.pace_of(binding.operand(slot)) for slot in OPERANDS]
        scalars[LATENCY_CYCLES], scalars[OBJECTIVE] = 2 * border.latency_cycles, GOALS[goal]
        return self.ranking._replace(per_slot=per_slot, scalars=scalars)

    def tiling(self, row: I64) -> TileOrder:
        """What a row of the kernel's answer stands for."""
        key = row.tobytes()
        found = self._orders.get(key)
        if found is None:
            found = self._orders[key] = self._tiling(key, row.tolist())
        return found

    def _tiling(self, key: bytes, row: list[int]) -> TileOrder:
        """Loops over tiles: those that leave the stationary slot in place innermost, the sliding one last."""
        stationary, slides, *picks = row
        tile = {dim: tiles[pick] for dim, tiles, pick in zip(self.dims, self.tiles, picks, strict=True)}
        stays = self.frame.footprints[OPERANDS[stationary]].dims
        counts = {dim: -(-self.frame.sizes[dim] // tile[dim]) for dim in self.dims}
        sliding = self.dims[slides] if slides >= 0 else ""
        outer = [dim for dim in self.dims if counts[dim] > 1 and dim in stays]
        inner = [dim for dim in self.dims if counts[dim] > 1 and dim not in stays and dim != sliding]
        order = tuple(Loop(dim, counts[dim]) for dim in (*outer, *inner, *((sliding,) if sliding else ())))
        mirrored = {self._mirror.get(dim, dim): size for dim, size in tile.items()}
        return TileOrder(key, tile, order, math.prod(loop.trips for loop in order), mirrored, {})
