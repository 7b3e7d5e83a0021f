"""Seconds and joules that the work of a graph takes at least: on all cores that can do it, each at its peak; and what
passes the ports of the memories that cores compute from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from monet.hardware.accelerator import Accelerator
from monet.hardware.core import Core, Flow
from monet.hardware.errors import HardwareError
from monet.hardware.lane_array import arrays_of, peak_products_per_cycle
from monet.mapping.nest.phases import fewest_products
from monet.schedule.lower_bound.traffic import distinct_bytes
from monet.schedule.workload import Workload

Formats = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What is done, whoever does it: multiply-accumulates by the formats of their inputs, vector functions by the
    formats of all operands. ``attention`` is what fused attention leaves to lanes, which may be another core's."""

    macs: dict[frozenset[str], int]
    functions: dict[tuple[Formats, str], int]
    attention: dict[tuple[Formats, str], int]
    bits_read: dict[bool, float]  # by whether arrays can do it: what has to pass ports at least once
    bits_written: dict[bool, float]


def work_of(workload: Workload) -> Work:
    """The work of a graph, added up once."""
    found = workload.planned.get("work")
    if found is None:
        found = workload.planned["work"] = (_added_up(workload),)
    work = found[0]
    assert isinstance(work, Work)
    return work


def _added_up(workload: Workload) -> Work:
    macs: Counter[frozenset[str]] = Counter()
    functions: Counter[tuple[Formats, str]] = Counter()
    attention: Counter[tuple[Formats, str]] = Counter()
    moved = {True: {True: 0.0, False: 0.0}, False: {True: 0.0, False: 0.0}}
    computing = [operator for operator in workload.operators if not operator.is_transfer]
    times = Counter(operator.key for operator in computing)
    for operator in {operator.key: operator for operator in computing}.values():
        many = times[operator.key]
        for pair, products in operator.products:
            macs[frozenset(pair)] += many * (fewest_products(operator.nest) if operator.is_matrix else products)
        formats = tuple(dict.fromkeys(operand.dtype for operand in operator.nest.operands))
        for name, count in operator.lane_work:
            (attention if operator.is_attention else functions)[formats, name] += many * count
        if not operator.is_attention:
            for operand in operator.nest.operands:
                moved[operand.written][operator.is_matrix] += many * 8 * distinct_bytes(operand, operator.nest)
    return Work(dict(macs), dict(functions), dict(attention), moved[False], moved[True])


# --- what a core can do -----------------------------------------------------------------------------------------------


def mac_rate(core: Core, types: frozenset[str]) -> float:
    """Multiply-accumulates per second at most: on the array, or on lanes that multiply and add."""
    return peak_products_per_cycle(core, min(types), max(types)) * core.clock_hz


def function_rate(core: Core, formats: Formats, name: str) -> float:
    """Elements per second of a vector function, all lanes busy; 0 if the lanes cannot."""
    cycles = dict(core.functions).get(name) if core.lanes else None
    if cycles is None:
        return 0.0
    try:
        rate = core.lane_rate(*formats)
    except HardwareError:
        return 0.0
    return core.lanes * rate.elements_per_cycle * core.clock_hz / cycles if cycles else float("inf")


Kind = tuple[int, dict[Core, float]]  # how much of one kind of work, and how much of it every core does in a second


def compute_bound_s(work: Work, accelerator: Accelerator) -> float:
    """Work over all cores that can do it, kinds that compete for the same cores added up.

    A core does one thing at a time, so for any prices y of a second of each core that add up to one, the time is at
    least Σ over kinds of (amount · lowest y / rate of a core that can): linear programming duality. Prices tried: in
    proportion to what the cores can do of each kind, and the same for all cores that can do some kind.
    """
    cores = Counter(instance.core for instance in accelerator.cores)
    macs = [(count, {core: mac_rate(core, types) for core in cores}) for types, count in work.macs.items()]
    on_cores = macs + _on_lanes(work.functions, cores)
    return max(_priced(on_cores, cores), _priced(_on_lanes(work.attention, cores), cores))


def _on_lanes(functions: dict[tuple[Formats, str], int], cores: Counter[Core]) -> list[Kind]:
    return [
        (count, {core: function_rate(core, formats, name) for core in cores})
        for (formats, name), count in functions.items()
    ]


def _priced(kinds: list[Kind], cores: Counter[Core]) -> float:
    """The most that any of some prices shows."""
    kinds = [(count, rates) for count, rates in kinds if any(rates.values()) and math.inf not in rates.values()]
    able = {frozenset(core for core, rate in rates.items() if rate) for _, rates in kinds}
    prices = [rates for _, rates in kinds]
    prices += [dict.fromkeys(chosen, 1.0) for chosen in able | {one | other for one in able for other in able}]
    best = 0.0
    for price in prices:
        total = sum(price.get(core, 0.0) * many for core, many in cores.items())
        time = sum(
            count * min(price.get(core, 0.0) / rate for core, rate in rates.items() if rate) for count, rates in kinds
        )
        best = max(best, time / total)
    return best


def compute_bound_j(work: Work, accelerator: Accelerator) -> float:
    """Multiply-accumulates and vector functions, each on the core that does it cheapest."""
    designs, total = list(accelerator.designs.values()), 0.0
    for types, count in work.macs.items():
        arrays = (array for core in designs for array in arrays_of(core))
        pairs = {(min(types), max(types)), (max(types), min(types))}
        joules = (rate.energy_j for array in arrays for rate in array.rates if any(rate.takes(*pair) for pair in pairs))
        total += count * min(joules, default=0.0)
    for (_, name), count in (*work.functions.items(), *work.attention.items()):
        total += count * min(_function_j(designs, name), default=0.0)
    return total


def _function_j(designs: Iterable[Core], name: str) -> list[float]:
    """Joules per element of a vector function on all lanes, in their cheapest format."""
    found = []
    for core in designs:
        energy = min((rate.energy_j for rate in core.vector_rates), default=0.0)
        found += [cycles * energy for function, cycles in core.functions if function == name and core.lanes]
    return found


# --- ports ------------------------------------------------------------------------------------------------------------


def ports_bound_s(work: Work, accelerator: Accelerator) -> float:
    """Every operand passes a port of the memory that its core computes from at least once: vector operators on cores
    with lanes, all of them on all cores."""
    best = 0.0
    for lanes_only, counted in ((True, (False,)), (False, (False, True))):
        ports = [top_ports(each.core) for each in accelerator.cores if each.core.lanes or not lanes_only]
        read, written = (sum(bits[kind] for kind in counted) for bits in (work.bits_read, work.bits_written))
        feeds, collects, both = (sum(rates) for rates in zip(*ports, strict=True)) if ports else (0.0, 0.0, 0.0)
        for bits, rate in ((read, feeds), (written, collects), (read + written, both)):
            best = max(best, bits / rate if rate else 0.0)
    return best


@cache
def top_ports(core: Core) -> tuple[float, float, float]:
    """Bits per second that can be read for computing, written as results, and both together."""
    feeds, collects = dict[tuple[str, str], float](), dict[tuple[str, str], float]()
    for slot, flow, rates in (("I", Flow.FEED, feeds), ("W", Flow.FEED, feeds), ("O", Flow.COLLECT, collects)):
        if core.levels_of(slot):
            level = core.top(slot)
            port = level.port_for(slot, flow)
            rates[level.name, port.name] = port.bandwidth_bits_per_cycle * level.instances * core.clock_hz
    return sum(feeds.values()), sum(collects.values()), sum((feeds | collects).values())
