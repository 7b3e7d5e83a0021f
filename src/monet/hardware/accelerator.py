"""Accelerator: cores, memories, links and DRAM with every figure resolved. What the scheduler reads.

Nothing here is optional or derived later: ``description`` fills in whatever a file leaves out. Everything is frozen and
hashable. Units are in the names; energies are joules, times seconds or cycles of the accelerator's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from monet.display import Displayed
from monet.errors import nearest
from monet.hardware.core import Core, MemoryLevel
from monet.hardware.errors import HardwareError
from monet.hardware.network import Hop, Network, Wire, network_of


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
    parts: tuple[Dram, ...] = ()  # the DRAMs that this one stands for, if there are several

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Peak bytes per second of all channels together."""
        return self.bandwidth_bits_per_s / 8

    @property
    def achievable(self) -> float:
        """Share of the peak that large transfers achieve."""
        return self.efficiency[-1][1] if self.efficiency else 1.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Something outside of the chip that data is sent to and comes from over a port of its own: the memory of a host,
    a network of other devices. Operators that transfer (``OpKind.endpoint``) run there, one after another. ``place``
    is where the port hangs on the network: beside DRAM unless links lead to it."""

    name: str
    kind: str  # host or network
    bandwidth_bytes_per_s: float  # one way or both together: transfers follow each other
    latency_s: float
    energy_j_per_bit: float  # of the port and what is behind it
    capacity_bytes: int  # of the memory behind it; ``BOUNDLESS`` if it is not said
    place: str


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
        return self.wire.leads(source, target)

    @property
    def wire(self) -> Wire:
        """What routes depend on."""
        return Wire(self.endpoints, self.directed, self.hub)


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
    endpoints: tuple[Endpoint, ...] = ()  # outside of the chip: hosts, networks
    interfaces: tuple[Interface, ...] = ()  # of DRAM and serial links
    tdp_w: float = 0.0  # that the maker states; 0 if it is not known
    host_dispatch_s: float = 0.0  # that a host takes to issue a group of operators, or one alone
    stated_clock_hz: float = 0.0  # of the maker's peak rates; 0: ``clock_hz``
    clock_power_w: float = 0.0  # clock network of all that is not gated, busy or not
    gated_clock_w: tuple[tuple[str, float], ...] = ()  # template → clock of one such core while it is busy
    dram_places: tuple[tuple[float, ...], ...] = ((1.0,),)  # where data lies (``interleaving``): by DRAM, its share
    description: Mapping[str, Any] | None = field(default=None, init=False, compare=False, repr=False)

    def described_by(self, description: Mapping[str, Any]) -> Accelerator:
        """The same accelerator, with the plain values it was made from; one made from it by ``replace`` has none."""
        accelerator = replace(self)
        object.__setattr__(accelerator, "description", description)
        return accelerator

    @property
    def drams(self) -> tuple[Dram, ...]:
        """All DRAMs; ``dram`` is all of them as one."""
        return self.dram.parts or (self.dram,)

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
        return {instance.name: instance for instance in (*self.cores, *self.ports)}

    @cached_property
    def ports(self) -> tuple[CoreInstance, ...]:
        """Ports to endpoints, as what transfers run on. They are no cores: no peak, no area counts them."""
        from monet.hardware.ports import port_of

        return tuple(port_of(endpoint, self.clock_hz) for endpoint in self.endpoints)

    @cached_property
    def outside_memories(self) -> tuple[Memory, ...]:
        """What is behind the ports, in their order; nothing stays behind one to a network."""
        from monet.hardware.ports import memory_behind

        return tuple(memory_behind(endpoint, self.clock_hz) for endpoint in self.endpoints)

    def endpoint(self, kind: str) -> Endpoint | None:
        """The first endpoint of a kind, or the one of that name."""
        named = [each for each in self.endpoints if each.name == kind]
        return next(iter(named or (each for each in self.endpoints if each.kind == kind)), None)

    def instance(self, name: str) -> CoreInstance:
        """The core instance, or port, called ``name``."""
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
    def network(self) -> Network:
        """The links without their figures, and the ways over them."""
        ends = (*(dram.name for dram in self.drams), *(end.name for end in self.endpoints))
        return network_of((link.wire for link in self.links), ends)

    def hops(self, source: str, target: str) -> tuple[Hop, ...]:
        """The links from one endpoint to another, and where each leads: fewest hops, then lowest link index at each.

        Mesh links are laid down x first, so this is dimension-ordered routing there. A route never passes through
        DRAM or what is outside of the chip. Memories on the same endpoint have the empty route. No route at all is an
        error.
        """
        found = self.network.hops(source, target)
        if found is None:
            raise HardwareError(f"{self.name}: no path from {source} to {target}")
        return found

    def route(self, source: str, target: str) -> tuple[int, ...]:
        """The same, indices of the links only."""
        return tuple(hop.link for hop in self.hops(source, target))
