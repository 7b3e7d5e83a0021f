"""Fusion decided again where a checkpoint plan has changed the graph: recomputed operators join their reader.

A stretch of clones stands just before the backward operator that first needs it. As many of them as may, counted from
that operator, are put into its group (or make one with it), so that what they recompute passes on tile by tile and
never leaves the chip. Groups elsewhere stay as the base plan has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from monet.schedule.engine import Scheduler
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.planning.default_plan import (
    LONGEST,
    ROOM,
    common_dims,
    may_fuse,
    own_results,
    run_group,
    tensor_bytes,
    working_set,
)
from monet.schedule.workload import Operator

Identity = tuple[str, ...]  # of the operators involved


@dataclass(frozen=True, slots=True)
class Joined:
    """A group that recomputed operators joined, and the cores of those."""

    group: Group
    placements: tuple[tuple[str, Placement], ...]


class LocalFusion:
    """Groups with clones in them, each worked out once whatever the plan is around it."""

    def __init__(self) -> None:
        self._known: dict[Identity, Joined | None] = {}

    def apply(self, scheduler: Scheduler, plan: Plan) -> Plan:
        """``plan`` with every stretch of clones joined to its reader where that is legal. ``plan`` is complete."""
        if not any(operator.op.recompute for operator in scheduler.workload.operators):
            return plan
        group_of = {name: number for number, group in enumerate(plan.groups) for name in group.operators}
        groups: dict[int, Group] = dict(enumerate(plan.groups))
        placements = dict(plan.placements)
        numbers = {operator.op.name: operator for operator in scheduler.workload.operators}
        for clones, reader in stretches(scheduler.workload.operators):
            number = group_of.get(reader.op.name, -1)
            target = [numbers[name] for name in groups[number].operators] if number >= 0 else [reader]
            known = groups.get(number)
            joined = self._joined(scheduler, clones, target, known, replace(plan, placements=placements))
            if joined is None:
                continue
            if number < 0:
                number = len(groups)
            groups[number] = joined.group
            group_of |= dict.fromkeys(joined.group.operators, number)
            placements |= dict(joined.placements)
        return replace(plan, groups=tuple(groups.values()), placements=placements)

    def _joined(
        self, scheduler: Scheduler, clones: list[Operator], target: list[Operator], group: Group | None, plan: Plan
    ) -> Joined | None:
        key = (*(clone.identity for clone in clones), "", *(operator.identity for operator in target))
        if key not in self._known:
            self._known[key] = _join(scheduler, clones, target, group, plan)
        return self._known[key]


def stretches(operators: tuple[Operator, ...]) -> Iterator[tuple[list[Operator], Operator]]:
    """(clones next to each other, the operator after them)."""
    clones: list[Operator] = []
    for operator in operators:
        if operator.op.recompute:
            clones.append(operator)
        elif clones:
            if not operator.is_transfer:
                yield clones, operator
            clones = []


def _join(
    scheduler: Scheduler, clones: list[Operator], target: list[Operator], group: Group | None, plan: Plan
) -> Joined | None:
    """The most clones, counted from the reader, that may be in its group."""
    if not all(may_fuse(operator) for operator in target):
        return None
    for many in range(min(len(clones), LONGEST - len(target)), 0, -1):
        members = sorted((*clones[-many:], *target), key=lambda operator: operator.number)
        if not _legal(scheduler, clones[-many:], members):
            continue
        grown = _grown(scheduler, members, group, plan) if group else None
        found = grown or run_group(scheduler, members, plan, {})
        if found:
            made, core = found
            return Joined(made, tuple((name, Placement((core,))) for name in made.operators))
    return None


def _legal(scheduler: Scheduler, clones: list[Operator], members: list[Operator]) -> bool:
    return (
        all(may_fuse(clone) for clone in clones)
        and all(own_results(scheduler.workload, clones[:i], clone) for i, clone in enumerate(clones))
        and bool(common_dims(members))
    )


def _grown(scheduler: Scheduler, members: list[Operator], group: Group, plan: Plan) -> tuple[Group, str] | None:
    """An existing group with clones in it, cut as before if that fits; None if its operators run on several cores."""
    cores = {plan.placements[name].cores for name in group.operators}
    if len(cores) != 1 or len(first := next(iter(cores))) != 1 or len(group.tile) != 1:
        return None
    (dim, size), last = group.tile[0], members[-1]
    if dim not in common_dims(members):
        return None
    instance = scheduler.machine.accelerator.instance(first[0])
    if any(scheduler.costs.unfused_cycles(member, instance) is None for member in members):
        return None
    room = min(scheduler.machine.accelerator.memory(name).size_bytes for _, name in instance.memories)
    tiles = -(-last.nest.sizes[dim] // size)
    tensors = tensor_bytes(members)
    while working_set(tensors, tiles) > ROOM * room:
        if size == 1:
            return None
        size = -(-size // 2)
        tiles = -(-last.nest.sizes[dim] // size)
    return Group(tuple(member.op.name for member in members), ((dim, size),), group.halo), first[0]
