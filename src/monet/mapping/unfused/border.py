"""The border between mapper and scheduler: what a core instance sees of DRAM when it works alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import Accelerator, CoreInstance, Link, Memory
from monet.hardware.core import OPERANDS, Core, MemoryLevel
from monet.hardware.errors import HardwareError
from monet.hashed import Hashed
from monet.mapping.errors import DoesNotFit
from monet.mapping.nest.frame import Stream
from monet.mapping.unfused.dram_route import (
    DramRoute,
    OperandCost,
    Passing,
    Supply,
    dram_route,
    links_from,
    links_latency_s,
    passing,
    passing_energy,
    supply_of,
)


@dataclass(frozen=True)
class Border:
    """DRAM as one core sees it, or a shared level that has its operands: bits per cycle of the core's clock, joules per
    bit (links included), first-word cycles.

    ``memories``: (slot, name, level) of the top memories that the scheduler fills; streamed slots are absent.
    ``route``: the wires one by one, for what an operator alone takes; tiles are chosen by the slowest of them.
    ``shared``: inputs that other cores want too at the same time, and bits per cycle of each: one transfer serves all.
    """

    bits_per_cycle: float
    read_energy_j_per_bit: float
    write_energy_j_per_bit: float
    link_energy_j_per_bit: float
    latency_cycles: float
    memories: tuple[tuple[str, str, MemoryLevel], ...]
    dram: str
    dram_bytes: int
    route: DramRoute
    shared: tuple[tuple[str, float], ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    def __hash__(self) -> int:
        return self._hash  # part of many keys, and deep

    @cached_property
    def stream(self) -> Stream:
        """DRAM as the source of a streamed slot."""
        return Stream(
            self.bits_per_cycle,
            self.read_energy_j_per_bit + self.link_energy_j_per_bit,
            self.write_energy_j_per_bit + self.link_energy_j_per_bit,
        )

    def pace_of(self, operand: str) -> float:
        """Bits per cycle at which an operand comes."""
        return self.paces.get(operand, self.bits_per_cycle)

    @cached_property
    def paces(self) -> dict[str, float]:
        """Bits per cycle of inputs that other cores want too."""
        return dict(self.shared)

    def check_room(self, nest: LoopNest) -> None:
        """Raise if DRAM cannot hold the operands of a nest; the largest one is named."""
        sizes = {operand.name: operand.bytes for operand in nest.operands}
        if sum(sizes.values()) > self.dram_bytes:
            largest = max(sizes, key=lambda name: sizes[name])
            free = max(0, self.dram_bytes - sum(sizes.values()) + sizes[largest])
            raise DoesNotFit(largest, self.dram, sizes[largest], free)

    def pass_operands(
        self, nest: LoopNest, operands: tuple[OperandCost, ...], core: Core, copied_bytes: int = 0
    ) -> tuple[Passing, dict[str, float]]:
        """What passes over time, and its joules. Operands after those of the nest are read."""
        written = [*(operand.written for operand in nest.operands), *(False for _ in operands[len(nest.operands) :])]
        pairs = tuple(zip(written, operands, strict=True))
        passed = passing(self.route, pairs, copied_bytes)
        prices = self.read_energy_j_per_bit, self.write_energy_j_per_bit, self.link_energy_j_per_bit
        return passed, passing_energy(passed, pairs, core, *prices)

    def memory_of(self, slot: str) -> MemoryLevel | None:
        """The top memory of a slot, or None if it is streamed."""
        return next((level for name, _, level in self.memories if name == slot), None)


def _way(accelerator: Accelerator, instance: CoreInstance, supply: Supply) -> tuple[float, list[tuple[Link, float]]]:
    """Bits per second of the slowest part of the way to a core, and its links with the share that passes each."""
    shares = dict[int, float]()
    for index, share in links_from(accelerator, supply, instance.endpoint):
        shares[index] = shares.get(index, 0.0) + share
    route = [(accelerator.links[index], share) for index, share in shares.items()]
    bandwidth = min([supply.bandwidth_bits_per_s, *(link.bandwidth_bits_per_s / share for link, share in route)])
    if bandwidth <= 0:
        raise HardwareError(f"{accelerator.name}: core {instance.name} reaches {supply.name} with zero bandwidth")
    return bandwidth, route


def border_pace(accelerator: Accelerator, instance: CoreInstance, level: Memory | None = None) -> float:
    """Bits per cycle of ``border_of``."""
    return _way(accelerator, instance, supply_of(accelerator, level))[0] / instance.core.clock_hz


def border_of(accelerator: Accelerator, instance: CoreInstance, level: Memory | None = None) -> Border:
    """The border of a core instance whose operands are in DRAM, or in a shared level; the slowest part of the way to it
    sets the bandwidth."""
    dram, clock, supply = accelerator.dram, instance.core.clock_hz, supply_of(accelerator, level)
    bandwidth, route = _way(accelerator, instance, supply)
    memories = Hashed((slot, name, instance.core.top(slot)) for slot, name in instance.memories if slot in OPERANDS)
    return Border(
        bandwidth / clock,
        supply.read_energy_j_per_bit,
        supply.write_energy_j_per_bit,
        math.fsum(share * link.energy_j_per_bit for link, share in route),
        (supply.latency_s + links_latency_s(accelerator, supply, instance.endpoint)) * clock,
        memories,
        dram.name,
        dram.capacity_bytes,
        dram_route(accelerator, instance, supply),
    )
