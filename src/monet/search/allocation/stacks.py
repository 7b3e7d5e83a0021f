"""Depth-first stacks: stretches of operators in execution order that run row by row (or token by token), as long as
their parameters fit on chip together. Ways to fuse for a search on several cores to start from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from monet.graph.op import Phase
from monet.graph.tensor import Role
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Group, Plan
from monet.schedule.planning.default_plan import common_dims
from monet.schedule.planning.grouping import main_dim
from monet.schedule.workload import Operator

SHARES = (0.0625, 0.125, 0.25, 0.5)  # of all memory on chip, for the parameters of a stack
TILES = (1, 2, 4)  # rows


def stack_plans(scheduler: Scheduler, base: Plan) -> Iterator[Plan]:
    """Plans that fuse the forward pass into stacks, by how much of the chip parameters may take and rows per tile."""
    seen: set[tuple[Group, ...]] = set()
    for share in SHARES:
        runs = list(_stacks(scheduler, share))
        for rows in TILES:
            groups = tuple(Group(tuple(operator.op.name for operator in run), ((dim, rows),)) for run, dim in runs)
            if groups and groups not in seen:
                seen.add(groups)
                yield replace(base, groups=groups)


def _stacks(scheduler: Scheduler, share: float) -> Iterator[tuple[list[Operator], str]]:
    """(operators, dimension of the last that is cut), each of two operators or more. As long as possible, but ending
    where only one tensor goes on (after a residual block, not in it)."""
    room = share * sum(memory.size_bytes for memory in scheduler.machine.accelerator.memories)
    operators = [operator for operator in scheduler.workload.operators if operator.op.phase is Phase.FORWARD]
    narrow = _narrow(operators)
    start = 0
    while start < len(operators):
        best, dim = start + 1, ""
        for end in range(start + 1, len(operators) + 1):
            run = operators[start:end]
            cut = _cut(run) if _parameters(run) <= room else ""
            if not cut:
                break
            if end in narrow and end > start + 1:
                best, dim = end, cut
        if dim:
            yield operators[start:best], dim
        start = best


def _narrow(operators: list[Operator]) -> set[int]:
    """Positions between operators that results of one storage cross only, and the end."""
    last: dict[str, int] = {}
    for position, operator in enumerate(operators):
        for _, tensor in operator.operands:
            last[tensor.storage] = position
    alive, found = set[str](), set[int]()
    for position, operator in enumerate(operators):
        alive |= {tensor.storage for operand, tensor in operator.operands if operand.written}
        alive = {storage for storage in alive if last[storage] > position}
        if len(alive) <= 1:
            found.add(position + 1)
    return found


def _cut(run: list[Operator]) -> str:
    """The dimension of the rows (or tokens) of the last operator's result, if all can be cut along it."""
    last = run[-1]
    written = last.nest.writes[0].indices if last.nest.writes else ()
    dim = main_dim(written[max(0, len(written) - 2)], last) if written else ""
    return dim if dim and dim in common_dims(run) else ""


def _parameters(run: list[Operator]) -> int:
    tensors = (tensor for operator in run for _, tensor in operator.operands)
    found = {tensor.storage: tensor.bytes for tensor in tensors if tensor.role is Role.PARAMETER}
    return sum(found.values())
