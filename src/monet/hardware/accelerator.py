"""Accelerator: cores, memories, links and DRAM with every figure resolved. What mapper and scheduler read.

Nothing here is optional or derived later: ``description`` fills in whatever a file leaves out. Everything is frozen and
hashable, so that a core can be part of a cache key. Units are in the names; energies are joules, times seconds or
cycles of the core's own clock.

Operand slots. A matrix array has three: ``I`` (first input), ``W`` (second input, the weight-like one) and ``O``
(output). A loop nest's operands are bound to slots by the mapper; ``Core.swappable_inputs`` says whether a nest's two
reads may also be bound the other way round.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from monet.display import Displayed
from monet.errors import nearest
from monet.hardware.errors import HardwareError
from monet.hardware.output_tiles import OutputTiles
from monet.hardware.rates import Rate, VectorRate, array_rate, lane_rate

OPERANDS = ("I", "W", "O")


class CoreKind(StrEnum):
    """What computes: a MAC array, vector lanes, or an analog array whose cells hold the weights."""

    MATRIX = "matrix"
    VECTOR = "vector"
    ANALOG = "analog"


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

    def function_cycles(self, function: str) -> float:
        """Cycles per element and lane of a vector function."""
        for name, cycles in self.functions:
            if name == function:
                return cycles
        raise HardwareError(
            f"this core cannot do the function {function!r}; {nearest(function, [name for name, _ in self.functions])}"
        )

    def peak_macs_per_s(self, rate: Rate) -> float:
        """Multiply-accumulates per second with every unit busy."""
        return self.units * rate.products_per_cycle * self.clock_hz


@dataclass(frozen=True, slots=True)
class CoreInstance:
    """A placed core. ``memories`` gives, for each slot the scheduler must bring data for, the memory it lives in."""

    name: str
    template: str  # name of the core in the description
    core: Core
    memories: tuple[tuple[str, str], ...]  # (slot, name in Accelerator.memories); streamed slots are absent
    endpoint: str  # where its streamed slots and private memories hang on the network
    position: tuple[int, ...] = ()  # (x, y) in a mesh, (i,) in a row

    def memory_of(self, operand: str) -> str:
        """Name of the scheduler-owned memory that holds a slot; empty if the slot is streamed."""
        return next((name for slot, name in self.memories if slot == operand), "")


@dataclass(frozen=True, slots=True)
class Memory:
    """An on-chip memory that the scheduler fills and evicts: a core's top memory, a shared one, or a cache-like
    buffer between cores and DRAM. ``level`` has its size, ports and energies; ``clock_hz`` is that of its ports.
    ``is_cache``: a buffer between cores and DRAM keeps all that passes and evicts what was not used for longest;
    otherwise it is managed by a plan that knows what is used again, and when."""

    name: str
    level: MemoryLevel
    cores: tuple[str, ...]  # names of core instances whose top it is; empty for a buffer between cores and DRAM
    endpoint: str  # node of the network where it hangs
    clock_hz: float
    is_cache: bool = False
    resident: tuple[str, ...] = ()  # categories of what stays here between steps

    @property
    def size_bytes(self) -> int:
        """Capacity, over all instances of the level."""
        return self.level.total_bytes

    def port_bits_per_s(self, *, is_write: bool) -> float:
        """Bits per second that can be read, or written, at all of its ports together."""
        wanted = ("read_write", "write" if is_write else "read")
        width = sum(port.bandwidth_bits_per_cycle for port in self.level.ports if port.direction in wanted)
        return width * self.level.instances * self.clock_hz


@dataclass(frozen=True, slots=True)
class Dram:
    """Off-chip memory. ``channels`` share the bandwidth evenly; reads and writes share a channel. A transfer moves
    whole bursts and waits ``latency_s`` once. Energies include the interface; ``static_power_w`` is always drawn.
    ``efficiency``: (bytes of a transfer, share of the peak that it achieves), smallest first; empty: all of it."""

    name: str
    kind: str
    capacity_bytes: int
    channels: int
    bandwidth_bits_per_s: float  # of all channels together
    latency_s: float
    burst_bytes: int
    read_energy_j_per_bit: float
    write_energy_j_per_bit: float
    static_power_w: float
    efficiency: tuple[tuple[int, float], ...] = ()

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Peak bytes per second of all channels together."""
        return self.bandwidth_bits_per_s / 8

    @property
    def achievable(self) -> float:
        """Share of the peak that large transfers achieve."""
        return self.efficiency[-1][1] if self.efficiency else 1.0


