"""How operators are fused while their cores are searched: as in a plan, as ``run`` does, or in depth-first stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monet.errors import MonetError, nearest
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan, PlanError
from monet.schedule.planning.default_plan import default_plan
from monet.search.allocation.choices import space_of
from monet.search.allocation.constructive import starting_points
from monet.search.allocation.evaluator import AllocationEvaluator
from monet.search.allocation.search import Allocation, allocate, budget_of
from monet.search.allocation.stacks import stack_plans
from monet.search.progress import Watch, part_of

FUSIONS = ("auto", "none", "stacks")
MOST_STACKED = 2  # ways to stack that are searched briefly
BRIEF = 1  # effort


def allocate_fused(
    scheduler: Scheduler,
    fusion: str,
    *,
    boundary: str = "",
    objective: str = "latency",
    effort: int = 5,
    seed: int = 0,
    watch: Watch | None = None,
) -> Allocation:
    """``allocate`` for a named way to fuse. ``stacks`` searches the most promising stacks briefly and the best of them
    in full; ``auto`` also what ``run`` does by itself. Ctrl-C ends it with the best so far."""
    scheduler.check_fits()
    bases = fused_plans(scheduler, fusion, boundary, objective)
    if len(bases) == 1:
        return allocate(scheduler, bases[0], objective=objective, effort=effort, seed=seed, watch=watch)
    brief: list[Allocation] = []
    first, whole = budget_of(BRIEF), len(bases) * budget_of(BRIEF) + (budget_of(effort) if effort != BRIEF else 0)

    def part(number: int, budget: int) -> Watch | None:
        return part_of(
            watch, number * first / whole, (number * first + budget) / whole, sum(found.tried for found in brief)
        )

    try:
        for number, base in enumerate(bases):
            told = part(number, first)
            brief.append(allocate(scheduler, base, objective=objective, effort=BRIEF, seed=seed, watch=told))
            if brief[-1].interrupted:
                raise KeyboardInterrupt
        best = _best(brief, objective)
        if effort == BRIEF:
            return best
        told = part(len(bases), budget_of(effort))
        return allocate(scheduler, best.found.plan, objective=objective, effort=effort, seed=seed, watch=told)
    except KeyboardInterrupt:
        if not brief:
            raise
        return replace(_best(brief, objective), interrupted=True)


def _best(some: Sequence[Allocation], objective: str) -> Allocation:
    return min(some, key=lambda allocation: allocation.found.figures.objective(objective))


def fused_plans(scheduler: Scheduler, fusion: str, boundary: str, objective: str) -> list[Plan]:
    """Plans worth searching for a way to fuse; those of stacks without placements."""
    if fusion not in FUSIONS:
        raise PlanError(f"--fusion {fusion!r}: {nearest(fusion, FUSIONS)}, or a YAML file")
    plain = Plan(boundary=boundary or "keep")
    if fusion == "none":
        return [plain]
    found = [] if fusion == "stacks" else [default_plan(scheduler, "auto", boundary)]
    ranked = []
    for order, plan in enumerate(stack_plans(scheduler, plain)):
        evaluator = AllocationEvaluator(scheduler, plan, objective)
        for placements in starting_points(space_of(scheduler, shared=True), scheduler.complete(plan)).values():
            evaluator.figures(placements)
        if evaluator.best is not None:
            ranked.append((evaluator.best_value, order, plan))
    found += [plan for *_, plan in sorted(ranked, key=lambda entry: entry[:2])[:MOST_STACKED]]
    if not found:
        raise MonetError("no stack of operators can run on this accelerator; take --fusion none")
    return found
