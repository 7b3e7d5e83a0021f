"""Core: an array or lanes with the memories below it, every figure resolved. What the mapper reads.

Everything is frozen and hashable, so that a core can be part of a cache key. Units are in the names; energies are
joules, times seconds or cycles of the core's own clock.

Operand slots. A matrix array has three: ``I`` (first input), ``W`` (second input, the weight-like one) and ``O``
(output). A loop nest's operands are bound to slots by the mapper; ``Core.swappable_inputs`` says whether a nest's two
reads may also be bound the other way round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property

from monet.errors import nearest
from monet.hardware.errors import HardwareError
from monet.hardware.output_tiles import OutputTiles
from monet.hardware.rates import Rate, VectorRate, array_rate, lane_rate
from monet.hardware.thread_blocks import ThreadBlocks

OPERANDS = ("I", "W", "O")


class CoreKind(StrEnum):
    """What computes: a MAC array, vector lanes, or an analog array whose cells hold the weights. A port computes
    nothing: it transfers."""

    MATRIX = "matrix"
    VECTOR = "vector"
    ANALOG = "analog"
    PORT = "port"


class Flow(StrEnum):
    """The four ways data passes a memory level. Up means towards DRAM, down towards the MACs."""

    FILL = "fill"  # written from above: operands coming down, partial sums coming back
    FEED = "feed"  # read towards below: operands to the array, partial sums to be continued
    COLLECT = "collect"  # written from below: partial and final sums
    DRAIN = "drain"  # read towards above: partial and final sums leaving

    @property
    def is_read(self) -> bool:
        """Whether this flow reads the level (and so pays its read energy and needs a read port)."""
        return self in (Flow.FEED, Flow.DRAIN)


INPUT_FLOWS = (Flow.FILL, Flow.FEED)
OUTPUT_FLOWS = (Flow.FILL, Flow.FEED, Flow.COLLECT, Flow.DRAIN)


def flows_of(operand: str) -> tuple[Flow, ...]:
    """The flows an operand can have at a level: inputs only come down, sums go both ways."""
    return OUTPUT_FLOWS if operand == "O" else INPUT_FLOWS


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a memory (of each instance of it). A cycle moves at most ``bandwidth_bits_per_cycle`` through it.

    ``carries`` lists the (operand, flow) pairs that use this port; all of them share its bandwidth. Every pair that
    can occur at a level is carried by exactly one port of that level.
    """

    name: str
    direction: str  # "read", "write" or "read_write"
    bandwidth_bits_per_cycle: int
    carries: frozenset[tuple[str, Flow]]


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """One memory level of a core.

    ``shared_along`` names the array axes along which one instance serves all positions; along the other axes the
    level is replicated, ``instances`` times in all. A register per MAC is shared along nothing, a scratchpad along
    every axis. An ``O`` level that is not shared along a reduce axis keeps one partial sum per position there, and
    the sum over the axis happens on the way to the level above.

    ``size_bytes``, ports, energies, area and leakage are of **one instance**; ``total_*`` are of all.

    Energy: moving b bits costs ceil(b / min_access_bits) · min_access_bits / access_bits · read_energy_j (or write).

    ``double_buffered``: the level holds two tiles of at most half its size each, and filling one overlaps fully with
    using the other. Otherwise one tile may take the whole size and a refill waits until the old tile is used up.

    ``memory`` is the name of the accelerator-level memory that this level is, when several cores attach to it; empty
    for a private one.
    """

    name: str
    operands: tuple[str, ...]
    size_bytes: int
    shared_along: tuple[str, ...]
    instances: int
    ports: tuple[Port, ...]
    min_access_bits: int
    access_bits: int
    read_energy_j: float
    write_energy_j: float
    area_m2: float
    leakage_w: float
    double_buffered: bool = False
    latency_cycles: int = 1
    memory: str = ""
    banks: int = 0  # that its words lie in by turns; 0: nobody ever waits for a bank
    bank_bits: int = 64

    @property
    def total_bytes(self) -> int:
        """Bytes of all instances."""
        return self.size_bytes * self.instances

    @property
    def total_area_m2(self) -> float:
        """Area of all instances."""
        return self.area_m2 * self.instances

    @property
    def total_leakage_w(self) -> float:
        """Leakage power of all instances."""
        return self.leakage_w * self.instances

    @property
    def tile_bytes(self) -> int:
        """Bytes of one instance that tiles may take: half of it when double-buffered."""
        return self.size_bytes // 2 if self.double_buffered else self.size_bytes

    @property
    def read_energy_j_per_bit(self) -> float:
        """Read energy spread over the bits of a full-width access."""
        return self.read_energy_j / self.access_bits

    @property
    def write_energy_j_per_bit(self) -> float:
        """Write energy spread over the bits of a full-width access."""
        return self.write_energy_j / self.access_bits

    def port_for(self, operand: str, flow: Flow) -> Port:
        """The port through which ``operand`` makes ``flow`` at this level."""
        for port in self.ports:
            if (operand, flow) in port.carries:
                return port
        raise HardwareError(f"memory {self.name!r} has no port for {flow} of {operand}")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an array and its wires.

    ``multicast``: slots of which all positions along the axis receive the same value for one read. ``reduce``: the
    outputs of all positions are added. Neither: unicast. A dimension may be unrolled here only if it does not index a
    slot in ``multicast``, and on a reduce axis only if it does not index the output. An input that is not multicast
    is delivered once per position even where positions want the same value.

    ``dims``: loop dimensions that the axis is wired for, or None for any that the wires allow. ``systolic``: data
    ripples through, so a tile pays (used size − 1) extra cycles to fill and drain.
    """

    name: str
    size: int
    multicast: frozenset[str] = frozenset()
    reduce: bool = False
    dims: tuple[str, ...] | None = None
    systolic: bool = False


@dataclass(frozen=True, slots=True)
class ArrayMode:
    """One way to configure the array: the same axes by name and size, other wires or dimensions."""

    name: str
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class TransposedRead:
    """Price of reading an input transposed (Wᵀ, Xᵀ).

    ``kind``: "free"; "per_element" (``cycles_per_element`` added to the read); or "explicit" (the core cannot: a
    transposing copy must be scheduled first).
    """

    kind: str = "free"
    cycles_per_element: float = 0.0


@dataclass(frozen=True)
class Core:
    """The design of a core; ``CoreInstance`` places copies of it. Equal designs are equal, whatever they are called.

    ``levels`` run from the innermost (next to the MACs) to the outermost. The outermost level that holds a slot is
    that slot's **top**: the border between mapper and scheduler. A slot whose top is replicated over the array and is
    not ``weights_resident`` is **streamed** from outside the core (see ``streamed``).

    Vector work is possible where ``lanes`` > 0: ``functions`` gives the cycles per element and lane by function.
    """

    kind: CoreKind
    clock_hz: float
    modes: tuple[ArrayMode, ...]  # empty for a pure vector core
    rates: tuple[Rate, ...]
    lanes: int
    vector_rates: tuple[VectorRate, ...]
    functions: tuple[tuple[str, float], ...]
    levels: tuple[MemoryLevel, ...]
    accumulator_level: str  # innermost level that holds O: where partial sums are added up
    swappable_inputs: bool
    zero_skipping: bool  # strided input gradients run without multiplying the inserted zeros
    transposed_read: TransposedRead
    mode_switch_cycles: int
    dispatch_cycles: int  # that a core waits for the launch of a group of operators, or of one alone
    area_m2: float  # everything: compute, private memories
    compute_area_m2: float
    compute_leakage_w: float
    refills_every_tile: bool = False  # nothing stays in the array from one tile of an operator to the next
    format_switch_cycles: int = 0  # that a core waits when it goes on in other number formats
    output_tiles: OutputTiles | None = None  # what an array that works output tile by output tile pays for each
    thread_blocks: ThreadBlocks | None = None  # how products that are not fused run over all cores of the design
    tile_buffers: int = 0  # tiles that may have asked for operands and not be done; 0: as many as there is room for

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    def __hash__(self) -> int:
        return self._hash  # cores are keys of many tables, and long

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # differs between processes

    @cached_property
    def design(self) -> Core:
        """This core, whichever memories it attaches to: equal for cores that do the same in the same time, wherever
        they are declared."""
        levels = tuple(replace(level, memory="shared") if level.memory else level for level in self.levels)
        return replace(self, levels=levels)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axes of the first (default) mode."""
        return self.modes[0].axes if self.modes else ()

    @cached_property
    def units(self) -> int:
        """MAC units of the array."""
        return math.prod(axis.size for axis in self.axes) if self.modes else 0

    @property
    def weights_resident(self) -> bool:
        """Whether weights live in the array itself (analog cells) rather than pass through it."""
        return self.kind is CoreKind.ANALOG

    @property
    def leakage_w(self) -> float:
        """Static power of compute and private memories."""
        return self.compute_leakage_w + sum(level.total_leakage_w for level in self.levels if not level.memory)

    @cached_property
    def slot_levels(self) -> dict[str, tuple[MemoryLevel, ...]]:
        """The levels that hold each slot, innermost first."""
        return {slot: tuple(level for level in self.levels if slot in level.operands) for slot in OPERANDS}

    @cached_property
    def flow_ports(self) -> dict[tuple[str, str, Flow], tuple[str, int]]:
        """(level, slot, flow) → the port that carries it, and its bits per cycle of one instance of the level."""
        return {
            (level.name, slot, flow): (f"{level.name}.{port.name}", port.bandwidth_bits_per_cycle)
            for level in self.levels
            for port in level.ports
            for slot, flow in port.carries
        }

    def levels_of(self, operand: str) -> tuple[MemoryLevel, ...]:
        """The levels that hold a slot, innermost first."""
        return self.slot_levels.get(operand, ())

    def top(self, operand: str) -> MemoryLevel:
        """The outermost level that holds a slot."""
        held = self.levels_of(operand)
        if not held:
            raise HardwareError(f"no memory level of this core holds operand {operand}")
        return held[-1]

    @cached_property
    def streamed(self) -> frozenset[str]:
        """Slots that reach the array from outside the core without a scratchpad of their own."""
        return frozenset(
            operand
            for operand in OPERANDS
            if self.levels_of(operand)
            and self.top(operand).instances > 1
            and not (operand == "W" and self.weights_resident)
        )

    def level(self, name: str) -> MemoryLevel:
        """The level called ``name``."""
        for level in self.levels:
            if level.name == name:
                return level
        raise HardwareError(f"no memory level {name!r}; {nearest(name, [level.name for level in self.levels])}")

    def rate(self, first: str, second: str, *, either_way: bool = False) -> Rate:
        """Rate for operands of these formats; an error if the array has none (see ``rates.array_rate``)."""
        return array_rate(self.rates, first, second, either_way=either_way)

    def cannot_multiply(self, first: str, second: str) -> str:
        """Why the array cannot multiply these formats, in either order; empty if it can."""
        known = self._refusals.get((first, second))
        if known is None:
            try:
                self.rate(first, second, either_way=True)
                known = ""
            except HardwareError as error:
                known = str(error)
            self._refusals[first, second] = known
        return known

    @cached_property
    def _refusals(self) -> dict[tuple[str, str], str]:
        return {}

    def lane_rate(self, *formats: str) -> VectorRate:
        """Rate in which the lanes compute operands of these formats (see ``rates.lane_rate``)."""
        return lane_rate(self.vector_rates, formats)

    @property
    def only_quantises(self) -> bool:
        """Whether its lanes are a quantiser at the output of its array, and nothing else."""
        return [name for name, _ in self.functions] == ["quantize"]

    @cached_property
    def _cycles_of(self) -> dict[str, float]:
        return dict(reversed(self.functions))  # the first of a name counts

    @cached_property
    def _refused(self) -> dict[str, str]:
        return {}  # by function that it cannot do, in words

    def function_cycles(self, function: str) -> float:
        """Cycles per element and lane of a vector function."""
        found = self._cycles_of.get(function)
        if found is not None:
            return found
        if function not in self._refused:  # finding what is meant instead takes long
            hint = nearest(function, [name for name, _ in self.functions])
            self._refused[function] = f"this core cannot do the function {function!r}; {hint}"
        raise HardwareError(self._refused[function])

    def peak_macs_per_s(self, rate: Rate) -> float:
        """Multiply-accumulates per second with every unit busy."""
        return self.units * rate.products_per_cycle * self.clock_hz
