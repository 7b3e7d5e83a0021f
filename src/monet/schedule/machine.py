"""An accelerator as the arrays that the scheduler's kernels read: resources, memories, routes, ticks.

Resources are what nodes queue for: cores, links (one per direction unless both share), the DRAM channels together.
Memory 0 is DRAM. A tick is 1/1024 of a cycle of the accelerator's clock, so that whole cycles are exact and all times
scale with the clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.errors import HardwareError
from monet.mapping.border import Border, border_of

Array = np.ndarray[Any, Any]
TICKS_PER_CYCLE = 1024
UNLIMITED = 2**62  # bytes


@dataclass(frozen=True)
class Routes:
    """Ways between all pairs of memories, as CSR over ``source · memories + target``."""

    pointer: Array
    resource: Array
    ticks_per_byte: Array
    latency: Array  # ticks
    exists: Array  # uint8
    link_energy: Array  # joules per byte over the links


@dataclass(frozen=True)
class Machine:
    """What the kernels know of an accelerator."""

    accelerator: Accelerator

    @property
    def ticks_per_second(self) -> float:
        """Ticks in a second."""
        return self.accelerator.clock_hz * TICKS_PER_CYCLE

    @cached_property
    def core_index(self) -> dict[str, int]:
        """Core instance → resource number."""
        return {instance.name: number for number, instance in enumerate(self.accelerator.cores)}

    @cached_property
    def memory_index(self) -> dict[str, int]:
        """Memory → number; DRAM is 0."""
        dram = self.accelerator.drams[0].name
        return {dram: 0} | {memory.name: 1 + number for number, memory in enumerate(self.accelerator.memories)}

    @cached_property
    def capacity(self) -> Array:
        """Bytes of every memory; DRAM is not limited here (its peak is checked afterwards)."""
        return np.array([UNLIMITED, *(memory.size_bytes for memory in self.accelerator.memories)], np.int64)

    @cached_property
    def link_resources(self) -> tuple[tuple[int, int], ...]:
        """For each link the resource of its forward and backward direction."""
        found, number = [], len(self.accelerator.cores)
        for link in self.accelerator.links:
            one_way = link.is_bus or link.shared_directions or link.directed
            found.append((number, number if one_way else number + 1))
            number += 1 if one_way else 2
        return tuple(found)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """Names of all resources, cores first, DRAM last."""
        names = [instance.name for instance in self.accelerator.cores]
        for link, (forward, backward) in zip(self.accelerator.links, self.link_resources, strict=True):
            names.append(link.name)
            if backward != forward:
                names.append(f"{link.name} (back)")
        return (*names, self.accelerator.drams[0].name)

    @property
    def dram_resource(self) -> int:
        """Resource number of DRAM."""
        return len(self.resource_names) - 1

    @cached_property
    def borders(self) -> dict[str, Border]:
        """What each core sees of DRAM when it is alone. DRAM is not limited here either: an operator may work in
        place, which its nest does not say."""
        found = {instance.name: border_of(self.accelerator, instance) for instance in self.accelerator.cores}
        return {name: replace(border, dram_bytes=UNLIMITED) for name, border in found.items()}

    @cached_property
    def routes(self) -> Routes:
        """Routes between all memories. Pairs without a way are marked; data then goes through DRAM."""
        accelerator, count = self.accelerator, len(self.memory_index)
        ends = [accelerator.drams[0].name, *(memory.endpoint for memory in accelerator.memories)]
        pointer, resource, per_byte = [0], list[int](), list[float]()
        latency, exists, energy = [], [], []
        for source in range(count):
            for target in range(count):
                way = self._way(source, target, ends)
                exists.append(way is not None)
                books, lag, joules = way or ([], 0.0, 0.0)
                resource.extend(number for number, _ in books)
                per_byte.extend(ticks for _, ticks in books)
                latency.append(math.ceil(lag * self.ticks_per_second - 1e-6))
                energy.append(joules)
                pointer.append(len(resource))
        return Routes(
            np.array(pointer, np.int64),
            np.array(resource, np.int64),
            np.array(per_byte),
            np.array(latency, np.int64),
            np.array(exists, np.uint8),
            np.array(energy),
        )

    def _way(self, source: int, target: int, ends: list[str]) -> tuple[list[tuple[int, float]], float, float] | None:
        """((resource, ticks per byte) …, latency in seconds, link joules per byte) from one memory to another."""
        accelerator, dram = self.accelerator, self.accelerator.drams[0]
        if source == target:
            return None
        books: dict[int, float] = {}
        lag = joules = 0.0
        if 0 in (source, target):
            books[self.dram_resource] = 8 / dram.bandwidth_bits_per_s * self.ticks_per_second
            lag += dram.latency_s
        here = ends[source]
        try:
            path = accelerator.route(ends[source], ends[target])
        except HardwareError:
            return None
        for index in path:
            link = accelerator.links[index]
            there = self._next(index, here, ends[target])
            forward = link.is_bus or link.endpoints.index(here) < link.endpoints.index(there)
            number = self.link_resources[index][0 if forward else 1]
            books[number] = books.get(number, 0.0) + 8 / link.bandwidth_bits_per_s * self.ticks_per_second
            lag, joules, here = lag + link.latency_s, joules + 8 * link.energy_j_per_bit, there
        return list(books.items()), lag, joules

    def _next(self, index: int, here: str, target: str) -> str:
        """The endpoint that a hop over a link leads to."""
        accelerator = self.accelerator
        hops = accelerator._hops[target]
        return min(
            neighbour
            for number, neighbour in accelerator._neighbours[here]
            if number == index and hops.get(neighbour, math.inf) == hops[here] - 1
        )

    def ticks(self, cycles: float, instance: CoreInstance) -> int:
        """Ticks of some cycles of a core, rounded up."""
        return math.ceil(cycles * (TICKS_PER_CYCLE * self.accelerator.clock_hz / instance.core.clock_hz) - 1e-6)
