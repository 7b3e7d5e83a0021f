"""Joint search: fusion, tiles and allocation in turn, until none of them improves the plan any more.

Each step starts from the best plan so far and keeps what the others decided: fusion keeps placements, tiles keep both,
allocation keeps groups and tiles. Every plan is costed by the full schedule, so the best never gets worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import Figures
from monet.schedule.plan import HALOS, TILES, Group, Plan
from monet.schedule.planning.default_plan import LEFT_EMPTY, default_plan
from monet.search.allocation.bases import allocate_fused
from monet.search.allocation.evaluator import plan_figures
from monet.search.allocation.search import allocate, check_options
from monet.search.progress import Watch

ENOUGH = 1e-4  # a round that gains less than this share ends the search
BUFFER_SHARES = (0.25, 0.5, 0.75, 1.0)
MEMORY_SHARES = (1.0, *LEFT_EMPTY)

Fuse = Callable[[Plan, int], tuple[Plan, bool]]  # (plan, seed) → plan with other groups, whether interrupted


def fusion_step(scheduler: Scheduler, objective: str, limit: int, effort: int, watch: Watch | None = None) -> Fuse:
    """The fusion search of ``monet fuse`` as a step: groups of at most ``limit`` operators, from a plan's own on."""
    from monet.search.fusion.search import FusionSettings, find_fusion

    def run(plan: Plan, seed: int) -> tuple[Plan, bool]:
        found = find_fusion(scheduler, FusionSettings(objective, limit, effort, seed), base=plan, watch=watch)
        return found.plans["found"][0], found.interrupted

    return run


@dataclass(frozen=True, slots=True)
class JointStep:
    """What one step of a round reached: the best plan after it, and the share of the objective it gained."""

    round: int
    name: str
    figures: Figures
    gain: float


@dataclass(frozen=True)
class Joint:
    """Outcome: the best plan, what it costs, and how every step contributed. ``start`` is the default plan."""

    start: Figures
    plan: Plan
    figures: Figures
    steps: tuple[JointStep, ...]
    interrupted: bool


@dataclass
class _Best:
    """The best plan so far; steps offer others."""

    scheduler: Scheduler
    objective: str
    plan: Plan
    figures: Figures

    def offer(self, plan: Plan, figures: Figures | None = None) -> bool:
        """Take a plan if it is better."""
        if figures is None:
            found = plan_figures(self.scheduler, plan)
            if not isinstance(found, Figures):
                return False
            figures = found
        if figures.objective(self.objective) >= self.figures.objective(self.objective):
            return False
        self.plan, self.figures = plan, figures
        return True


def joint_search(
    scheduler: Scheduler,
    fuse: Fuse,
    *,
    base: Plan | None = None,
    objective: str = "latency",
    effort: int = 5,
    seed: int = 0,
    watch: Watch | None = None,
) -> Joint:
    """The best plan that fusion, tiles and allocation find together, starting from ``base`` or the default plan.

    ``fuse`` searches groups for the placements of a plan. ``effort`` is that of every allocation search; there are at
    most two rounds more than half of it. Ctrl-C ends the search with the best plan so far. Raises ``NoSchedule`` if the
    plan to start from cannot run.
    """
    check_options(objective, effort)
    start = scheduler.complete(base) if base else default_plan(scheduler)
    figures = plan_figures(scheduler, start)
    if not isinstance(figures, Figures):
        raise NoSchedule(figures)
    best, steps, interrupted = _Best(scheduler, objective, start, figures), list[JointStep](), False
    try:
        for number in range(2 + effort // 2):
            before = best.figures.objective(objective)
            for name, run in _steps(best, fuse, effort, seed + number, watch, number == 0):
                had = best.figures.objective(objective)
                interrupted = run()
                gain = 1 - best.figures.objective(objective) / had
                steps.append(JointStep(number + 1, name, best.figures, gain))
                if interrupted:
                    break
            if interrupted or best.figures.objective(objective) > before * (1 - ENOUGH):
                break
    except KeyboardInterrupt:
        interrupted = True
    return Joint(figures, best.plan, best.figures, tuple(steps), interrupted)


def _steps(
    best: _Best, fuse: Fuse, effort: int, seed: int, watch: Watch | None, first: bool
) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Name and action of the steps of one round; an action says whether it was interrupted."""
    options = {"objective": best.objective, "seed": seed}

    def stacks() -> bool:
        found = allocate_fused(best.scheduler, "auto", effort=1, watch=watch, **options)  # type: ignore[arg-type]
        best.offer(found.found.plan, found.found.figures)
        return found.interrupted

    def fusion() -> bool:
        plan, interrupted = fuse(best.plan, seed)
        best.offer(plan)
        return interrupted

    def tiles() -> bool:
        improve_tiles(best, 40 * effort)
        return False

    def allocation() -> bool:
        found = allocate(best.scheduler, best.plan, effort=effort, watch=watch, **options)  # type: ignore[arg-type]
        best.offer(found.found.plan, found.found.figures)
        return found.interrupted

    if first and len(best.scheduler.machine.accelerator.cores) > 1:
        yield "stacks", stacks
    yield "fusion", fusion
    yield "tiles", tiles
    yield "allocation", allocation


def improve_tiles(best: _Best, budget: int) -> None:
    """Tile sizes and halos of groups, shares of memories and what tiles are for, one change at a time, while any
    helps."""
    seen: set[tuple[object, ...]] = set()
    gained = True
    while gained:
        gained = False
        for plan in list(_other_tiles(best.scheduler, best.plan)):
            key = (plan.groups, plan.buffer_share, plan.tiles, plan.memory_share)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > budget:
                return
            if best.offer(plan):
                gained = True
                break


def _other_tiles(scheduler: Scheduler, plan: Plan) -> Iterator[Plan]:
    """Plans that differ in one tile or halo, a share of memories, or what tiles of operators alone are chosen for."""
    operators = {operator.op.name: operator for operator in scheduler.workload.operators}
    for share in BUFFER_SHARES:
        if share != plan.buffer_share:
            yield replace(plan, buffer_share=share)
    yield from (replace(plan, tiles=goal) for goal in TILES if goal != plan.tiles)
    yield from (replace(plan, memory_share=share) for share in MEMORY_SHARES if share != plan.memory_share)
    for number, group in enumerate(plan.groups):
        last = max((operators[name] for name in group.operators), key=lambda operator: operator.number)
        for other in _variants(group, last.nest.sizes):
            yield replace(plan, groups=(*plan.groups[:number], other, *plan.groups[number + 1 :]))


def _variants(group: Group, sizes: Mapping[str, int]) -> Iterator[Group]:
    if not group.tile:
        return
    for position, (dim, size) in enumerate(group.tile):
        for other in (size // 2, min(size * 2, sizes[dim])):
            if other not in (0, size):
                yield group._replace(tile=(*group.tile[:position], (dim, other), *group.tile[position + 1 :]))
    for halo in HALOS:
        if halo != group.halo:
            yield group._replace(halo=halo)
