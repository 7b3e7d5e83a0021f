"""The exact cost of a given mapping of a loop nest on one core, at and below the border. Pure, and meant to be read.

Rules (the loop-walking simulator in the tests follows the same ones, and its counts are equal):

* A level keeps one tile of each operand. While the innermost loops above its cut do not move the tile, nothing moves.
* When the innermost loop that moves the tile takes one step, what the new tile shares with the old one stays (a window
  slides). When a loop outside that one takes a step, the tile is replaced.
* An output tile that leaves is written to the level above; one that comes back is read from there first. The first
  time an element is touched there is nothing to read.
* The array reads its inputs from their innermost level in every step, and accumulates in the innermost level of O.
* Latency: a tile is exchanged behind the array's back if the level is double-buffered, or holds one operand only and
  has room for two such tiles, or if the tile is one step long (exchanged at the clock edge). Otherwise the array waits.
  All else overlaps: max(array, every port), plus the first tiles' way down and the last sums' way up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monet.formats import whole_bytes
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import OPERANDS, Core, Flow
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.nest.footprint import Extent, Footprint, tables
from monet.mapping.nest.frame import Crossing, Frame, Stream
from monet.mapping.nest.mapping import Loop, Mapping, trips_by_dim
from monet.mapping.nest.prices import Prices
from monet.mapping.nest.spatial import frame_of


@dataclass(frozen=True, slots=True)
class Access:
    """Elements and bits that one flow of one slot moves at one level; ``billed_bits`` are those paid for."""

    level: str
    slot: str
    flow: Flow
    elements: int
    bits: float
    billed_bits: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Counts of one nest on one core. ``cycles`` = max(compute + exposed, every port) + fill + drain."""

    macs: int
    units: int
    compute_cycles: float
    exposed_cycles: float
    port_cycles: tuple[tuple[str, float], ...]
    fill_cycles: float
    drain_cycles: float
    accesses: tuple[Access, ...]

    @property
    def cycles(self) -> float:
        """Overlapped latency."""
        busiest = max((cycles for _, cycles in self.port_cycles), default=0.0)
        return max(self.compute_cycles + self.exposed_cycles, busiest) + self.fill_cycles + self.drain_cycles

    @property
    def bound_by(self) -> str:
        """What sets the latency: ``compute`` or the name of a port."""
        port, cycles = max(self.port_cycles, key=lambda port: port[1], default=("", 0.0))
        return port if cycles > self.compute_cycles + self.exposed_cycles else "compute"

    @property
    def utilisation(self) -> float:
        """Share of the array's multiply-accumulate slots that do work, over the whole latency."""
        return self.macs / (self.units * self.cycles)

    def stream_bits(self, slot: str) -> float:
        """Bits that a streamed slot asks of the border (inputs) or gives it (output)."""
        return sum(access.bits for access in self.accesses if access.level == "stream" and access.slot == slot)


def cost(nest: LoopNest, core: Core, mapping: Mapping, stream: Stream | None = None) -> Cost:
    """Cost of ``mapping`` as it stands; an illegal one is an error that says why."""
    return frame_cost(frame_of(nest, core, mapping.mode, mapping.binding, mapping.unrolled, stream), mapping)


def frame_cost(frame: Frame, mapping: Mapping) -> Cost:
    """Cost of a mapping whose frame is already known; remembered with the frame."""
    known: Cost | None = frame.known.get(mapping)
    if known is None:
        known = frame.known[mapping] = _frame_cost(frame, mapping)
    return known