@dataclass(frozen=True, slots=True)
class Host:
    """The host's memory, and the link between it and DRAM. Nothing but paged-out activations uses it."""

    bandwidth_bytes_per_s: float
    latency_s: float
    energy_j_per_bit: float


@dataclass(frozen=True, slots=True)
class Link:
    """Wires between endpoints (instances of cores, memories, DRAMs). More than two endpoints make it a bus.

    ``shared_directions``: both directions, and on a bus all pairs, share the bandwidth. ``directed``: only from the
    first endpoint to the second. ``width_bits_per_cycle`` is per cycle of ``clock_hz``.
    """

    name: str
    endpoints: tuple[str, ...]
    bandwidth_bits_per_s: float
    latency_s: float
    energy_j_per_bit: float
    area_m2: float
    width_bits_per_cycle: float
    clock_hz: float
    shared_directions: bool = False
    directed: bool = False
    hub: str = ""  # a bus that only carries data to and from this endpoint
    leakage_w: float = 0.0

    @property
    def is_bus(self) -> bool:
        """Whether more than two endpoints share it."""
        return len(self.endpoints) > 2

    def leads(self, source: str, target: str) -> bool:
        """Whether data may go from ``source`` to ``target`` over this link."""
        if source == target or source not in self.endpoints or target not in self.endpoints:
            return False
        if self.hub and self.hub not in (source, target):
            return False
        return not self.directed or self.endpoints.index(source) < self.endpoints.index(target)


@dataclass(frozen=True, slots=True)
class Interface:
    """PHY and controller of a DRAM or of a serial link. ``standing_w`` is drawn whether it is used or not: leakage, and
    of a serial link its senders and receivers; ``logic_m2`` is the part of the area that is clocked."""

    name: str
    kind: str
    bandwidth_bytes_per_s: float
    area_m2: float
    logic_m2: float
    standing_w: float


