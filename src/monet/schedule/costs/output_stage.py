"""quantize in the output stage of an array: a core that declares a quantiser rounds results as they leave its array.

In a fusion group, on the core that makes what it rounds, in the same tiles: values come straight from the array, so
nothing is read, and blocks pass the quantiser while the array is at the next ones. What is left of its time is the last
block, and what the quantiser or the port of its results takes longer than the array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Core, Flow
from monet.mapping.nest.cost import Access
from monet.schedule.costs.step_cost import StepCost, shared_ports
from monet.schedule.machine import Machine
from monet.schedule.plan import Plan
from monet.schedule.planning.grouping import TiledGroup, corresponding

if TYPE_CHECKING:
    from monet.schedule.workload import Operator


def feeder(operator: Operator, group: TiledGroup, plan: Plan, machine: Machine) -> Operator | None:
    """The product whose results a quantize of the same group takes from the array; None if it reads a memory."""
    if operator.op.kind != "quantize" or not group.key:
        return None
    placement = plan.placements[operator.op.name]
    if not machine.accelerator.instance(placement.cores[0]).core.only_quantises:
        return None
    source = operator.operands[0][1].storage
    makers = [other for other in group.operators if other.is_matrix and source in other.written]
    if len(makers) != 1 or makers[0].number > operator.number:
        return None
    maker, made = makers[0], plan.placements[makers[0].op.name]
    alike = tuple((corresponding(maker, dim, operator), parts) for dim, parts in made.split)
    tiles = len(group.tiles[maker.number]), len(group.tiles[operator.number])
    return maker if made.cores == placement.cores and alike == placement.split and tiles[0] == tiles[1] else None


def behind_the_array(cost: StepCost, nest: LoopNest, work: Mapping[str, int], core: Core, array: float) -> StepCost:
    """A held quantize, as it costs alone, in the output stage of an array that is busy for ``array`` cycles."""
    level, block = core.top("O"), core.function_cycles("quantize")
    bits = math.fsum(math.prod(operand.shape) * operand.bits_per_element for operand in nest.writes)
    elements = sum(math.prod(operand.shape) for operand in nest.writes)
    lane_cycles = work["quantize"] * block
    leaving = bits / level.port_for("O", Flow.COLLECT).bandwidth_bits_per_cycle
    rest = block + max(0.0, max(lane_cycles / core.lanes, leaving) - array)
    spent = lane_cycles * core.lane_rate(*(operand.dtype for operand in nest.operands)).energy_j
    joules = {"compute": spent, level.name: bits * level.write_energy_j_per_bit}
    return replace(
        cost,
        useful=min(rest, block),
        under_use=0.0,
        stall=max(0.0, rest - block),
        switch=0.0,
        energy_j=tuple(sorted(joules.items())),
        bound_by="compute",
        ports=shared_ports(core, (Access(level.name, "O", Flow.COLLECT, elements, bits, bits),)),
    )