def _frame_cost(frame: Frame, mapping: Mapping) -> Cost:
    _check_loops(frame, mapping)
    positions = [_position(frame, mapping, crossing) for crossing in frame.crossings]
    tiles = [trips_by_dim(mapping.loops[position:]) for position in positions]
    _check_capacity(frame, tiles)
    entered = [
        entries(frame, crossing, mapping.loops, position)
        for crossing, position in zip(frame.crossings, positions, strict=True)
    ]
    exposed = 0.0
    chains = dict.fromkeys(OPERANDS, 0.0)
    for k, crossing in enumerate(frame.crossings):
        transfer, moved = frame.transfer_cycles[k], tiles[k]
        is_one_step = all(moved.get(dim, 1) == 1 for dim in frame.footprints[crossing.slot].dims)
        elements = tile_elements(frame, crossing, moved)
        if elements * frame.bits[crossing.slot] > frame.overlapped_bits(crossing) and not is_one_step:
            again = entered[k] - frame.distinct_results if crossing.slot == "O" else 0
            exposed += transfer * (entered[k] + again)
        chains[crossing.slot] += transfer * elements * crossing.positions
    fill = chains["I"] + chains["W"] if frame.inputs_share_a_port else max(chains["I"], chains["W"])
    accesses = _accesses(frame, entered)
    return Cost(
        frame.nest.points,
        frame.core.units * max(1, round(frame.rate.products_per_step / max(1.0, frame.rate.cycles_per_step))),
        float(frame.compute_cycles),
        exposed,
        _port_cycles(frame, accesses),
        fill + frame.constant_fill_cycles,
        chains["O"],
        accesses,
    )


def energy_j(frame: Frame, found: Cost, prices: Prices) -> dict[str, float]:
    """Joules by level, ``stream`` and ``compute`` (the arithmetic itself)."""
    joules = {"compute": found.macs * prices.mac_j[frame.rate.inputs]}
    for access in found.accesses:
        spent = access.billed_bits * prices.per_bit(access.level, access.flow.is_read)
        joules[access.level] = joules.get(access.level, 0.0) + spent
    return joules


# --- tiles ------------------------------------------------------------------------------------------------------------


def tile_elements(frame: Frame, crossing: Crossing, tile: dict[str, int]) -> int:
    """Elements of the largest tile that one instance of the level keeps; ``tile`` is in steps."""
    touched = frame.footprints[crossing.slot]
    count = 1
    for dim in touched.plain:
        extent = frame.extent(dim, crossing.level)
        count *= min(tile.get(dim, 1), extent.steps) * extent.inside
    for window in touched.windows:
        u, v = (_extent(frame, dim, crossing) for dim in (window.u, window.v))
        found = tables(window, u, v, (tile.get(window.u, 1),), (tile.get(window.v, 1),))
        count *= int(found.largest[0, 0])
    return count