@dataclass(frozen=True, repr=False)
class Accelerator(Displayed):
    """A whole accelerator: placed cores, the memories that the scheduler owns, links, DRAM."""

    name: str
    node_nm: float
    clock_hz: float
    cores: tuple[CoreInstance, ...]
    memories: tuple[Memory, ...]
    dram: Dram
    links: tuple[Link, ...]
    other_area_m2: float = 0.0  # chip area that nothing above stands for: control, I/O
    other_leakage_w: float = 0.0
    host: Host | None = None
    interfaces: tuple[Interface, ...] = ()  # of DRAM and serial links
    clock_power_w: float = 0.0  # clock network of all that is not gated, busy or not
    gated_clock_w: tuple[tuple[str, float], ...] = ()  # template → clock of one such core while it is busy
    description: Mapping[str, Any] | None = field(default=None, init=False, compare=False, repr=False)

    def described_by(self, description: Mapping[str, Any]) -> Accelerator:
        """The same accelerator, with the plain values it was made from; one made from it by ``replace`` has none."""
        accelerator = replace(self)
        object.__setattr__(accelerator, "description", description)
        return accelerator

    @cached_property
    def designs(self) -> dict[str, Core]:
        """Core templates by name."""
        return {instance.template: instance.core for instance in self.cores}

    @cached_property
    def like_cores(self) -> tuple[tuple[CoreInstance, ...], ...]:
        """Cores of equal design, whatever template or cluster they are declared in; designs in order of their first."""
        found: dict[Core, list[CoreInstance]] = {}
        for instance in self.cores:
            found.setdefault(instance.core.design, []).append(instance)
        return tuple(map(tuple, found.values()))

    @cached_property
    def design_number(self) -> dict[str, int]:
        """Core instance → number of its design, as in ``like_cores``."""
        return {instance.name: number for number, like in enumerate(self.like_cores) for instance in like}

    @cached_property
    def _by_name(self) -> dict[str, CoreInstance]:
        return {instance.name: instance for instance in self.cores}

    def instance(self, name: str) -> CoreInstance:
        """The core instance called ``name``."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        hint = nearest(name, [instance.name for instance in self.cores])
        raise HardwareError(f"{self.name}: no core {name!r}; {hint}")

    def memory(self, name: str) -> Memory:
        """The scheduler-owned memory called ``name``."""
        for memory in self.memories:
            if memory.name == name:
                return memory
        hint = nearest(name, [memory.name for memory in self.memories])
        raise HardwareError(f"{self.name}: no memory {name!r}; {hint}")

    @property
    def area_m2(self) -> float:
        """Chip area: cores, shared memories, links, interfaces, and what the description adds. DRAM is off chip.

        Control is not derived, so real dies are larger unless ``other_area_m2`` says so.
        """
        shared = math.fsum(memory.level.total_area_m2 for memory in self.memories if memory.level.memory)
        wires = math.fsum(link.area_m2 for link in self.links)
        interfaces = math.fsum(part.area_m2 for part in self.interfaces)
        cores = math.fsum(instance.core.area_m2 for instance in self.cores)
        return cores + shared + wires + interfaces + self.other_area_m2

    @property
    def on_chip_bytes(self) -> int:
        """Bytes of every memory level on the chip, registers included."""
        private = sum(
            level.total_bytes for instance in self.cores for level in instance.core.levels if not level.memory
        )
        return private + sum(memory.size_bytes for memory in self.memories if memory.level.memory)

    @property
    def static_power_w(self) -> float:
        """What is drawn busy or not: leakage, clock, interfaces, and static power of DRAM."""
        shared = math.fsum(memory.level.total_leakage_w for memory in self.memories if memory.level.memory)
        links = math.fsum(link.leakage_w for link in self.links)
        cores = math.fsum(instance.core.leakage_w for instance in self.cores)
        interfaces = math.fsum(part.standing_w for part in self.interfaces)
        on_chip = cores + shared + links + interfaces + self.other_leakage_w + self.clock_power_w
        return on_chip + self.dram.static_power_w

    def peak_macs_per_s(self, dtype: str) -> float:
        """Multiply-accumulates per second over all cores that take ``dtype`` for both inputs."""
        return sum(
            instance.core.peak_macs_per_s(rate)
            for instance in self.cores
            for rate in instance.core.rates
            if rate.takes(dtype, dtype)
        )

    @cached_property
    def _neighbours(self) -> dict[str, list[tuple[int, str]]]:
        """Endpoint → (link index, endpoint one hop away), in link order."""
        table: dict[str, list[tuple[int, str]]] = {}
        for index, link in enumerate(self.links):
            for source in link.endpoints:
                table.setdefault(source, []).extend(
                    (index, target) for target in link.endpoints if link.leads(source, target)
                )
        return table

    def route(self, source: str, target: str) -> tuple[int, ...]:
        """Indices of the links from one endpoint to another: fewest hops, then lowest link index at each hop.

        Mesh links are laid down x first, so this is dimension-ordered routing there. A route never passes through
        DRAM. Memories on the same endpoint have the empty route. No route at all is an error.
        """
        if target not in self._hops:
            self._hops[target] = self._hops_to(target)
        hops = self._hops[target]
        if source not in hops:
            raise HardwareError(f"{self.name}: no path from {source} to {target}")
        path: list[int] = []
        while source != target:
            index, source = min(
                (index, neighbour)
                for index, neighbour in self._neighbours[source]
                if hops.get(neighbour, math.inf) == hops[source] - 1
            )
            path.append(index)
        return tuple(path)

    @cached_property
    def _hops(self) -> dict[str, dict[str, int]]:
        """Target → hops from every endpoint, filled as routes are asked for."""
        return {}

    @cached_property
    def _sources(self) -> dict[str, list[str]]:
        """Endpoint → endpoints that have a link to it."""
        found: dict[str, list[str]] = {}
        for source, steps in self._neighbours.items():
            for _, neighbour in steps:
                found.setdefault(neighbour, []).append(source)
        return found

    def _hops_to(self, target: str) -> dict[str, int]:
        """Hops from every endpoint that can reach ``target``."""
        hops = {target: 0}
        queue = deque([target])
        while queue:
            here = queue.popleft()
            if here == self.dram.name != target:  # nothing passes through it
                continue
            for source in self._sources.get(here, ()):
                if source not in hops:
                    hops[source] = hops[here] + 1
                    queue.append(source)
        return hops
