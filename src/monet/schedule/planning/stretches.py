"""Stretches: matrix operators with the vector work right after them (bias, activation, residual sum) or right before
them (backward: the gradient of an activation or a norm, then the gradients of input and weights that read it).

A stretch stands together in execution order, each operator reads a result of the stretch, and all can be cut along
corresponding dimensions, also those that a matrix operator sums over: its result then stays in place as an accumulator.
Matrix operators keep their cores; the vector operators of a stretch share one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monet.schedule.engine import Scheduler
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.planning.default_plan import (
    LONGEST,
    ROOM,
    TILES,
    best_core,
    own_results,
    passes,
    tensor_bytes,
    working_set,
)
from monet.schedule.planning.grouping import common_cuts
from monet.schedule.workload import Operator, Workload


@dataclass(frozen=True, slots=True)
class Stretch:
    """Operators to fuse, and the ways to cut them: a dimension of the last → that of each, by operator number."""

    operators: tuple[Operator, ...]
    cuts: dict[str, dict[int, str]]


def stretches(workload: Workload, before: bool) -> tuple[Stretch, ...]:
    """Stretches with their vector work ``before`` the matrix operators, or after the one that they begin with."""
    known, what = workload.planned, f"stretches {'before' if before else 'after'}"
    if what not in known:
        known[what] = tuple(_stretches(workload, before))
    return known[what]


def _stretches(workload: Workload, before: bool) -> Iterator[Stretch]:
    taken = 0
    operators = tuple(operator for operator in workload.operators if not operator.is_transfer)
    for position, operator in enumerate(operators):
        if position < taken or operator.is_matrix == before or not _may_join(operator):
            continue
        run = [operator]
        for follower in operators[position + 1 : position + LONGEST]:
            if follower.is_matrix and not before:
                break
            if not follower.is_matrix and before and run[-1].is_matrix:
                break
            if not (_may_join(follower) and own_results(workload, run, follower) and _reads(run, follower)):
                break
            between = workload.operators[operator.number : follower.number] if workload.has_transfers else ()
            if not passes(follower, [each for each in between if each.is_transfer]):
                break
            if not any(common_cuts([*run, follower])):
                break
            run.append(follower)
        if len(run) > 1 and any(operator.is_matrix for operator in run):
            taken = position + len(run)
            yield Stretch(tuple(run), dict(common_cuts(run)))


def _may_join(operator: Operator) -> bool:
    return bool(operator.apart) and operator.op.phase != "update"


def _reads(run: list[Operator], operator: Operator) -> bool:
    made = {tensor.storage for operator in run for operand, tensor in operator.operands if operand.written}
    return any(tensor.storage in made for operand, tensor in operator.operands if not operand.written)


def stretch_group(
    scheduler: Scheduler, stretch: Stretch, plain: Plan, given: dict[str, Placement], most_tiles: int
) -> tuple[Group, dict[str, Placement]] | None:
    """A stretch as a group in the fewest tiles that fit the vector core, and where its vector operators run. Cuts along
    the dimension that a matrix operator is split along are the last resort: they leave its cores little to do."""
    run = stretch.operators
    vector = [operator for operator in run if not operator.is_matrix]
    core = best_core(scheduler, vector, plain, given)
    if core is None:
        return None
    room = ROOM * min(scheduler.machine.accelerator.memory(name).size_bytes for _, name in core.memories)
    last, best, tensors = run[-1], dict[tuple[int, int, int], Group](), tensor_bytes(vector)
    names = tuple(operator.op.name for operator in run)
    for rank, (dim, dims) in enumerate(stretch.cuts.items()):
        clashes = sum(
            operator.is_matrix and dims[operator.number] in plain.placements[operator.op.name].dims for operator in run
        )
        most = min(most_tiles, *(operator.nest.sizes[dims[operator.number]] for operator in run))
        fits = (tiles for tiles in TILES if tiles <= most and working_set(tensors, tiles) <= room)
        tiles = next(fits, 0)
        if tiles:
            best[clashes, tiles, rank] = Group(names, ((dim, -(-last.nest.sizes[dim] // tiles)),))
    if not best:
        return None
    return best[min(best)], {
        operator.op.name: Placement((core.name,)) for operator in vector if operator.op.name not in given
    }