def entries(frame: Frame, crossing: Crossing, loops: tuple[Loop, ...], position: int) -> int:
    """Elements that enter a level cut at ``position`` over the whole nest, summed over its different instances."""
    touched = frame.footprints[crossing.slot]
    outer, span = _moving_loop(loops, position, touched)
    tile, outside = trips_by_dim(loops[position:]), trips_by_dim(loops[outer:])
    visits = math.prod(
        -(-steps // outside.get(dim, 1)) for dim, steps in frame.steps.items() if dim not in touched.dims
    )
    moving = loops[outer - 1].dim if outer else ""
    total, kept = math.prod(frame.sizes[dim] for dim in touched.plain), 0
    for window in touched.windows:
        u, v = (_extent(frame, dim, crossing) for dim in (window.u, window.v))
        tile_u, tile_v = tile.get(window.u, 1), tile.get(window.v, 1)
        spans = [
            (tile_u, span) if window.u == moving else (tile_u,),
            (tile_v, span) if window.v == moving else (tile_v,),
        ]
        found = tables(window, u, v, *spans)
        all_here = int(found.total[0, 0])
        kept_here = 0
        if moving == window.u:
            kept_here = int(found.kept_u[0, 1, 0])
        elif moving and moving == window.v:
            kept_here = int(found.kept_v[0, 1, 0])
        # tiles that stay put on the other axes keep the same share on this one
        total, kept = total * all_here, kept * all_here + total * kept_here
    return visits * (total - kept)


def _moving_loop(loops: tuple[Loop, ...], position: int, touched: Footprint) -> tuple[int, int]:
    """(outer, span): ``loops[outer - 1]`` is the innermost loop that moves the tile (outer 0: none does), and span the
    tile of its dimension once all its trips, and those of equal loops right above it, are done."""
    outer = position
    while outer and (loops[outer - 1].trips == 1 or loops[outer - 1].dim not in touched.dims):
        outer -= 1
    if not outer:
        return 0, 1
    dim, last = loops[outer - 1].dim, outer - 1
    while last and (loops[last - 1].dim == dim or loops[last - 1].trips == 1):
        last -= 1
    return outer, math.prod(loop.trips for loop in loops[last:] if loop.dim == dim)


def _extent(frame: Frame, dim: str, crossing: Crossing) -> Extent:
    return frame.extent(dim, crossing.level) if dim else Extent(1)


# --- sums -------------------------------------------------------------------------------------------------------------


def _accesses(frame: Frame, entered: list[int]) -> tuple[Access, ...]:
    found: dict[tuple[str, str, Flow], Access] = {}
    for term in frame.terms:
        count = entered[term.crossing] if term.crossing >= 0 else 0
        elements = term.elements_per_entry * count + term.elements
        bits = term.bits_per_entry * count + term.bits
        key = (term.level, term.slot, term.flow)
        old = found.get(key, Access(*key, 0, 0, 0.0))
        found[key] = Access(*key, old.elements + elements, old.bits + bits, old.billed_bits + bits * term.billed)
    return tuple(found.values())


def _port_cycles(frame: Frame, accesses: tuple[Access, ...]) -> tuple[tuple[str, float], ...]:
    cycles: dict[str, float] = {}
    for access in accesses:
        port, per_bit = frame.cycles_per_bit(access.level, access.slot, access.flow)
        cycles[port] = cycles.get(port, 0.0) + access.bits * per_bit
    return tuple(cycles.items())


# --- legality ---------------------------------------------------------------------------------------------------------


def _position(frame: Frame, mapping: Mapping, crossing: Crossing) -> int:
    cut = mapping.cut(crossing.slot, crossing.level.name)
    if cut is None:
        raise MappingError(f"the mapping does not say what {crossing.slot} keeps at level {crossing.level.name!r}")
    if not 0 <= cut.position <= len(mapping.loops):
        raise MappingError(f"{crossing.slot} at {crossing.level.name!r}: there is no loop number {cut.position}")
    return cut.position


def _check_loops(frame: Frame, mapping: Mapping) -> None:
    unknown = {loop.dim for loop in mapping.loops if loop.trips > 1} - frame.sizes.keys()
    if unknown:
        raise MappingError(f"the nest has no dimension {sorted(unknown)[0]!r}; it has {', '.join(frame.sizes)}")
    for dim, steps in frame.steps.items():
        trips = [loop.trips for loop in mapping.loops if loop.dim == dim]
        inner = math.prod(trips[1:])
        if math.prod(trips) < steps or (trips and (trips[0] - 1) * inner >= steps):
            raise MappingError(f"loops over {dim} make {math.prod(trips)} steps where {steps} are needed")
    for slot in OPERANDS:
        where = [_position(frame, mapping, crossing) for crossing in frame.crossings if crossing.slot == slot]
        if where != sorted(where, reverse=True):
            raise MappingError(f"{slot}: an inner level keeps a larger tile than an outer one")


def _check_capacity(frame: Frame, tiles: list[dict[str, int]]) -> None:
    used: dict[str, float] = {}
    for crossing, tile in zip(frame.crossings, tiles, strict=True):
        level = crossing.level
        needed = tile_elements(frame, crossing, tile) * frame.bits[crossing.slot]
        free = level.tile_bytes * 8 - used.get(level.name, 0)
        if needed > free:
            operand = frame.binding.operand(crossing.slot)
            raise DoesNotFit(operand, level.name, whole_bytes(needed), whole_bytes(free, down=True))
        used[level.name] = used.get(level.name, 0) + needed
