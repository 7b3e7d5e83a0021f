"""Where area and static power go, and power at full use: every unit busy at its rate, every memory as the arrays demand
it or its ports allow, every link and DRAM at full bandwidth. What could be drawn, not what a step draws on average."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from monet.formats import format_named
from monet.hardware.accelerator import Accelerator, Memory
from monet.hardware.core import OPERANDS, Core, Flow, MemoryLevel
from monet.hardware.rates import Rate

Traffic = dict[tuple[str, str, Flow], float]  # (level, slot, flow) → bits per cycle of all instances


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One part of an accelerator: its area on the chip and its static power."""

    name: str
    area_m2: float
    static_w: float


def budget(accelerator: Accelerator) -> tuple[BudgetRow, ...]:
    """Every part that takes area or static power; the sums are the accelerator's."""
    counts, designs = Counter(instance.template for instance in accelerator.cores), accelerator.designs
    rows = [
        BudgetRow(f"{count} × {name}", count * designs[name].area_m2, count * designs[name].leakage_w)
        for name, count in counts.items()
    ]
    rows += [
        BudgetRow(memory.name, memory.level.total_area_m2, memory.level.total_leakage_w)
        for memory in accelerator.memories
        if memory.level.memory
    ]
    links = accelerator.links
    rows.append(
        BudgetRow("links", math.fsum(link.area_m2 for link in links), math.fsum(link.leakage_w for link in links))
    )
    rows += [BudgetRow(f"{part.name} ({part.kind})", part.area_m2, part.standing_w) for part in accelerator.interfaces]
    rows.append(BudgetRow("other", accelerator.other_area_m2, accelerator.other_leakage_w))
    rows.append(BudgetRow("clock", 0.0, accelerator.clock_power_w))
    rows += [BudgetRow(f"{dram.name}, off chip", 0.0, dram.static_power_w) for dram in accelerator.drams]
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class PowerRow:
    """What one part of an accelerator draws at full use."""

    name: str
    watts: float


def full_use(accelerator: Accelerator) -> tuple[PowerRow, ...]:
    """Power at full use by part; the sum is that of the accelerator with its DRAM."""
    counts = Counter(instance.template for instance in accelerator.cores)
    rows, shared = [], dict.fromkeys((memory.name for memory in accelerator.memories if memory.level.memory), 0.0)
    for template, count in counts.items():
        core = accelerator.designs[template]
        traffic = within_ports(core, demand(core))
        levels = {level.name: _watts(level, traffic) * core.clock_hz * count for level in core.levels}
        for level in core.levels:
            if level.memory:
                shared[level.memory] += levels.pop(level.name)
        rows.append(PowerRow(f"{count} × {template}, arithmetic", arithmetic_w(core) * count))
        rows.append(PowerRow(f"{count} × {template}, memories", math.fsum(levels.values())))
    for memory in accelerator.memories:
        if memory.level.memory:
            most = _all_ports_w(memory)
            rows.append(PowerRow(memory.name, min(most, shared[memory.name]) if memory.cores else most))
    gated = accelerator.gated_clock_w
    rows.append(PowerRow("links", _links_w(accelerator)))
    for dram in accelerator.drams:
        per_bit = (dram.read_energy_j_per_bit + dram.write_energy_j_per_bit) / 2
        rows.append(PowerRow(f"{dram.name}, transfers", dram.bandwidth_bits_per_s * per_bit))
    rows += [
        PowerRow(f"{each.name}, transfers", 8 * each.bandwidth_bytes_per_s * each.energy_j_per_bit)
        for each in accelerator.endpoints
    ]
    rows.append(PowerRow("clock of busy cores", math.fsum(watts * counts[name] for name, watts in gated)))
    rows.append(PowerRow("static", accelerator.static_power_w))
    return tuple(rows)


def full_use_power_w(accelerator: Accelerator) -> float:
    """Power of the accelerator and its DRAM at full use."""
    return math.fsum(row.watts for row in full_use(accelerator))


# --- cores ------------------------------------------------------------------------------------------------------------


def arithmetic_w(core: Core) -> float:
    """Array and lanes, each in the format in which it draws most."""
    array = max((core.peak_macs_per_s(rate) * rate.energy_j for rate in core.rates), default=0.0)
    lanes = max((rate.elements_per_cycle * rate.energy_j for rate in core.vector_rates), default=0.0)
    return array + core.lanes * lanes * core.clock_hz


def core_memories_w(core: Core) -> float:
    """Memories of one core's own at full use."""
    traffic = within_ports(core, demand(core))
    return math.fsum(_watts(level, traffic) for level in core.levels if not level.memory) * core.clock_hz


