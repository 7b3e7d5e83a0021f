"""Splits along a reduction: every core but the first sums into blocks of its own, and the first adds them up.

With p cores there are p accumulators of the size of the result; p - 1 of them move over links to the first core, whose
lanes add them (or its array, if it has no lanes for the type: each output of the array adds one element in a cycle).
"""

from __future__ import annotations

import math

from monet.formats import format_named
from monet.hardware.accelerator import Core, Flow
from monet.hardware.lane_array import arrays_for
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.workload import Operator


def accumulator_of(operator: Operator, core: Core) -> str:
    """Element type in which a core sums up an operator's results."""
    if not operator.is_matrix:
        return operator.nest.writes[0].dtype
    first, second = (operand.dtype for operand in operator.nest.reads[:2])
    return arrays_for(core, first, second)[0].rate(first, second, either_way=True).accumulator


def sum_cost(operator: Operator, core: Core, elements: int, parts: int) -> StepCost:
    """Adding up ``parts`` accumulators of so many elements on a core. Work that one core alone would not have: it is
    counted as under-use. Operands are the scheduler's, not given here."""
    dtype = accumulator_of(operator, core)
    bits, adds, function = format_named(dtype).bits, (parts - 1) * elements, operator.dimensions.combine
    if core.lanes > 0 and any(rate.dtype == dtype for rate in core.vector_rates) and function in dict(core.functions):
        rate, cycles = core.lane_rate(dtype), core.function_cycles(function)
        compute, joules = adds * cycles / (core.lanes * rate.elements_per_cycle), adds * cycles * rate.energy_j
    else:
        outputs = math.prod(axis.size for axis in core.axes if not axis.reduce)
        compute, joules = adds / max(1, outputs), adds * core.rates[0].energy_j
    top = core.top("O")
    moved = {Flow.FEED: parts * elements * bits, Flow.COLLECT: elements * bits}
    ports = max(
        sum(moved[flow] for flow in moved if ("O", flow) in port.carries) / port.bandwidth_bits_per_cycle
        for port in top.ports
    )
    stall = max(0.0, ports / top.instances - compute)
    energy = moved[Flow.FEED] * top.read_energy_j_per_bit + moved[Flow.COLLECT] * top.write_energy_j_per_bit
    return StepCost(0.0, compute, stall, 0.0, (), (("compute", joules), (top.name, energy)), "compute")
