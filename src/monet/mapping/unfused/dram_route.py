"""The way of operands between DRAM and a core that works alone: what passes when, in whole bursts.

The order is the scheduler's. First comes what the array must have before it starts; while it runs, what follows comes
and results leave; once it is done, the last results leave. Each of these four is one transfer: DRAM moves whole
bursts of it, links its bytes, every wire for as long as it takes there. What uses the same wires queues.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monet.hardware.accelerator import Accelerator, CoreInstance, Memory
from monet.hardware.core import Core
from monet.hardware.errors import HardwareError
from monet.hardware.interleaving import ways
from monet.mapping.nest.cost import Access

Wires = tuple[tuple[str, float], ...]  # name, cycles of the core that a byte takes there
DRAM = "dram"


def whole_bursts(size: int, burst: int) -> int:
    """Bytes that DRAM moves for a transfer of ``size`` bytes."""
    return -(-size // burst) * burst


@dataclass(frozen=True, slots=True)
class OperandCost:
    """One operand of a step: its slot, and in bytes what crosses the border for it when it is streamed.

    ``first``: of a read, what must be there before the array starts; of a result, what leaves after it has ended.
    ``spilled``: partial sums that come back. ``buffer``: its share of the step's buffers. ``streams``: it has no place
    of its own in the core and is streamed even in a held step.
    """

    slot: str
    bytes: int
    first: int
    spilled: int
    buffer: int
    streams: bool


@dataclass(frozen=True, slots=True)
class DramRoute:
    """Wires between DRAM and a core, ``DRAM`` itself among them. Those of both directions share what has one name."""

    reading: Wires
    writing: Wires
    burst_bytes: int
    latency_cycles: float  # until a transfer's first byte is there

    def cycles(self, wires: Wires, size: int) -> dict[str, float]:
        """How long a transfer takes each wire; empty if there is nothing to move."""
        if not size:
            return {}
        return {name: pace * (whole_bursts(size, self.burst_bytes) if name == DRAM else size) for name, pace in wires}


@dataclass(frozen=True, slots=True)
class Supply:
    """Where the operands of a core come from and go to: DRAM, or a shared level that has them."""

    name: str  # its endpoint
    bandwidth_bits_per_s: float
    latency_s: float
    burst_bytes: int
    read_energy_j_per_bit: float
    write_energy_j_per_bit: float
    is_dram: bool = False


def supply_of(accelerator: Accelerator, level: Memory | None = None) -> Supply:
    """DRAM, or a shared level; the narrower of the directions in which it has ports counts."""
    if level is None:
        shares = accelerator.dram_places[0]
        drams = [(share, dram) for share, dram in zip(shares, accelerator.drams, strict=True) if share]
        return Supply(
            accelerator.dram.name,
            min(dram.bandwidth_bits_per_s * dram.achievable / share for share, dram in drams),
            max(dram.latency_s for _, dram in drams),
            max(dram.burst_bytes for _, dram in drams),
            math.fsum(share * dram.read_energy_j_per_bit for share, dram in drams),
            math.fsum(share * dram.write_energy_j_per_bit for share, dram in drams),
            is_dram=True,
        )
    width = min(level.port_bits_per_s(is_write=False), level.port_bits_per_s(is_write=True))
    prices = level.level.read_energy_j_per_bit, level.level.write_energy_j_per_bit
    return Supply(level.endpoint, width, 0.0, 1, *prices)


def dram_route(accelerator: Accelerator, instance: CoreInstance, supply: Supply) -> DramRoute:
    """The way between DRAM, or what supplies a core in its place, and the core."""
    clock = instance.core.clock_hz
    there = links_from(accelerator, supply, instance.endpoint)
    try:
        back = links_from(accelerator, supply, instance.endpoint, back=True)
    except HardwareError:  # its results leave through other cores; whether they can is for the scheduler to say
        back = ()
    seconds = supply.latency_s + links_latency_s(accelerator, supply, instance.endpoint)
    pace = 8 * clock / supply.bandwidth_bits_per_s
    wires = [
        ((DRAM, pace), *_links(accelerator, route, clock, label)) for route, label in ((there, ""), (back, "back"))
    ]
    return DramRoute(wires[0], wires[1], supply.burst_bytes, seconds * clock)


def links_from(
    accelerator: Accelerator, supply: Supply, end: str, *, back: bool = False
) -> tuple[tuple[int, float], ...]:
    """Links between what supplies a core and its endpoint, each with the share of the bytes that pass it: of several
    DRAMs each has its own way."""
    if not supply.is_dram:
        return tuple((index, 1.0) for index in accelerator.route(*((end, supply.name) if back else (supply.name, end))))
    return tuple((index, share) for _, share, route in ways(accelerator, end, back=back) for index in route)


def links_latency_s(accelerator: Accelerator, supply: Supply, end: str) -> float:
    """Latency of the links between what supplies a core and its endpoint; of several ways the longest."""
    routes = (
        [accelerator.route(supply.name, end)] if not supply.is_dram else [way for *_, way in ways(accelerator, end)]
    )
    return max(math.fsum(accelerator.links[index].latency_s for index in route) for route in routes)


def _links(accelerator: Accelerator, route: tuple[tuple[int, float], ...], clock: float, label: str) -> Wires:
    found: dict[str, float] = {}
    for index, share in route:
        link = accelerator.links[index]
        one_way = link.is_bus or link.shared_directions or link.directed
        name = f"link {index}" if one_way else f"link {index} {label}"
        found[name] = found.get(name, 0.0) + share * (8 * clock / link.bandwidth_bits_per_s)
    return tuple(found.items())


@dataclass(frozen=True, slots=True)
class Passing:
    """What passes between DRAM and a core that works alone. ``stream_cycles``: all transfers one after another, if
    nothing waits for the array."""

    fill_cycles: float  # the first part in, with its latency
    drain_cycles: float  # the last results out, with their latency
    stream_cycles: float
    dram_cycles: float  # DRAM is busy
    read_bytes: int
    write_bytes: int
    read_burst_bytes: int
    write_burst_bytes: int

    def cycles(self, core_cycles: float) -> float:
        """Latency of an operator that takes its core so long."""
        return max(self.fill_cycles + core_cycles + self.drain_cycles, self.stream_cycles)

    def binds(self, core_cycles: float) -> bool:
        """Whether the way takes longer than the core."""
        return self.stream_cycles > self.fill_cycles + core_cycles + self.drain_cycles


def passing(route: DramRoute, operands: Sequence[tuple[bool, OperandCost]], copied_bytes: int = 0) -> Passing:
    """What passes for operands (whether one is a result, what crosses for it). ``copied_bytes``: of copies in DRAM
    that the core transposes for itself."""
    first = sum(operand.first for written, operand in operands if not written)
    last = sum(operand.first for written, operand in operands if written)
    rest = (
        sum(operand.spilled if written else operand.bytes - operand.first for written, operand in operands)
        + copied_bytes
    )
    leaving = sum(operand.bytes - operand.first for written, operand in operands if written) + copied_bytes
    into, through = route.cycles(route.reading, first), route.cycles(route.reading, rest)
    out, end = route.cycles(route.writing, leaving), route.cycles(route.writing, last)
    since = max((cycles for name, cycles in through.items() if name in out), default=0.0)  # the wires are free
    stream = max(_longest(through), since + _longest(out))
    filled, drained = (route.latency_cycles + _longest(busy) if busy else 0.0 for busy in (into, end))
    bursts = [whole_bursts(size, route.burst_bytes) for size in (first, rest, leaving, last)]
    return Passing(
        filled,
        drained,
        _longest(into) + stream + _longest(end),
        sum(bursts) * dict(route.reading)[DRAM],
        first + rest,
        leaving + last,
        bursts[0] + bursts[1],
        bursts[2] + bursts[3],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfusedCost:
    """An operator on a core, its operands in DRAM. Bits and joules at the border are apart from those below it."""

    compute_cycles: float
    core_cycles: float  # with all stalls but DRAM's
    core_bound_by: str  # ``compute`` or a port; whether DRAM takes longer is left open
    dispatch_cycles: int
    operands: tuple[OperandCost, ...]  # what crosses the border, in the nest's order
    passing: Passing  # the same over time
    dram_read_bits: float
    dram_write_bits: float
    accesses: tuple[Access, ...]  # below the border, over all tiles
    border_accesses: tuple[Access, ...]  # at the top memories, from and to DRAM
    energy_j_by_level: dict[str, float]  # below the border, with ``compute``
    border_energy_j: dict[str, float]  # ``dram``, ``link`` and the top memories' side of transfers

    @property
    def cycles(self) -> float:
        """Latency in cycles of the core."""
        return self.passing.cycles(self.dispatch_cycles + self.core_cycles)

    @property
    def fill_cycles(self) -> float:
        """First tiles in, and dispatch."""
        return self.passing.fill_cycles + self.dispatch_cycles

    @property
    def energy_j(self) -> float:
        """Dynamic energy, DRAM included."""
        return math.fsum((*self.energy_j_by_level.values(), *self.border_energy_j.values()))

    @property
    def bound_by(self) -> str:
        """``dram``, ``compute`` or a port."""
        return "dram" if self.passing.binds(self.dispatch_cycles + self.core_cycles) else self.core_bound_by


def _longest(cycles: dict[str, float]) -> float:
    return max(cycles.values(), default=0.0)


def passing_energy(
    found: Passing,
    operands: Sequence[tuple[bool, OperandCost]],
    core: Core,
    read_j_per_bit: float,
    write_j_per_bit: float,
    link_j_per_bit: float,
) -> dict[str, float]:
    """Joules of what passes: DRAM for whole bursts, links and the top memories for bytes."""
    joules = {
        DRAM: 8 * (found.read_burst_bytes * read_j_per_bit + found.write_burst_bytes * write_j_per_bit),
        "link": 8 * (found.read_bytes + found.write_bytes) * link_j_per_bit,
    }
    for written, operand in operands:
        if not operand.streams:
            level = core.top(operand.slot)
            came, left = (operand.spilled, operand.bytes) if written else (operand.bytes, 0)
            spent = 8 * (came * level.write_energy_j_per_bit + left * level.read_energy_j_per_bit)
            joules[level.name] = joules.get(level.name, 0.0) + spent
    return joules
