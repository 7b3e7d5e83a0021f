"""An accelerator as the arrays that the scheduler's kernels read: resources, memories, routes, ticks.

Resources are what nodes queue for: cores, links (one per direction unless both share), the ports of memories that
several cores share and of those between cores and DRAM (shared levels), the channels of each DRAM together.
Memory 0 is DRAM, all of several; those outside of the chip, behind ports that transfers run on as tiles run on cores,
come last. A tick is 1/1024 of a cycle of the accelerator's clock, so that whole cycles are exact and all times scale
with the clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64
from monet.hardware.accelerator import Accelerator, CoreInstance, Memory
from monet.hardware.errors import HardwareError
from monet.hardware.hierarchy import passed, shared_levels
from monet.mapping.cost_store import CostStore
from monet.schedule.clusters import LEAST, Cluster, clusters_of, folded
from monet.schedule.routes import routes_of
from monet.schedule.simulation.records import Routes
from monet.schedule.supplies import UNLIMITED, Supplies

TICKS_PER_CYCLE = 1024
MOST_TICKS = 2**62  # they are counted in 64 bits


class Crew(NamedTuple):
    """Cores that run an operator."""

    instances: tuple[CoreInstance, ...]
    resources: frozenset[int]  # as in ``Machine.core_index``
    numbers: I64  # as in ``Machine.unfolded_index``
    designs: tuple[str, ...]  # the first core of every design
    ahead: int  # tiles that the one with fewest buffers fetches for before it is done with the one before these


@dataclass(frozen=True)
class Machine:
    """What the kernels know of an accelerator."""

    accelerator: Accelerator
    store: CostStore = field(compare=False, repr=False)
    least: int = LEAST  # like cores that work together
    left_free: tuple[int, ...] = ()  # bytes of each of several DRAMs that no storage is placed in

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """Cores that work together, and are one here: the first stands for all."""
        return clusters_of(self.accelerator, self.least)

    @cached_property
    def _folded(self) -> tuple[Accelerator, dict[int, int]]:
        return folded(self.accelerator, self.clusters)

    @property
    def folded(self) -> Accelerator:
        """The accelerator with one core for each cluster: numbers of cores, memories and links are those here."""
        return self._folded[0]

    @cached_property
    def _first(self) -> dict[str, str]:
        """Core or memory of a cluster → that of the first core."""
        pairs = [(core.name, cluster.first.name) for cluster in self.clusters for core in cluster.cores]
        for cluster in self.clusters:
            for names in cluster.memories:
                pairs += zip(names, cluster.memories[0], strict=True)
        return dict(pairs)

    def first_of(self, instance: CoreInstance) -> CoreInstance:
        """The core that stands for one."""
        return self.folded.instance(self._first[instance.name]) if instance.name in self._first else instance

    @cached_property
    def cluster_of(self) -> dict[str, Cluster]:
        """Core → those that it works together with."""
        return {core.name: cluster for cluster in self.clusters for core in cluster.cores}

    @property
    def ticks_per_second(self) -> float:
        """Ticks in a second."""
        return self.accelerator.clock_hz * TICKS_PER_CYCLE

    @cached_property
    def cores(self) -> tuple[CoreInstance, ...]:
        """What steps run on: cores (one for each cluster), then ports to what is outside of the chip."""
        return (*self.folded.cores, *self.accelerator.ports)

    @cached_property
    def memories(self) -> tuple[Memory, ...]:
        """What a schedule fills besides DRAM: memories on chip, then those behind ports."""
        return (*self.folded.memories, *self.accelerator.outside_memories)

    @property
    def first_outside(self) -> int:
        """The number of the first memory outside of the chip, whether there is one or not."""
        return 1 + len(self.folded.memories)

    @cached_property
    def core_index(self) -> dict[str, int]:
        """Core instance, or port → resource number; those of a cluster have one."""
        found = {instance.name: number for number, instance in enumerate(self.cores)}
        return found | {core: found[self._first[core]] for core in self.cluster_of}

    def tile_buffers(self, prefetch: int | None) -> I64:
        """By core, how many tiles may have asked for their operands and not be done; 0: as many as there is room for.
        ``prefetch`` is what a plan says instead of the hardware: 0 for one tile, otherwise room is the limit."""
        if prefetch is not None:
            return np.full(len(self.cores), prefetch == 0, np.int64)
        return np.array([instance.core.tile_buffers for instance in self.cores], np.int64)

    def tiles_ahead(self, prefetch: int | None, crews: Iterable[tuple[str, ...]]) -> int:
        """How many tiles some cores fetch for before they are done with the one before these: what a plan says, or one
        less than the buffers of the core that has fewest (where there is but room, one)."""
        if prefetch is not None:
            return prefetch
        if len(self._ahead_of_designs) == 1:  # of a port too
            return min(self._ahead_of_designs)
        return min(self.crew(cores).ahead for cores in crews)

    @cached_property
    def _ahead_of_designs(self) -> frozenset[int]:
        return frozenset((core.tile_buffers or 2) - 1 for core in self.accelerator.designs.values())

    @cached_property
    def memory_index(self) -> dict[str, int]:
        """Memory → number; DRAM is 0, like memories of a cluster have one."""
        found = {self.accelerator.dram.name: 0}
        found |= {memory.name: 1 + number for number, memory in enumerate(self.memories)}
        names = (name for cluster in self.clusters for each in cluster.memories for name in each)
        return found | {name: found[self._first[name]] for name in names}

    def like_memories(self, number: int) -> tuple[str, ...]:
        """Names of the memories that have a number: those of all cores of a cluster, or one."""
        first = self.memories[number - 1].name
        if self.members[number] == 1:
            return (first,)
        cluster = next(cluster for cluster in self.clusters if first in cluster.memories[0])
        return tuple(names[cluster.memories[0].index(first)] for names in cluster.memories)

    @cached_property
    def capacity(self) -> I64:
        """Bytes of every memory; DRAM and what is outside of the chip are not limited here (their peaks are checked
        afterwards)."""
        on_chip = (memory.size_bytes for memory in self.folded.memories)
        return np.array([UNLIMITED, *on_chip, *(UNLIMITED for _ in self.accelerator.endpoints)], np.int64)

    def some_capacity(self, share: float) -> I64:
        """The capacity of every memory of which a plan uses but a share of what is on chip."""
        if share == 1.0:
            return self.capacity
        found = self.capacity.copy()
        found[1 : self.first_outside] = (found[1 : self.first_outside] * share).astype(np.int64)
        return found

    @cached_property
    def link_resources(self) -> tuple[tuple[int, int], ...]:
        """For each link the resource of its forward and backward direction; a second core of a cluster has those of
        the first."""
        found, number = list[tuple[int, int]](), len(self.cores)
        for index, link in enumerate(self.folded.links):
            if index in self.twins:
                found.append(found[self.twins[index]])
                continue
            one_way = link.is_bus or link.shared_directions or link.directed
            found.append((number, number if one_way else number + 1))
            number += 1 if one_way else 2
        return tuple(found)

    @cached_property
    def link_j_per_byte(self) -> F64:
        """Joules per byte of every link resource; zero for cores and DRAM."""
        found = np.zeros(len(self.resource_names))
        for link, pair in zip(self.folded.links, self.link_resources, strict=True):
            for number in pair:
                found[number] = 8 * link.energy_j_per_bit
        return found

    @cached_property
    def dram_j_per_bit(self) -> tuple[F64, F64]:
        """Joules per bit that is read, and written, by place in DRAM."""
        drams, shares = self.accelerator.drams, np.array(self.accelerator.dram_places)
        read, write = (np.array([getattr(dram, name) for dram in drams])
                       for name in ("read_energy_j_per_bit", "write_energy_j_per_bit"))  # fmt: skip
        return shares @ read, shares @ write

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """Names of all resources: cores, links, ports, DRAM."""
        names = [instance.name for instance in self.cores]
        for index, (link, (forward, backward)) in enumerate(zip(self.folded.links, self.link_resources, strict=True)):
            if index not in self.twins:
                names.append(link.name)
                if backward != forward:
                    names.append(f"{link.name} (back)")
        names += [f"{memory.name} (port)" for memory in self.folded.memories if memory.name in self.ported]
        for memory in self.levels:
            names += [f"{memory.name} ({port})" for port in dict.fromkeys(_level_ports(memory))]
        return (*names, *(dram.name for dram in self.accelerator.drams))

    @property
    def twins(self) -> dict[int, int]:
        """Links of a cluster's second core → those of its first."""
        return self._folded[1]

    @cached_property
    def spread(self) -> I64:
        """By resource, how many there are of it: one for each core of a cluster, or one."""
        found = np.ones(len(self.resource_names), np.int64)
        names = {name: number for number, name in enumerate(self.resource_names)}
        for cluster in self.clusters:
            mine = [names[cluster.first.name]]
            mine += [names[name] for memory in cluster.memories[0] if (name := f"{memory} (port)") in names]
            mine += [number for second, first in self.twins.items() for number in self.link_resources[first]
                     if cluster.first.endpoint in self.folded.links[first].endpoints]  # fmt: skip
            found[mine] = len(cluster.cores)
        return found

    @cached_property
    def members(self) -> I64:
        """By memory, how many there are of it: one for each core of a cluster, or one."""
        found = np.ones(len(self.capacity), np.int64)
        for cluster in self.clusters:
            found[[self.memory_index[name] for name in cluster.memories[0]]] = len(cluster.cores)
        return found

    @cached_property
    def unfolded_index(self) -> dict[str, int]:
        """Core of the accelerator, or port → number, each its own."""
        names = (core.name for core in (*self.accelerator.cores, *self.accelerator.ports))
        return {name: number for number, name in enumerate(names)}

    def crew(self, cores: tuple[str, ...]) -> Crew:
        """What is known of some cores that run an operator, found once."""
        found = self._crews.get(cores)
        if found is None:
            instances = tuple(map(self.accelerator.instance, cores))
            number = self.accelerator.design_number
            found = self._crews[cores] = Crew(
                instances,
                frozenset(map(self.core_index.__getitem__, cores)),
                np.array([self.unfolded_index[core] for core in cores], np.int64),
                tuple({number.get(core, core): core for core in reversed(cores)}.values()),
                min((instance.core.tile_buffers or 2) - 1 for instance in instances),
            )
        return found

    @cached_property
    def _crews(self) -> dict[tuple[str, ...], Crew]:
        return {}

    @cached_property
    def unfolded_resources(self) -> tuple[tuple[str, ...], I64]:
        """Names of all resources with those of every core of a cluster; of every resource the number of the first
        like it there (the others follow, but for cores: ``unfolded_index``)."""
        names = list(self.unfolded_index)
        if not self.clusters:
            return self.resource_names, np.arange(len(self.resource_names))
        place = [self.unfolded_index[core.name] for core in self.cores]
        like = self._like_resources
        for number, name in enumerate(self.resource_names[len(self.cores) :], len(self.cores)):
            place.append(len(names))
            names += like.get(number, [name])
        return tuple(names), np.array(place, np.int64)

    def like_end(self, end: str, number: int) -> str:
        """An endpoint of the first core of a cluster → that of another; others stay."""
        for cluster in self.clusters:
            if end == cluster.first.endpoint:
                return cluster.cores[number].endpoint
        return end

    @cached_property
    def _like_resources(self) -> dict[int, list[str]]:
        """Names of the links and ports of every core of a cluster, by resource of the first."""
        found: dict[int, list[str]] = {}
        number = {name: place for place, name in enumerate(self.resource_names)}
        for cluster in self.clusters:
            for place, first in enumerate(cluster.memories[0]):
                if f"{first} (port)" in number:
                    found[number[f"{first} (port)"]] = [f"{names[place]} (port)" for names in cluster.memories]
            for place, link in enumerate(cluster.links[0]):
                wires = [self.accelerator.links[links[place]].name for links in cluster.links]
                for end in ("", " (back)"):
                    if (first := self.accelerator.links[link].name + end) in number:
                        found[number[first]] = [name + end for name in wires]
        return found

    @cached_property
    def levels(self) -> tuple[Memory, ...]:
        """Shared levels: memories that are no level of any core, and that data from DRAM passes on its way to one."""
        return shared_levels(self.folded)

    @cached_property
    def parents(self) -> I64:
        """By memory, the shared level that data from DRAM passes last on its way there; 0 if there is none. What comes
        to one core comes the same way: where its memories lie apart, levels of some of them only do not count."""
        index, memories = self.memory_index, self.memories
        levels, found = {memory.name for memory in self.levels}, np.zeros(len(self.capacity), np.int64)
        for memory in memories:
            names = [name for name in passed(self.folded, memory) if name in levels]
            found[index[memory.name]] = index[names[-1]] if names else 0
        changed = True
        while changed:
            changed = False
            for instance in self.cores:
                own = sorted({index[name] for _, name in instance.memories})
                chains = [self._chain(found, number) for number in own]
                common = next((level for level in chains[0] if all(level in chain for chain in chains)), 0)
                changed = changed or any(found[number] != common for number in own)
                found[own] = common
        return found

    def _chain(self, parents: I64, number: int) -> list[int]:
        """Shared levels above a memory, the nearest first."""
        found, level = list[int](), int(parents[number])
        while level:
            found.append(level)
            level = int(parents[level])
        return found

    @cached_property
    def resident(self) -> frozenset[str]:
        """Categories of what stays on chip between steps."""
        return frozenset(name for memory in self.levels for name in memory.resident)

    def residence(self, category: str) -> I64:
        """By memory, the nearest shared level above it in which what is of a category stays; 0 if there is none."""
        memories, found = self.memories, np.zeros(len(self.capacity), np.int64)
        for number in range(1, len(found)):
            levels = self._chain(self.parents, number)
            found[number] = next((level for level in levels if category in memories[level - 1].resident), 0)
        return found

    def chain(self, memory: str) -> tuple[Memory, ...]:
        """Shared levels between a memory and DRAM, the nearest first."""
        return tuple(self.folded.memories[level - 1] for level in self._chain(self.parents, self.memory_index[memory]))

    @cached_property
    def ported(self) -> frozenset[str]:
        """Memories whose ports are queued for: several cores share them, or data is copied between two at one place."""
        memories = self.folded.memories
        places = [memory.endpoint for memory in memories]
        return frozenset(
            memory.name for memory in memories if len(memory.cores) > 1 or places.count(memory.endpoint) > 1
        )

    def level_resources(self, memory: Memory) -> tuple[int, int]:
        """The resources in which data is read from a shared level, and written to it."""
        names = {name: number for number, name in enumerate(self.resource_names)}
        read, write = (names[f"{memory.name} ({port})"] for port in _level_ports(memory))
        return read, write

    @cached_property
    def port_resources(self) -> I64:
        """By memory, the resource of its ports; -1 if nobody has to queue for them."""
        names = {name: number for number, name in enumerate(self.resource_names)}
        return np.array([-1, *(names.get(f"{memory.name} (port)", -1) for memory in self.memories)], np.int64)

    @property
    def dram_resource(self) -> int:
        """Resource number of DRAM, of several the first; the others follow."""
        return len(self.resource_names) - len(self.accelerator.drams)

    @cached_property
    def routes(self) -> Routes:
        """Routes between all memories. Pairs without a way are marked; data then goes through DRAM."""
        return routes_of(self)

    @cached_property
    def supplying(self) -> Supplies:
        """What cores see of DRAM and of the shared levels above them."""
        return Supplies(self)

    @cached_property
    def host_ticks(self) -> int:
        """Ticks that the host takes to issue a group of operators; 0: there is none."""
        ticks = math.ceil(self.accelerator.host_dispatch_s * self.ticks_per_second - 1e-6)
        if ticks > MOST_TICKS:
            raise self.too_long("the host", ticks)
        return ticks

    def ticks(self, cycles: float, instance: CoreInstance) -> int:
        """Ticks of some cycles of a core, rounded up."""
        ticks = math.ceil(cycles * (TICKS_PER_CYCLE * self.accelerator.clock_hz / instance.core.clock_hz) - 1e-6)
        if ticks > MOST_TICKS:
            raise self.too_long(f"core {instance.name}", ticks)
        return ticks

    def check_ticks(self, resource: I64, ticks: I64) -> None:
        """Refuse bookings that do not add up in 64 bits; one that did not fit by itself has come out negative."""
        if len(ticks) and (ticks.min() < 0 or ticks.sum(dtype=np.float64) > MOST_TICKS):
            worst = int(np.argmin(ticks) if ticks.min() < 0 else np.argmax(ticks))
            raise self.too_long(self.resource_names[int(resource[worst])], ticks.sum(dtype=np.float64))

    def too_long(self, resource: str, ticks: float) -> HardwareError:
        """That a step takes longer than times can be counted."""
        limit = MOST_TICKS / self.ticks_per_second
        over = f"about {ticks / self.ticks_per_second:.3g} s" if ticks > 0 else f"more than {limit:.3g} s"
        return HardwareError(
            f"{self.accelerator.name}: the step takes {over}, most of it at {resource}; times are counted up to "
            f"{limit:.3g} s at {self.accelerator.clock_hz:g} Hz. Check the unit of its bandwidth or clock"
        )


def _level_ports(memory: Memory) -> tuple[str, str]:
    """The ports of a shared level that are read and written: one for both if any port does both."""
    both = any(port.direction == "read_write" for port in memory.level.ports)
    return ("port", "port") if both else ("read port", "write port")
