"""What passes between DRAM and the top memories of a core for an operator alone, over all its tiles."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from monet.formats import whole_bytes
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Core, Flow, MemoryLevel
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.nest.cost import Access, entries, tile_elements
from monet.mapping.nest.frame import Crossing, Stream
from monet.mapping.nest.mapping import Binding, Loop
from monet.mapping.nest.prices import Prices, known_shape, stream_shape
from monet.mapping.nest.spatial import known_frame
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.dram_route import OperandCost

Memories = tuple[tuple[str, str, MemoryLevel], ...]  # slot, name, level: the top memories of a border


@dataclass(frozen=True)
class Moved:
    """Bits between DRAM and the top memories over all tiles. ``first``: of every input's first tile, by slot; ``last``:
    of the last results; ``serial``: of cells that are loaded while the array waits; ``copied``: of copies that an
    explicit transpose makes, each read and written. ``operands``: the same by slot, with the room that it takes."""

    read_bits: float
    write_bits: float
    first: tuple[tuple[str, float], ...]
    last: tuple[float, ...]
    serial: tuple[float, ...]
    accesses: tuple[Access, ...]
    copied: float
    operands: tuple[OperandCost, ...]

    @cached_property
    def flows(self) -> tuple[tuple[str, str, bool, float], ...]:
        """Of every access its level, its slot, whether it reads, and its bits."""
        return tuple((access.level, access.slot, access.flow.is_read, access.bits) for access in self.accesses)


MOVED = Section[Moved]("moved past the border", 8192)


def moved_bits(
    nest: LoopNest,
    core: Core,
    memories: Memories,
    source: Stream | None,
    binding: Binding,
    order: tuple[Loop, ...],
    tile: Dictionary[str, int],
    store: CostStore,
) -> Moved:
    """What passes between DRAM and the top memories over all tiles; streams are not in it. Sizes and energies of the
    memories have no part in it."""
    slots = tuple(slot for slot, _, _ in memories)
    key = nest, known_shape(core, store), slots, stream_shape(source), binding, order, tuple(tile.items())
    return store[MOVED].get_or(key, lambda: _moved_bits(*key, store))


def _moved_bits(
    nest: LoopNest,
    core: Core,
    slots: tuple[str, ...],
    source: Stream | None,
    binding: Binding,
    order: tuple[Loop, ...],
    tile: tuple[tuple[str, int], ...],
    store: CostStore,
) -> Moved:
    flat = known_frame(nest, core, core.modes[0].name, binding, (), source, store)
    loops, split = (*order, *(Loop(dim, size) for dim, size in tile)), {loop.dim for loop in order if loop.trips > 1}
    read: float = 0
    written: float = 0
    copied: float = 0
    first, last, serial = list[tuple[str, float]](), list[float](), list[float]()
    accesses: list[Access] = []
    operands: list[OperandCost] = []
    for slot in slots:
        level = core.top(slot)
        crossing = Crossing(slot, level, None, 1, 1, 1)
        entered = entries(flat, crossing, loops, len(order))
        held, bits = tile_elements(flat, crossing, dict(tile)), flat.bits[slot]
        buffer = whole_bytes(held * bits * (1 if split.isdisjoint(flat.footprints[slot].dims) else 2))
        if slot != "O":
            read += entered * bits
            first.append((slot, held * bits))
            if level.instances > 1:
                serial.append((entered - held) * bits)
            accesses.append(Access(level.name, slot, Flow.FILL, entered, entered * bits, entered * bits))
            whole, entering = (whole_bytes(size, down=True) for size in (entered * bits, held * bits))
            operands.append(OperandCost(slot, whole, min(entering, whole), 0, buffer, False))
            continue
        again = entered - flat.distinct_results
        out = again * bits + flat.distinct_results * flat.result_bits
        read, written = read + again * bits, written + out
        last.append(held * flat.result_bits)
        accesses.append(Access(level.name, slot, Flow.FILL, again, again * bits, again * bits))
        accesses.append(Access(level.name, slot, Flow.DRAIN, entered, out, out))
        whole, leaving = whole_bytes(out, down=True), whole_bytes(held * flat.result_bits, down=True)
        spilled = whole_bytes(again * bits, down=True)
        operands.append(OperandCost(slot, whole, min(leaving, whole), spilled, buffer, False))
    if core.transposed_read.kind == "explicit":  # a transposing copy of its own: once more through DRAM
        copied = sum(flat.elements(slot) * flat.bits[slot] for slot in flat.transposed)
    read, written = read + copied, written + copied
    sizes = tuple(first), tuple(last), tuple(serial)
    return Moved(read, written, *sizes, tuple(accesses), copied, tuple(operands))


class Crossed(NamedTuple):
    """Cycles and joules of what passes between DRAM and the top memories."""

    passing_cycles: float  # all of it, one after another
    first_cycles: float
    last_cycles: float
    joules: dict[str, float]
    serial_cycles: float  # loading cells, which the array waits for


def crossed(moved: Moved, border: Border, binding: Binding, prices: Prices) -> Crossed:
    """Cycles and joules of what passes a border."""
    first = last = border.latency_cycles
    serial, common, shared = 0.0, border.bits_per_cycle, border.paces
    pace = {slot: shared.get(name, common) for slot, name in (("I", binding.I), ("W", binding.W), ("O", binding.O))}
    passing = 2 * moved.copied / common
    for slot, bits in moved.first:
        first += bits / pace[slot]
    for bits in moved.last:
        last += bits / common
    for bits in moved.serial:
        serial += bits / common
    read, written = moved.read_bits, moved.write_bits
    joules: dict[str, float] = {
        "dram": read * border.read_energy_j_per_bit + written * border.write_energy_j_per_bit,
        "link": (read + written) * border.link_energy_j_per_bit,
    }
    for level, slot, is_read, bits in moved.flows:
        spent = bits * (prices.read_j_per_bit if is_read else prices.write_j_per_bit)[level]
        joules[level] = joules.get(level, 0.0) + spent
        passing += bits / pace[slot]
    return Crossed(passing, first, last, joules, serial)
