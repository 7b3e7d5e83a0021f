"""Ticks that plans of whole operators take at least: known before any product is mapped, so that plans that cannot be
worth it are left out early."""

from __future__ import annotations

from collections.abc import Mapping

from monet.mapping.errors import MappingError
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Placement
from monet.schedule.planning.splits import array_cycles
from monet.schedule.workload import Operator

WAITED_FOR = 4096  # bytes of an operand of which surely some are there before its operator starts


def whole_floor(scheduler: Scheduler, placements: Mapping[str, Placement]) -> int:
    """Ticks that a plan takes at least in which every operator runs whole, in one tile on one core: the arithmetic of
    the busiest core, or of the longest chain of operators that wait for each other's results."""
    busy: dict[str, int] = {}
    written: dict[str, int] = {}  # storage → when the last operator that writes it is done
    longest = 0
    for operator in scheduler.workload.operators:
        (core,) = placements[operator.op.name].cores
        ticks = least_ticks(scheduler, operator, core)
        busy[core] = busy.get(core, 0) + ticks
        reads = (
            written.get(tensor.storage, 0)
            for operand, tensor in operator.operands
            if not operand.written and operand.bytes >= WAITED_FOR
        )
        done = max(reads, default=0) + ticks
        written |= dict.fromkeys(operator.written, done)
        longest = max(longest, done)
    return max(longest, *busy.values())


def least_ticks(scheduler: Scheduler, operator: Operator, core: str) -> int:
    """Ticks of a whole operator on a core at least: of a product, its array at the best unrolling; of other work on
    lanes, what it costs, as that does not depend on how much of a memory it may take; none for what is neither."""
    table, machine = scheduler.costs, scheduler.machine
    instance = machine.accelerator.instance(core)
    if operator.is_matrix:
        try:
            cycles = array_cycles(operator, instance.core, (), table.store)
        except MappingError:
            return 0
    else:
        cycles = 0.0 if operator.macs else table.unfused_cycles(operator, instance) or 0.0
    return machine.ticks(cycles, instance)
