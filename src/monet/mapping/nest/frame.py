"""Frame: a loop nest laid over an array. Everything about a mapping that does not depend on loop order and tiles.

A frame fixes binding, array mode and unrolling, and knows for every slot which levels its data crosses, how many
instances take part, and how each crossing turns into reads and writes: ``Term``, affine in the number of elements that
enter the level (``entries``). Cost of a given mapping and search both read these terms, so they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from monet.formats import format_named, whole_bytes
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import OPERANDS, Axis, Core, Flow, MemoryLevel
from monet.hardware.output_tiles import bank_conflicts
from monet.hardware.rates import Rate
from monet.mapping.errors import MappingError
from monet.mapping.nest.footprint import Extent, Footprint, window_counts
from monet.mapping.nest.mapping import Binding, Unrolled
from monet.mapping.nest.output_tiles import (
    Product,
    flattened_reads,
    flattened_tiling,
    grouped_sizes,
    padded,
    product_of,
    unrolled_tiling,
)

UNIT = "unit"  # the axis inside a MAC unit that sums several products of one step


@dataclass(frozen=True, slots=True)
class Stream:
    """Where a slot without a memory of its own comes from: what the border offers it."""

    bandwidth_bits_per_cycle: float
    read_energy_j_per_bit: float
    write_energy_j_per_bit: float


@dataclass(frozen=True, slots=True)
class Crossing:
    """Data of ``slot`` between ``level`` and ``above`` (None: the stream). Entries are counted once per element and
    unicast position; one entry is ``reads`` elements at the level above and ``fills`` elements at this level."""

    slot: str
    level: MemoryLevel
    above: MemoryLevel | None
    reads: int
    fills: int
    positions: int  # instances of the level that hold different parts of the operand

    @property
    def above_name(self) -> str:
        """Name of the level above."""
        return self.above.name if self.above else "stream"


@dataclass(frozen=True, slots=True)
class Term:
    """Elements (and bits) that a flow moves: per entry of ``crossing`` plus a constant. ``billed`` is the factor by
    which accesses narrower than the smallest one cost more energy."""

    level: str
    slot: str
    flow: Flow
    crossing: int  # index into Frame.crossings; -1 for none
    elements_per_entry: int
    elements: int
    bits_per_entry: float
    bits: float
    billed: float = 1.0


@dataclass(frozen=True)
class Frame:
    """A nest on a core with binding, mode and unrolling chosen. Energies have no part in it (see ``prices``), so that
    one frame serves all cores of a shape. Rate, axes and footprints follow from the rest."""

    nest: LoopNest
    core: Core
    rate: Rate = field(compare=False)
    mode: str
    axes: tuple[Axis, ...] = field(compare=False)
    binding: Binding
    unrolled: tuple[Unrolled, ...]
    stream: Stream | None
    footprints: dict[str, Footprint] = field(compare=False)  # what each slot touches

    # --- geometry -----------------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Dimensions longer than one."""
        return {name: size for name, size in self.nest.dims if size > 1}

    @cached_property
    def factors(self) -> dict[str, int]:
        """Unrolling of every dimension."""
        factors = dict.fromkeys(self.sizes, 1)
        for unrolling in self.unrolled:
            factors[unrolling.dim] *= unrolling.factor
        return factors

    @cached_property
    def steps(self) -> dict[str, int]:
        """Temporal steps of every dimension."""
        return {dim: -(-size // self.factors[dim]) for dim, size in self.sizes.items()}

    @cached_property
    def bits(self) -> dict[str, float]:
        """Bits that move with an element in each slot; partial sums for O."""
        bits = {slot: self.footprints[slot].operand.bits_per_element for slot in ("I", "W")}
        return {**bits, "O": format_named(self.rate.accumulator).bits}

    @cached_property
    def result_bits(self) -> float:
        """Bits that move with a finished output element."""
        return self.footprints["O"].operand.bits_per_element

    @cached_property
    def _wires(self) -> dict[str, Axis]:
        return {axis.name: axis for axis in self.axes}

    def _inside(self, level: MemoryLevel | None, axis: str) -> bool:
        """Whether one instance of a level serves all positions along an axis."""
        return level is None or axis == UNIT or axis in level.shared_along

    def _merges(self, slot: str, axis: str) -> bool:
        """Whether an axis delivers one read to all positions, or adds all outputs."""
        if axis == UNIT:
            return slot == "O"
        wires = self._wires[axis]
        return wires.reduce if slot == "O" else slot in wires.multicast

    @property
    def levels(self) -> dict[str, tuple[MemoryLevel, ...]]:
        """The levels of each slot, innermost first."""
        return self.core.slot_levels

    @cached_property
    def _extents(self) -> dict[tuple[str, str], Extent]:
        return {}

    def extent(self, dim: str, level: MemoryLevel | None) -> Extent:
        """A dimension as one instance of ``level`` sees it."""
        key = (dim, level.name if level else "")
        if key not in self._extents:
            self._extents[key] = self._extent(dim, level)
        return self._extents[key]

    def _extent(self, dim: str, level: MemoryLevel | None) -> Extent:
        inside = math.prod(
            unrolling.factor
            for unrolling in self.unrolled
            if unrolling.dim == dim and self._inside(level, unrolling.axis)
        )
        return Extent(self.sizes[dim], self.factors[dim], inside)

    @cached_property
    def known(self) -> dict[Hashable, Any]:
        """Whatever has been worked out for this frame: costs of mappings, arrays for kernels."""
        return {}

    def used_instances(self, level: MemoryLevel) -> int:
        """Instances of a level that the unrolling uses."""
        if self.product is not None:
            sides = ((self.product.rows if "W" in axis.multicast else self.product.columns, axis) for axis in self.axes)
            return math.prod(min(side, axis.size) for side, axis in sides if not self._inside(level, axis.name))
        return math.prod(unrolling.factor for unrolling in self.unrolled if not self._inside(level, unrolling.axis))

    # --- compute ------------------------------------------------------------------------------------------------------

    @cached_property
    def product(self) -> Product | None:
        """The nest as the matrix product that a flattening array sees (see ``OutputTiles``); None for other arrays."""
        tiles = self.core.output_tiles
        if tiles is None or not tiles.flatten:
            return None
        return padded(product_of(self.sizes, self.footprints, tiles.col2im), self.footprints)

    @cached_property
    def multiplied(self) -> dict[str, int]:
        """Dimensions as the array works through them: in whole groups where elements share a scale, unless all of one
        lies on the array."""
        longer = grouped_sizes(self.sizes, self.footprints)
        return {dim: longer[dim] if self.factors[dim] < size else size for dim, size in self.sizes.items()}

    @cached_property
    def compute_cycles(self) -> float:
        """Cycles of the array without any waiting."""
        if self.core.output_tiles is not None:
            if self.product is not None:
                tiling = flattened_tiling(self.product, self.axes, self.rate)
            else:
                tiling = unrolled_tiling(self.multiplied, self.footprints, self.axes, self.unrolled)
            return tiling.cycles(self.axes, self.rate.cycles_per_step, self.core.output_tiles, self._conflict_cycles())
        steps = math.prod(-(-size // self.factors[dim]) for dim, size in self.multiplied.items())
        cycles = steps * self.rate.cycles_per_step
        if not self.core.zero_skipping:  # inserted zeros of a strided scatter are multiplied too
            cycles *= math.prod(window.a for window in self.footprints["O"].windows if window.v)
        return cycles

    def _conflict_cycles(self) -> float:
        """Cycles that an output tile loses at the banks that its inputs come from and its results go to."""
        level = self.levels["I"][0]
        if not level.banks or self.levels["W"][0] != level or self.levels["O"][-1] != level:
            return 0.0
        step, words = self.rate.products_per_step / self.rate.cycles_per_step, []
        for slot, other in (("I", "W"), ("W", "I")):
            held = format_named(self.footprints[slot].operand.dtype)
            width = math.prod(axis.size for axis in self.axes if other in axis.multicast)
            words.append(math.ceil(width * step * held.bits / level.bank_bits))
            if held.group is not None and slot == "W":
                words.append(1)  # scales of both inputs
        results = math.ceil(self.core.units * self.result_bits / level.bank_bits)
        written = min(results, max(1, level.port_for("O", Flow.COLLECT).bandwidth_bits_per_cycle // level.bank_bits))
        return bank_conflicts(level.banks, tuple(words), written, -(-results // written))

    @cached_property
    def ripple_cycles(self) -> int:
        """Extra cycles until data has passed a systolic array, where it pays for that once."""
        if self.core.output_tiles is not None:
            return 0  # every output tile has paid
        used = {axis.name: 1 for axis in self.axes if axis.systolic}
        for unrolling in self.unrolled:
            if unrolling.axis in used:
                used[unrolling.axis] *= unrolling.factor
        return sum(size - 1 for size in used.values())

    # --- crossings ----------------------------------------------------------------------------------------------------

    @cached_property
    def crossings(self) -> tuple[Crossing, ...]:
        """Every level below a slot's border, slot by slot, innermost first."""
        return tuple(crossing for slot in OPERANDS for crossing in self._crossings_of(slot))

    def _crossings_of(self, slot: str) -> Iterator[Crossing]:
        levels = self.levels[slot]
        if not levels:
            raise MappingError(f"operand {self.binding.operand(slot)}: no level of the core holds slot {slot}")
        streamed = slot in self.core.streamed
        if streamed and self.stream is None:
            raise MappingError(f"operand {self.binding.operand(slot)} is streamed, and no source is given for it")
        relevant = self.footprints[slot].dims
        for below, above in zip(levels, (*levels[1:], None), strict=True):
            if above is None and not streamed:
                return
            reads = fills = positions = 1
            for unrolling in self.unrolled:
                if self._inside(below, unrolling.axis):
                    continue
                if unrolling.dim in relevant:
                    positions *= unrolling.factor
                    continue
                fills *= unrolling.factor
                if not self._inside(above, unrolling.axis) or not self._merges(slot, unrolling.axis):
                    reads *= unrolling.factor
            yield Crossing(slot, below, above, reads, fills, positions)

    def overfull_cells(self) -> tuple[str, int, int] | None:
        """(slot, bytes needed, bytes there are) of a border spread over the array, such as analog cells, that is too
        small for what each of its instances has to hold; None if all is well."""
        for slot in OPERANDS:
            top = self.levels[slot][-1]
            if top.instances == 1 or slot in self.core.streamed:
                continue
            touched = self.footprints[slot]
            held = math.prod(self.steps[dim] * self.extent(dim, top).inside for dim in touched.dims)
            needed = whole_bytes(held * self.bits[slot])
            if needed > top.tile_bytes:
                return slot, needed, top.tile_bytes
        return None

    @cached_property
    def distinct_results(self) -> int:
        """Output elements that are touched at all."""
        return self.elements("O")

    def _array_accesses(self, slot: str) -> tuple[int, int]:
        """(elements that the array asks of the innermost level, elements of one access of one instance)."""
        level, touched = self.levels[slot][0], self.footprints[slot]
        total = math.prod(self.sizes[dim] for dim in touched.plain)
        total *= math.prod(window_counts(window, self.sizes).points for window in touched.windows)
        beat = math.prod(self.extent(dim, level).inside for dim in touched.dims)
        for dim in self.sizes.keys() - touched.dims:
            on_axes = [unrolling for unrolling in self.unrolled if unrolling.dim == dim]
            merged = [
                unrolling
                for unrolling in on_axes
                if self._inside(level, unrolling.axis) and self._merges(slot, unrolling.axis)
            ]
            unmerged = math.prod(unrolling.factor for unrolling in on_axes if unrolling not in merged)
            total *= self.sizes[dim] if not merged else self.steps[dim] * unmerged
            beat *= math.prod(
                unrolling.factor
                for unrolling in on_axes
                if unrolling not in merged and self._inside(level, unrolling.axis)
            )
        if self.product is not None:
            total = flattened_reads(self.product, self.axes, self.rate)[slot]
        return total, beat

    # --- accesses -----------------------------------------------------------------------------------------------------

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All reads and writes at and below the border."""
        return (*self._array_terms(), *self._crossing_terms())

    def _fed_bits(self, slot: str) -> float:
        """Bits that the array takes with an element. A flattening one takes whole groups of the product, which is
        padded already, whatever pads the tensor."""
        held = format_named(self.footprints[slot].operand.dtype)
        if slot == "O" or self.product is None or held.group is None:
            return self.bits[slot]
        return held.bits + held.group.shared_bits / math.prod(held.group.shape)

    def _array_terms(self) -> Iterator[Term]:
        for slot in ("I", "W", "O"):
            level, bits = self.levels[slot][0], self._fed_bits(slot)
            total, beat = self._array_accesses(slot)
            least = level.min_access_bits
            billed = -(-beat * bits // least) * least / (beat * bits)
            if slot != "O":
                yield Term(level.name, slot, Flow.FEED, -1, 0, total, 0, total * bits, billed)
                continue
            first = next((k for k, crossing in enumerate(self.crossings) if crossing.slot == "O"), -1)
            results = self.distinct_results
            if first < 0:  # sums live at the border: the last write of each is its result
                finished = results * (self.result_bits - bits)
                yield Term(level.name, slot, Flow.COLLECT, -1, 0, total, 0, total * bits + finished, billed)
                yield Term(level.name, slot, Flow.FEED, -1, 0, total - results, 0, (total - results) * bits, billed)
                continue
            crossing = self.crossings[first]
            # a sum that is not continued from above starts without a read
            fresh, known = crossing.fills - crossing.reads, crossing.reads * results
            yield Term(level.name, slot, Flow.COLLECT, -1, 0, total, 0, total * bits, billed)
            yield Term(
                level.name, slot, Flow.FEED, first, -fresh, total - known, -fresh * bits, (total - known) * bits, billed
            )

    def _crossing_terms(self) -> Iterator[Term]:
        innermost = self.levels["O"][0].name
        for k, crossing in enumerate(self.crossings):
            above, level, slot = crossing.above_name, crossing.level.name, crossing.slot
            reads, fills, bits = crossing.reads, crossing.fills, self.bits[slot]
            if slot != "O":
                yield Term(above, slot, Flow.FEED, k, reads, 0, reads * bits, 0)
                yield Term(level, slot, Flow.FILL, k, fills, 0, fills * bits, 0)
                continue
            results = self.distinct_results
            finished = results * (self.result_bits - bits)
            yield Term(above, slot, Flow.COLLECT, k, reads, 0, reads * bits, reads * finished)
            drained = 0 if level == innermost else fills * finished
            yield Term(level, slot, Flow.DRAIN, k, fills, 0, fills * bits, drained)
            yield Term(above, slot, Flow.FEED, k, reads, -reads * results, reads * bits, -reads * results * bits)
            yield Term(level, slot, Flow.FILL, k, reads, -reads * results, reads * bits, -reads * results * bits)

    # --- rates --------------------------------------------------------------------------------------------------------

    @cached_property
    def _ports(self) -> dict[tuple[str, str, Flow], tuple[str, float]]:
        found = {}
        used = {level.name: self.used_instances(level) for level in self.core.levels}
        for key, (port, bandwidth) in self.core.flow_ports.items():
            found[key] = (port, 1.0 / (bandwidth * used[key[0]]))
        if self.stream is not None:
            per_bit = 1.0 / self.stream.bandwidth_bits_per_cycle
            for slot in OPERANDS:
                for flow in Flow:
                    found["stream", slot, flow] = ("stream", per_bit)
        return found

    def cycles_per_bit(self, level: str, slot: str, flow: Flow) -> tuple[str, float]:
        """(port, cycles that one bit of a flow takes there), the used instances working side by side."""
        return self._ports[level, slot, flow]

    @cached_property
    def transfer_cycles(self) -> tuple[float, ...]:
        """Cycles per entry of each crossing, the slower end counting."""
        found = []
        for crossing in self.crossings:
            slot, bits = crossing.slot, self.bits[crossing.slot]
            outward = slot == "O"
            upper = self.cycles_per_bit(crossing.above_name, slot, Flow.COLLECT if outward else Flow.FEED)[1]
            lower = self.cycles_per_bit(crossing.level.name, slot, Flow.DRAIN if outward else Flow.FILL)[1]
            found.append(bits * max(crossing.reads * upper, crossing.fills * lower))
        return tuple(found)

    def overlapped_bits(self, crossing: Crossing) -> float:
        """Largest tile whose exchange overlaps with using the one before it."""
        level = crossing.level
        if level.double_buffered:
            return math.inf
        return level.size_bytes * 4.0 if len(level.operands) == 1 else 0.0

    @cached_property
    def inputs_share_a_port(self) -> bool:
        """Whether both inputs leave their border through one port: their first tiles come one after the other."""
        outer = {crossing.slot: crossing for crossing in self.crossings}
        if "I" not in outer or "W" not in outer:
            return False
        ports = {self.cycles_per_bit(outer[slot].above_name, slot, Flow.FEED)[0] for slot in ("I", "W")}
        return len(ports) == 1

    @cached_property
    def constant_fill_cycles(self) -> float:
        """Fill that no mapping avoids: latencies of the longest chain, ripple of a systolic array, transposing, setting
        up."""
        chains = [sum(level.latency_cycles for level in self.levels[slot]) for slot in ("I", "W")]
        tiles = self.core.output_tiles
        setup = tiles.setup_cycles if tiles is not None else 0
        return float(max(chains) + self.ripple_cycles + setup) + self.transpose_cycles

    @cached_property
    def transposed(self) -> tuple[str, ...]:
        """Input slots that are read against the order they are stored in: what is summed over comes first.

        Wᵀ in an input gradient, Xᵀ and dYᵀ in a weight gradient. Dimensions of all three operands do not count.
        """
        shared = frozenset.intersection(*(footprint.dims for footprint in self.footprints.values()))
        output_dims = self.footprints["O"].dims
        found = []
        for slot in ("I", "W"):
            layout = [dim for dim in self.footprints[slot].plain if dim not in shared]
            if layout and layout[0] not in output_dims and any(dim in output_dims for dim in layout):
                found.append(slot)
        return tuple(found)

    def elements(self, slot: str) -> int:
        """Distinct elements of a slot that the nest touches."""
        touched = self.footprints[slot]
        plain = math.prod(self.sizes[dim] for dim in touched.plain)
        return plain * math.prod(window_counts(window, self.sizes).distinct for window in touched.windows)

    @cached_property
    def transpose_cycles(self) -> float:
        """Cycles of transposing inputs on their way into the array, where the core charges them by the element."""
        price = self.core.transposed_read
        if price.kind != "per_element":
            return 0.0
        return price.cycles_per_element * sum(self.elements(slot) for slot in self.transposed)
