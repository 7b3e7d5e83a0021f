"""Which cores run an operator: a good constructive default for whatever the plan leaves open.

Every operator goes to the core design that does it fastest. Heavy operators are split over all cores of that design:
along samples where there are enough, else along rows or channels, whichever leaves the longest piece shortest; the
operands that are not split are multicast. Light ones run on one core, that of their first operand if it can.
"""

from __future__ import annotations

from dataclasses import replace

from monet.errors import nearest
from monet.hardware.accelerator import CoreInstance
from monet.hardware.lane_array import peak_products_per_cycle
from monet.mapping.cost_store import CostStore, Section
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.machine import Machine
from monet.schedule.plan import Placement, Plan, PlanError
from monet.schedule.planning.designs import array_cycles, best_design, cannot_run
from monet.schedule.planning.grouping import main_dim
from monet.schedule.workload import Operator, Workload

LIGHT_CYCLES = 4096  # an operator that takes less on one core is not worth splitting
SPLITS = Section[tuple[str, int] | None]("splits over cores", 10_000)


def complete_placements(workload: Workload, machine: Machine, table: CostTable, plan: Plan) -> Plan:
    """The plan with a placement for every operator; given ones are checked and kept."""
    chosen: dict[str, Placement] = {}
    known = {operator.op.name: operator for operator in workload.operators}
    for name, placement in plan.placements.items():
        if name not in known:
            raise PlanError(f"allocation: the graph has no operator {name!r}; {nearest(name, known)}")
        operator = known[name]
        if (operator.key, placement) not in table.legal:
            check_placement(operator, placement, machine)
            table.legal.add((operator.key, placement))
        chosen[name] = placement
    share = plan.buffer_share if plan.boundary != "dram" else 1.0
    by_key: dict[str, Placement] = {}
    for operator in workload.operators:
        if operator.op.name in chosen:
            continue
        if operator.key not in by_key:
            by_key[operator.key] = default_placement(operator, table, share)
        chosen[operator.op.name] = by_key[operator.key]
    return replace(plan, placements=chosen)


def check_placement(operator: Operator, placement: Placement, machine: Machine) -> None:
    """Raise if a given placement names unknown cores, cores that cannot run the operator, or a dimension that cannot
    be split."""
    place, cores = f"allocation.{operator.op.name}", placement.cores
    for core in cores:
        if core not in machine.core_index:
            raise PlanError(f"{place}: no core {core!r}; {nearest(core, machine.core_index)}")
    for core in cores:
        reason = cannot_run(operator, machine.accelerator.instance(core))
        if reason:
            able = [core.name for core in machine.accelerator.cores if not cannot_run(operator, core)]
            raise PlanError(
                f"{place}: {core} cannot run {operator.op.kind}: {reason}; {', '.join(able) or 'no core'} can"
            )
    if len(cores) == 1:
        if placement.split and placement.split not in operator.nest.sizes:
            hint = nearest(placement.split, operator.nest.sizes)
            raise PlanError(f"{place}: split {placement.split!r}: it has no such dimension; {hint}")
        return
    if len(set(cores)) < len(cores):
        raise PlanError(f"{place}: a core is named twice: {', '.join(cores)}")
    if len({machine.accelerator.instance(core).template for core in cores}) > 1:
        raise PlanError(f"{place}: {', '.join(cores)} are of different designs; pieces are equal, so cores must be too")
    allowed = sorted(disjoint_dims(operator) | operator.summed)
    if placement.split in scattered_dims(operator):
        others = ", ".join(allowed) or "nothing; name one core"
        raise PlanError(
            f"{place}: split {placement.split!r}: pieces would add to each other's results, as a value goes to all "
            f"that its filter covers; allowed: {others}"
        )
    if placement.split not in allowed:
        hint = nearest(placement.split, allowed) if allowed else "nothing of it can be split; name one core"
        raise PlanError(f"{place}: split {placement.split!r}: {hint}")
    if operator.nest.sizes[placement.split] < len(cores):
        size = operator.nest.sizes[placement.split]
        raise PlanError(f"{place}: {placement.split} has {size} values for {len(cores)} cores")


def default_placement(operator: Operator, table: CostTable, share: float) -> Placement:
    """The constructive default for one operator."""
    instances = best_design(operator, table, share)
    split = _known_split(operator, instances, table.store) if len(instances) > 1 else None
    if split is None:
        return Placement((instances[0].name,))
    dim, pieces = split
    return Placement(tuple(instance.name for instance in instances[:pieces]), dim)


def _known_split(operator: Operator, instances: list[CoreInstance], store: CostStore) -> tuple[str, int] | None:
    """``_best_split``, looked up: what is outside of the cores has no part in it."""
    key = operator.key, instances[0].core, len(instances)
    return store[SPLITS].get_or(key, lambda: _best_split(operator, instances, store))


def _best_split(operator: Operator, instances: list[CoreInstance], store: CostStore) -> tuple[str, int] | None:
    """(dimension, pieces) that leaves the longest piece shortest, or None if the operator is light."""
    core, nest = instances[0].core, operator.nest
    if operator.is_matrix:
        cycles = nest.points / peak_products_per_cycle(core, *(operand.dtype for operand in nest.reads[:2]))
    elif operator.is_attention:
        cycles = operator.macs / max(1.0, core.units * core.rates[0].products_per_cycle)
    else:
        cycles = sum(count for _, count in operator.work) / max(1, core.lanes)
    if cycles < LIGHT_CYCLES:
        return None
    best: tuple[float, int, str, int] | None = None
    allowed = disjoint_dims(operator)
    for rank, (dim, size) in enumerate(nest.dims):
        if dim not in allowed:
            continue
        pieces = min(len(instances), size)
        longest = -(-size // pieces)
        if pieces < 2:
            continue
        score = array_cycles(operator, core, dim, longest, store) if operator.is_matrix else longest / size
        if best is None or (score, rank) < best[:2]:
            best = score, rank, dim, -(-size // longest)
    return (best[2], best[3]) if best else None


def scattered_dims(operator: Operator) -> frozenset[str]:
    """Dimensions that together with a filter tap say where a result goes, as in the input gradient of a convolution:
    their pieces write overlapping parts."""
    found: set[str] = set()
    for operand in operator.nest.writes:
        for index in operand.indices:
            names = [name for name, factor in index.terms if factor and operator.nest.sizes[name] > 1]
            if len(names) > 1 and main_dim(index, operator):
                found.update(names)
    return frozenset(found)


def disjoint_dims(operator: Operator) -> frozenset[str]:
    """Dimensions whose pieces write disjoint parts of every result."""
    return operator.splittable - scattered_dims(operator)
