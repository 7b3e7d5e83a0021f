"""A matrix operator on whichever array of a core suits it best: its own, or its vector lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from monet.errors import MonetError
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Core
from monet.hardware.lane_array import arrays_for
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import NO_CONSTRAINTS
from monet.mapping.mapper.tiling import Constraints
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.operator import Below, Unfused, below_border, unfused

T = TypeVar("T")


def quickest(
    nest: LoopNest, core: Core, run: Callable[[Core], T], score: Callable[[T], float], is_time: bool = True
) -> T:
    """What ``run`` found with the least score on one of the core's arrays that can multiply the operands; the first
    error if none can run the nest. ``is_time``: scores are cycles, so that an array whose arithmetic alone takes
    longer than what was found need not be tried."""
    first, second = (operand.dtype for operand in nest.reads[:2])
    best: tuple[float, T] | None = None
    problem: MonetError | None = None
    for array in arrays_for(core, first, second):
        least = nest.points / (array.units * array.rate(first, second, either_way=True).products_per_cycle)
        if best is not None and is_time and least >= best[0]:
            continue
        try:
            found = run(array)
        except MonetError as error:
            problem = problem or error
            continue
        if best is None or score(found) < best[0]:
            best = score(found), found
    if best is None:
        assert problem is not None
        raise problem
    return best[1]


def unfused_on(
    nest: LoopNest,
    core: Core,
    border: Border,
    objective: str = "latency",
    constraints: Constraints = NO_CONSTRAINTS,
    *,
    store: CostStore,
) -> Unfused:
    """The best way found to run a nest from and to DRAM, on the array of the core that suits ``objective`` best."""
    return quickest(
        nest,
        core,
        lambda array: unfused(nest, array, border, objective, constraints, store=store),
        lambda found: found.score(objective),
        objective in ("latency", "throughput"),
    )


def below_on(nest: LoopNest, core: Core, border: Border, objective: str, store: CostStore) -> tuple[Below, float]:
    """What ``unfused_on`` finds as far as it does not depend on what passes the border, and cycles of loading cells."""
    arrays = arrays_for(core, *(operand.dtype for operand in nest.reads[:2]))
    if len(arrays) == 1:  # nothing to compare
        return below_border(nest, arrays[0], border, objective, store)
    found = unfused_on(nest, core, border, objective, store=store)
    return found.below, found.serial_cycles
