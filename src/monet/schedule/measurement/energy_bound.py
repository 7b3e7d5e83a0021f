"""A lower bound on the energy of a step: its work at the cheapest rate there is, compulsory off-chip bytes, static
power over the least time. Memories below DRAM and links count nothing, so no schedule is below it."""

from __future__ import annotations

from collections.abc import Iterable

from monet.hardware.accelerator import Accelerator
from monet.schedule.workload import Operator


def energy_bound_j(
    operators: Iterable[Operator], accelerator: Accelerator, compulsory_bytes: float, least_s: float
) -> float:
    """Joules that every schedule spends at least."""
    dram = accelerator.dram
    moved = 8 * compulsory_bytes * min(dram.read_energy_j_per_bit, dram.write_energy_j_per_bit)
    return compute_bound_j(operators, accelerator) + moved + accelerator.static_power_w * least_s


def compute_bound_j(operators: Iterable[Operator], accelerator: Accelerator) -> float:
    """Multiply-accumulates and vector work, each on the core that does it cheapest."""
    functions = _cheapest_functions(accelerator)
    rates: dict[frozenset[str], float] = {}
    for core in accelerator.designs.values():
        for rate in core.rates:
            types = frozenset(rate.inputs)
            rates[types] = min(rate.energy_j, rates.get(types, rate.energy_j))
    total = 0.0
    for operator in operators:
        if operator.macs:
            total += operator.macs * rates.get(frozenset(operand.dtype for operand in operator.nest.reads[:2]), 0.0)
        total += sum(count * functions.get(name, 0.0) for name, count in operator.lane_work)
    return total


def _cheapest_functions(accelerator: Accelerator) -> dict[str, float]:
    """Joules per element of every vector function, on the cheapest lanes and element type."""
    found: dict[str, float] = {}
    for core in accelerator.designs.values():
        energy = min((rate.energy_j for rate in core.vector_rates), default=0.0)
        for name, cycles in core.functions if core.lanes else ():
            found[name] = min(cycles * energy, found.get(name, cycles * energy))
    return found