def demand(core: Core) -> Traffic:
    """Bits that the array and the lanes could take and give in a cycle if nothing were used twice, level by level: next
    to the array what its wires need, above what the level below can be filled with."""
    traffic: Traffic = {}
    rate = max(core.rates, key=lambda rate: core.peak_macs_per_s(rate) * rate.energy_j, default=None)
    if rate is not None:
        for slot in OPERANDS:
            _add_array(core, slot, rate, traffic)
    if core.lanes:
        _add_lanes(core, traffic)
    return traffic


def _add_array(core: Core, slot: str, rate: Rate, traffic: Traffic) -> None:
    down, up = (Flow.FEED, Flow.FILL) if slot != "O" else (Flow.COLLECT, Flow.DRAIN)
    below: MemoryLevel | None = None
    for level in core.levels_of(slot):
        wanted = _distinct_bits(core, level, slot, rate)
        if below is not None:
            wanted = min(wanted, _port_bits(below, slot, up), _port_bits(level, slot, down))
            _add(traffic, below, slot, up, wanted)
        elif slot == "O":
            _add(traffic, level, slot, Flow.FEED, wanted)  # the sum so far
        _add(traffic, level, slot, down, wanted)
        below = level


def _distinct_bits(core: Core, level: MemoryLevel, slot: str, rate: Rate) -> float:
    """Bits a cycle between all instances of a level and the array: one value for positions that share wires."""
    along = (axis for axis in core.axes if axis.name in level.shared_along)
    each = math.prod(axis.size for axis in along if not (axis.reduce if slot == "O" else slot in axis.multicast))
    name = rate.accumulator if slot == "O" else rate.inputs[OPERANDS.index(slot)]
    products = rate.products_per_step if slot != "O" else 1
    return level.instances * each * format_named(name).bits * products / rate.cycles_per_step


def _add_lanes(core: Core, traffic: Traffic) -> None:
    """Two operands in and one out for every lane."""
    rate = max(core.vector_rates, key=lambda rate: rate.elements_per_cycle * rate.energy_j)
    bits = core.lanes * rate.elements_per_cycle * format_named(rate.dtype).bits
    for slot, flow in (("I", Flow.FEED), ("W", Flow.FEED), ("O", Flow.COLLECT)):
        if core.levels_of(slot):
            _add(traffic, core.top(slot), slot, flow, bits)


def _add(traffic: Traffic, level: MemoryLevel, slot: str, flow: Flow, bits: float) -> None:
    key = level.name, slot, flow
    traffic[key] = traffic.get(key, 0.0) + bits


def _port_bits(level: MemoryLevel, slot: str, flow: Flow) -> float:
    return level.port_for(slot, flow).bandwidth_bits_per_cycle * level.instances


def within_ports(core: Core, traffic: Traffic) -> Traffic:
    """The same traffic, with what shares a port cut back in proportion to what it can move."""
    loads: dict[tuple[str, str], float] = {}
    for (name, slot, flow), bits in traffic.items():
        port = core.level(name).port_for(slot, flow)
        loads[name, port.name] = loads.get((name, port.name), 0.0) + bits
    kept = {}
    for (name, slot, flow), bits in traffic.items():
        level = core.level(name)
        load = loads[name, level.port_for(slot, flow).name]
        kept[name, slot, flow] = bits * min(1.0, _port_bits(level, slot, flow) / load) if load else 0.0
    return kept


def _watts(level: MemoryLevel, traffic: Traffic) -> float:
    """Joules per cycle of a level's traffic."""
    return math.fsum(
        bits * (level.read_energy_j_per_bit if flow.is_read else level.write_energy_j_per_bit)
        for (name, _, flow), bits in traffic.items()
        if name == level.name
    )


# --- what cores share -------------------------------------------------------------------------------------------------


def _all_ports_w(memory: Memory) -> float:
    """A memory with all its ports busy; one that does both reads half of the time."""
    level = memory.level
    read, write = level.read_energy_j_per_bit, level.write_energy_j_per_bit
    prices = {"read": read, "write": write, "read_write": (read + write) / 2}
    per_cycle = math.fsum(port.bandwidth_bits_per_cycle * prices[port.direction] for port in level.ports)
    return per_cycle * level.instances * memory.clock_hz


def _links_w(accelerator: Accelerator) -> float:
    """Links at their bandwidth in every direction they have; those that end at DRAM carry together what DRAM does."""
    ends, to_dram, others = {dram.name for dram in accelerator.drams}, [], 0.0
    for link in accelerator.links:
        bandwidth = link.bandwidth_bits_per_s * (1 if link.directed or link.shared_directions else 2)
        if link.hub in ends or (not link.is_bus and not ends.isdisjoint(link.endpoints)):
            to_dram.append((bandwidth, bandwidth * link.energy_j_per_bit))
        else:
            others += bandwidth * link.energy_j_per_bit
    total = math.fsum(bandwidth for bandwidth, _ in to_dram)
    share = min(1.0, accelerator.dram.bandwidth_bits_per_s / total) if total else 0.0
    return others + share * math.fsum(watts for _, watts in to_dram)
