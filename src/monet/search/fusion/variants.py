"""The ways to run a group: whole operators one after another, or tiles along a dimension that all can be cut along.

A handful of tile sizes: the fewest tiles whose operands fit in half of every memory involved, and twice and four times
as many; halo cached, or recomputed where windows overlap. Vector operators may also move to one core together, so that
nothing crosses between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from monet.errors import MonetError
from monet.hardware.accelerator import CoreInstance
from monet.schedule.engine import Scheduler
from monet.schedule.geometry import make_steps
from monet.schedule.grouping import TAPS, corresponding, tileable
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.workload import Operator
from monet.search.fusion.evaluation import Variant

ROOM = 0.5  # share of a memory for the operands of a tile; the rest is for the next one
FINER = (1, 2, 4)  # times the fewest tiles that fit
MOST_TILES = 256
MOST_DIMS = 3  # dimensions tried, outermost first


def variants_of(scheduler: Scheduler, base: Plan, operators: Sequence[Operator]) -> tuple[Variant, ...]:
    """All variants of a group, the plain sequence first. Equal groups of other layers have theirs in equal order."""
    names = tuple(one.op.name for one in operators)
    moves = ((), *_moves(scheduler, base, operators))
    cuts: list[tuple[tuple[tuple[str, int], ...], str]] = [((), "cached")]
    dims = [(dim, cut) for dim in tile_dims(operators) if (cut := cut_dims(operators, dim))][:MOST_DIMS]
    last = operators[-1]
    for dim, cut in dims:
        size = last.nest.sizes[dim]
        fewest = _fewest_tiles(scheduler, base, operators, cut, size)
        for finer in FINER:
            tiles = fewest * finer
            if not fewest or tiles > min(size, MOST_TILES):
                break
            halos = ("cached", "recomputed") if has_halo(operators, cut) else ("cached",)
            cuts += [(((dim, -(-size // tiles)),), halo) for halo in halos]
    return tuple(Variant(Group(names, tile, halo), moved) for tile, halo in cuts for moved in moves)


def tile_dims(operators: Sequence[Operator]) -> tuple[str, ...]:
    """Dimensions of a group's last operator that it can run along tile by tile, in the order of its nest."""
    last = operators[-1]
    allowed = tileable(last)
    return tuple(dim for dim, size in last.nest.dims if dim in allowed and size > 1)


def cut_dims(operators: Sequence[Operator], dim: str) -> dict[int, str]:
    """By operator the dimension that is cut when the last one is cut along ``dim``; empty if one cannot be."""
    last = operators[-1]
    found, reached = {last.number: dim}, [last]
    while reached:
        here = reached.pop()
        for there in operators:
            if there.number not in found:
                other = corresponding(here, found[here.number], there)
                if other and other in tileable(there):
                    found[there.number] = other
                    reached.append(there)
    return found if len(found) == len(operators) else {}


def has_halo(operators: Sequence[Operator], cut: dict[int, str]) -> bool:
    """Whether tiles of one operator reach into what neighbouring tiles of another made."""
    made = {t.storage for one in operators for operand, t in one.operands if operand.written}
    for one in operators:
        for operand, tensor in one.operands:
            if operand.written or tensor.storage not in made:
                continue
            for index in operand.indices:
                names = {name for name, factor in index.terms if factor and one.nest.sizes[name] > 1}
                if cut[one.number] in names and names & TAPS:
                    return True
    return False


def _fewest_tiles(
    scheduler: Scheduler, base: Plan, operators: Sequence[Operator], cut: dict[int, str], size: int
) -> int:
    """The fewest tiles (a power of two, at least two) whose operands fit; 0 if none do."""
    tiles = 2
    while tiles <= min(size, MOST_TILES):
        if all(_fits(scheduler, one, base.placements[one.op.name], cut[one.number], tiles) for one in operators):
            return tiles
        tiles *= 2
    return 0


def _fits(scheduler: Scheduler, operator: Operator, placement: Placement, dim: str, tiles: int) -> bool:
    instance = scheduler.machine.accelerator.instance(placement.cores[0])
    needed = 0.0
    for operand, tensor in operator.operands:
        parts = tiles if dim in operand.dims else 1
        if placement.split in operand.dims:
            parts *= len(placement.cores)
        needed += tensor.bytes / parts
    room = min(scheduler.machine.accelerator.memory(name).size_bytes for _, name in instance.memories)
    return needed <= ROOM * room


def _moves(scheduler: Scheduler, base: Plan, operators: Sequence[Operator]) -> list[tuple[tuple[str, str], ...]]:
    """Moves of all vector operators of a group to one core that runs them all, for every such core."""
    vector = [one for one in operators if not one.macs]
    if len(vector) < 2:
        return []
    found = []
    for instance in single_vector_cores(scheduler):
        moved = [one for one in vector if base.placements[one.op.name].cores != (instance.name,)]
        if moved and all(_runs(scheduler, one, instance) for one in moved):
            found.append(tuple((one.op.name, instance.name) for one in moved))
    return found


def single_vector_cores(scheduler: Scheduler) -> list[CoreInstance]:
    """Cores with vector lanes that are the only one of their design; others are split over instead."""
    cores = scheduler.machine.accelerator.cores
    designs = [one.template for one in cores]
    return [one for one in cores if one.core.lanes > 0 and designs.count(one.template) == 1]


def _runs(scheduler: Scheduler, operator: Operator, instance: CoreInstance) -> bool:
    try:
        scheduler.costs.cost(operator, make_steps(operator.nest, {}, "", 1), 0, instance, False, 1.0)
    except MonetError:
        return False
    return True
