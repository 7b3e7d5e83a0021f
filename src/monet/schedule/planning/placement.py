"""Which cores run an operator: a good constructive default for whatever the plan leaves open.

Every operator goes to the core design that does it fastest, split over like cores in the best way (``splits``); what is
not cut is multicast.
"""

from __future__ import annotations

import math
from dataclasses import replace

from monet.errors import nearest
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.costs.transfer_cost import endpoint_of
from monet.schedule.machine import Machine
from monet.schedule.plan import MOST_SPLIT, Placement, Plan, PlanError, split_text
from monet.schedule.planning.designs import best_design, cannot_run, some_of
from monet.schedule.planning.finalists import final_split
from monet.schedule.planning.splits import allowed_dims, best_split, scattered_dims
from monet.schedule.workload import Operator, Workload


def complete_placements(
    workload: Workload, machine: Machine, table: CostTable, plan: Plan, most_cores: int | None = None
) -> Plan:
    """The plan with a placement for every operator; given ones are checked and kept. Those that are chosen split an
    operator over at most ``most_cores``."""
    chosen: dict[str, Placement] = {}
    known = workload.by_name
    for name, placement in plan.placements.items():
        if name not in known:
            raise PlanError(f"allocation: the graph has no operator {name!r}; {nearest(name, known)}")
        operator = known[name]
        if (operator.key, placement) not in table.legal:
            check_placement(operator, placement, machine)
            table.legal.add((operator.key, placement))
        chosen[name] = placement
    for operator in workload.operators:
        if operator.op.name not in chosen:
            chosen[operator.op.name] = default_placement(operator, table, plan.share, most_cores)
    return replace(plan, placements=chosen)


def check_placement(operator: Operator, placement: Placement, machine: Machine) -> None:
    """Raise if a given placement names unknown cores, cores that cannot run the operator, or dimensions that cannot be
    split so."""
    place, cores = f"allocation.{operator.op.name}", placement.cores
    if unknown := next((core for core in cores if core not in machine.core_index), None):
        raise PlanError(f"{place}: no core {unknown!r}; {nearest(unknown, machine.core_index)}")
    crew = machine.crew(cores)
    for core in crew.designs:
        reason = cannot_run(operator, machine.accelerator.instance(core))
        if reason:
            able = [core.name for core in machine.cores if not cannot_run(operator, core)]
            raise PlanError(
                f"{place}: {core} cannot run {operator.op.kind}: {reason}; {', '.join(able) or 'no core'} can"
            )
    if len(cores) == 1:
        for dim, _ in placement.split:
            if dim not in operator.nest.sizes:
                hint = nearest(dim, operator.nest.sizes)
                raise PlanError(f"{place}: split {dim!r}: it has no such dimension; {hint}")
        return
    if operator.is_transfer:
        raise PlanError(f"{place}: a transfer occupies one port, not {len(cores)}: {', '.join(cores)}")
    if len(set(crew.numbers.tolist())) < len(cores):
        raise PlanError(f"{place}: a core is named twice: {', '.join(cores)}")
    if len(crew.designs) > 1:
        raise PlanError(f"{place}: {', '.join(cores)} are of different designs; pieces are equal, so cores must be too")
    _check_split(operator, placement, place)


def _check_split(operator: Operator, placement: Placement, place: str) -> None:
    """Raise if the dimensions of a split over several cores are none, too many, too short, or cannot be cut."""
    split, cores = placement.split, placement.cores
    allowed = sorted(allowed_dims(operator))
    for dim in [dim for dim, _ in split] or [""]:
        if dim in scattered_dims(operator):
            others = ", ".join(allowed) or "nothing; name one core"
            raise PlanError(
                f"{place}: split {dim!r}: pieces would add to each other's results, as a value goes to all "
                f"that its filter covers; allowed: {others}"
            )
        if dim not in allowed:
            hint = nearest(dim, allowed) if allowed else "nothing of it can be split; name one core"
            raise PlanError(f"{place}: split {dim!r}: {hint}")
    pieces = math.prod(parts for _, parts in split)
    if pieces != len(cores) or len(dict(split)) < len(split) or len(split) > MOST_SPLIT:
        raise PlanError(
            f"{place}: split {split_text(split, short=False)}: at most {MOST_SPLIT} dimensions, each once, in as many "
            f"pieces as there are cores ({len(cores)})"
        )
    for dim, parts in split:
        if operator.nest.granules(dim) < parts:
            grain = operator.nest.grain.get(dim, 1)
            groups = f" in {operator.nest.granules(dim)} groups of {grain} that share a scale" if grain > 1 else ""
            raise PlanError(f"{place}: {dim} has {operator.nest.sizes[dim]} values{groups} for {parts} cores")


def default_placement(operator: Operator, table: CostTable, share: float, most_cores: int | None = None) -> Placement:
    """The constructive default for one operator, looked up if it was asked for before: the design that is done first,
    split in the best way; of a transfer its port."""
    key = operator.key, share, most_cores
    found = table.defaults.get(key)
    if found is None:
        found = table.defaults[key] = _default_placement(operator, table, share, most_cores)
    return found


def _default_placement(operator: Operator, table: CostTable, share: float, most_cores: int | None) -> Placement:
    if operator.is_transfer:
        return Placement((endpoint_of(operator, table.machine.accelerator).name,))
    cores = best_design(operator, table, share, most_cores)
    split = best_split(operator, cores, table)
    split = final_split(operator, cores, split, table, share)
    return Placement(tuple(core.name for core in some_of(cores, math.prod(parts for _, parts in split))), split)
