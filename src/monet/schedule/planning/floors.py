"""Ticks that plans of whole operators take at least: known before any product is mapped, so that plans that cannot be
worth it are left out early."""

from __future__ import annotations

from collections.abc import Mapping

from monet.mapping.errors import MappingError
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Placement
from monet.schedule.planning.splits import array_cycles
from monet.schedule.workload import Operator


def whole_floor(scheduler: Scheduler, placements: Mapping[str, Placement]) -> int:
    """Ticks that a plan takes at least in which every operator runs whole, in one tile on one core: the arithmetic of
    the busiest core, or of the longest chain of operators that wait for each other's results."""
    least: dict[tuple[str, str], int] = {}  # by operator and core: many of both are alike
    alike = scheduler.costs.alike
    busy: dict[str, int] = {}
    written: dict[str, int] = {}  # storage → when the last operator that writes it is done
    longest = 0
    for operator in scheduler.workload.operators:
        (core,) = placements[operator.op.name].cores
        same = alike[core].name if core in alike else core
        ticks = least.get((operator.key, same))
        if ticks is None:
            ticks = least[operator.key, same] = least_ticks(scheduler, operator, same)
        busy[core] = busy.get(core, 0) + ticks
        reads = operator.large_reads
        done = ticks + max([written.get(storage, 0) for storage in reads]) if reads else ticks
        for storage in operator.written:
            written[storage] = done
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
