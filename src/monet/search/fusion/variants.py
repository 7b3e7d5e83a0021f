"""The ways to run a group: whole operators one after another, or tiles along a dimension that all can be cut along.

A handful of tile sizes: the fewest tiles whose operands fit every memory involved, a quarter and four times as many
(what does not fit is read again with every tile); halo cached, or recomputed where windows overlap. Vector operators
may also move to one core together, so that nothing crosses between them; a matrix operator whose tiles are too small to
be split over its cores as before is split along another dimension.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from monet.errors import MonetError
from monet.hardware.accelerator import CoreInstance
from monet.schedule.engine import Scheduler
from monet.schedule.expansion.geometry import make_steps
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.planning.grouping import common_cuts
from monet.schedule.workload import Operator
from monet.search.fusion.evaluation import Variant

FINER = (1.0, 0.25, 4.0)  # times the fewest tiles that fit
MOST_TILES = 32
MOST_DIMS = 3  # dimensions tried, outermost first
Moved = tuple[tuple[str, Placement], ...]


def variants_of(scheduler: Scheduler, base: Plan, operators: Sequence[Operator]) -> tuple[Variant, ...]:
    """All variants of a group, the plain sequence first, then those with the fewest tiles along each dimension. Equal
    groups of other layers have theirs in equal order."""
    names = tuple(operator.op.name for operator in operators)
    moves: tuple[Moved, ...] = ((), *_moves(scheduler, base, operators))
    found = [(0, 0, Variant(Group(names), moved)) for moved in moves]
    last = operators[-1]
    for dim, cut in itertools.islice(common_cuts(operators), MOST_DIMS):
        size = last.nest.sizes[dim]
        fewest = _fewest_tiles(scheduler, base, operators, cut, size)
        halos = ("cached", "recomputed") if has_halo(operators, cut) else ("cached",)
        counts = dict.fromkeys(int(max(2, min(fewest * finer, size, MOST_TILES))) for finer in FINER)
        for rank, tiles in enumerate(counts):
            split = _splits(base, operators, cut, tiles)
            for halo in halos:
                group = Group(names, ((dim, -(-size // tiles)),), halo)
                later = 1 + 2 * rank + (halo != "cached")
                found += [(later, number, Variant(group, (*split, *moved))) for number, moved in enumerate(moves)]
    found.sort(key=lambda entry: entry[:2])
    return tuple(variant for *_, variant in found)


def has_halo(operators: Sequence[Operator], cut: Mapping[int, str]) -> bool:
    """Whether tiles of one operator reach into what neighbouring tiles of another made."""
    made = {t.storage for operator in operators for operand, t in operator.operands if operand.written}
    for operator in operators:
        for operand, tensor in operator.operands:
            if operand.written or tensor.storage not in made:
                continue
            for index in operand.indices:
                names = {name for name, factor in index.terms if factor and operator.nest.sizes[name] > 1}
                if cut[operator.number] in names and names & operator.dimensions.taps:
                    return True
    return False


def _fewest_tiles(
    scheduler: Scheduler, base: Plan, operators: Sequence[Operator], cut: Mapping[int, str], size: int
) -> int:
    """The fewest tiles (a power of two, at least two) whose operands fit; as many as there can be if none do: what does
    not fit is then read again with every tile."""
    tiles = 2
    while tiles < min(size, MOST_TILES):
        if all(
            _fits(scheduler, operator, base.placements[operator.op.name], cut[operator.number], tiles)
            for operator in operators
        ):
            break
        tiles *= 2
    return min(tiles, size, MOST_TILES)


def _fits(scheduler: Scheduler, operator: Operator, placement: Placement, dim: str, tiles: int) -> bool:
    """Whether what an operator holds in all tiles fits, together with two tiles of the rest."""
    instance = scheduler.machine.accelerator.instance(placement.cores[0])
    needed = 0.0
    for operand, tensor in operator.operands:
        cut = dim in operand.dims
        size = tensor.bytes * 2 / tiles if cut else tensor.bytes
        needed += size / math.prod(parts for name, parts in placement.split if name in operand.dims and name != dim)
    return needed <= min(scheduler.machine.accelerator.memory(name).size_bytes for _, name in instance.memories)


def _splits(base: Plan, operators: Sequence[Operator], cut: Mapping[int, str], tiles: int) -> Moved:
    """Other splits for operators that are split along the dimension that is cut, where a tile has less than a part for
    every core: the longest dimension that has enough, the first of equal ones."""
    found = []
    for operator in operators:
        placement = base.placements[operator.op.name]
        many, dim = len(placement.cores), cut[operator.number]
        if many < 2 or operator.nest.sizes[dim] // tiles >= placement.parts(dim):
            continue
        others = [(-size, name) for name, size in operator.nest.dims if name in operator.splittable and name != dim]
        if others and -min(others)[0] >= many:
            found.append((operator.op.name, Placement(placement.cores, min(others, key=lambda pair: pair[0])[1])))
    return tuple(found)


def _moves(scheduler: Scheduler, base: Plan, operators: Sequence[Operator]) -> list[Moved]:
    """Moves of all vector operators of a group to one core that runs them all, for every such core."""
    vector = [operator for operator in operators if not operator.macs]
    if len(vector) < 2:
        return []
    found = []
    for instance in single_vector_cores(scheduler):
        moved = [operator for operator in vector if base.placements[operator.op.name].cores != (instance.name,)]
        if moved and all(_runs(scheduler, operator, instance) for operator in moved):
            found.append(tuple((operator.op.name, Placement((instance.name,))) for operator in moved))
    return found


def single_vector_cores(scheduler: Scheduler) -> list[CoreInstance]:
    """Cores with vector lanes that are the only one of their design; others are split over instead."""
    cores = scheduler.machine.accelerator.cores
    like = scheduler.machine.accelerator.like_cores
    single = {instances[0].name for instances in like if len(instances) == 1}
    return [instance for instance in cores if instance.core.lanes > 0 and instance.name in single]


def _runs(scheduler: Scheduler, operator: Operator, instance: CoreInstance) -> bool:
    try:
        scheduler.costs.cost(operator, make_steps(operator.nest, {}), 0, instance, False, 1.0)
    except MonetError:
        return False
    return True
