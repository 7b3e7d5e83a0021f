"""The search for a fusion plan: candidates, exact partition, re-ranking and improvement through the full schedule."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from monet.schedule.default_plan import default_schedule
from monet.schedule.engine import Scheduler
from monet.schedule.figures import Figures
from monet.schedule.plan import Placement, Plan
from monet.search.fusion.candidates import (
    Candidate,
    Census,
    Fold,
    cost_of,
    folded,
    hopeful_groups,
    undominated,
    variants_for,
)
from monet.search.fusion.evaluation import Evaluator, Variant, plan_with
from monet.search.fusion.improve import Chosen, Climber, climb
from monet.search.fusion.manual import manual_plan
from monet.search.fusion.partition import Partition, best_partition
from monet.search.fusion.structure import Structure, bits, circle, mask_of, structure_of
from monet.search.fusion.traffic import Baseline, baseline_of

COSTED = 120  # schedules for candidates, per unit of effort
IMPROVED = 120  # schedules for improvement, per unit of effort
RANKED = 5  # partitions re-ranked through the full schedule, per unit of effort


@dataclass(frozen=True, slots=True)
class Settings:
    """What a search may do. ``limit``: operators of a group; ``effort`` 1 to 10: how many schedules it may try."""

    objective: str = "latency"
    limit: int = 6
    effort: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Found:
    """The outcome. ``plans``: unfused, default, manual, found with their figures. ``additive``: the partition's own
    objective, in units of it: cost of the unfused step less the sum of gains, and the bound on that."""

    plans: dict[str, tuple[Plan, Figures]]
    settings: Settings
    census: Census
    partition: Partition
    additive_cost: float
    additive_bound: float
    pairs: tuple[tuple[float, float], ...]  # (additive, scheduled) cost of re-ranked plans
    schedules: int
    interrupted: bool

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of additive and scheduled cost; not a number below three plans."""
        from scipy.stats import spearmanr

        if len({one for one, _ in self.pairs}) < 3 or len({one for _, one in self.pairs}) < 3:
            return float("nan")
        return float(spearmanr(*zip(*self.pairs, strict=True)).statistic)


@dataclass
class _Search:
    evaluator: Evaluator
    settings: Settings
    of: Structure
    base: Plan
    baseline: Baseline
    rng: random.Random
    say: Callable[[str], None]

    def report(self, what: str) -> None:
        best = self.evaluator.best
        self.say(
            f"{what}; {self.evaluator.scheduled} schedules, best {self.settings.objective} {best[0] if best else 0:.6g}"
        )


def find_fusion(
    scheduler: Scheduler,
    settings: Settings,
    *,
    base: Plan | None = None,
    manual: Plan | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Found:
    """Search for the fusion of a graph on an accelerator. ``base`` gives placements and all that is not fusion (its
    groups are a starting point); ``manual`` a plan to compare with. An interrupt (Ctrl-C) ends the search with the best
    plan so far."""
    evaluator = Evaluator(scheduler, settings.objective, say)
    start = base or Plan()
    plain = scheduler.complete(Plan(placements=start.placements, boundary=start.boundary, prefetch=start.prefetch,
                                    buffer_share=start.buffer_share))  # fmt: skip
    schedule = scheduler.schedule(plain)
    search = _Search(
        evaluator, settings, structure_of(scheduler.workload), plain, baseline_of(scheduler, schedule),
        random.Random(settings.seed), say,
    )  # fmt: skip
    named = {"unfused": plain, "default": _default(scheduler, start)}
    named["manual"] = manual or manual_plan(evaluator, search.of, plain)
    plans = {name: (plan, figures) for name, plan in named.items() if (figures := evaluator.figures(plan)) is not None}
    for plan in (start,):
        if plan.groups:
            evaluator.figures(scheduler.complete(plan))
    search.report("unfused, default and manual plan")
    state = _State()
    try:
        _run(search, state, [named["default"], named["manual"], *([start] if start.groups else [])])
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    assert evaluator.best is not None
    plans["found"] = evaluator.best[1], evaluator.best[2]
    alone = evaluator.cost(plain)
    return Found(
        plans, settings, state.census, state.partition, alone - state.partition.gain, alone - state.partition.bound,
        tuple(state.pairs), evaluator.scheduled, interrupted,
    )  # fmt: skip


@dataclass
class _State:
    """What is known so far, also when the search is interrupted."""

    census: Census = field(default_factory=lambda: Census(0, 0, 0, 0, 0, 0, 0))
    partition: Partition = field(default_factory=lambda: Partition((), 0.0, 0.0, 0))
    pairs: list[tuple[float, float]] = field(default_factory=list)


def _default(scheduler: Scheduler, start: Plan) -> Plan:
    placements: dict[str, Placement] = dict(start.placements)
    return default_schedule(scheduler, "auto", start.boundary, placements).plan


def _run(search: _Search, state: _State, starts: Sequence[Plan]) -> None:
    settings, evaluator = search.settings, search.evaluator
    legal, hopeful = hopeful_groups(search.of, search.baseline, settings.objective, settings.limit)
    folds = folded(search.baseline, hopeful, search.base)
    search.report(f"{legal} legal groups, {len(hopeful)} may gain, {len(folds)} distinct")
    _first(search, folds)
    candidates, costed, schedules = _costed(search, folds)
    kept = undominated(candidates)
    state.census = Census(
        legal, len(hopeful), len(folds), costed, schedules, len(candidates), len(candidates) - len(kept)
    )
    search.report(f"{costed} groups costed, {len(kept)} gain")
    ranked = _ranked(search, state, kept)
    search.report("exact partition and its neighbours re-ranked")
    ordered = sorted(kept, key=lambda one: (-one.gain, one.mask))
    climber = Climber(evaluator, search.of, search.baseline, search.base, settings.limit, IMPROVED * settings.effort)
    for chosen in [*ranked, *(_chosen(search, plan) for plan in starts)]:
        cost = evaluator.cost(plan_with(search.base, tuple(chosen.values())))
        if cost < climber.cost:
            climber.start(chosen)
    climb(climber, ordered, search.rng, search.report)
    search.report("improved")


def _first(search: _Search, folds: Sequence[Fold]) -> None:
    """A quick plan: groups by their upper estimate per operator, each as a plain sequence."""
    chosen: list[int] = []
    taken = 0
    promise = [(one.potential / mask.bit_count(), mask) for one in folds for mask in one.masks]
    for _, mask in sorted(promise, key=lambda one: (-one[0], one[1]))[:2000]:
        if not mask & taken and not circle(search.of, [*chosen, mask]):
            chosen.append(mask)
            taken |= mask
    variants = tuple(variants_for(search.baseline, search.base, mask)[0] for mask in chosen)
    search.evaluator.cost(plan_with(search.base, variants))
    search.report("groups by estimate alone")


def _costed(search: _Search, folds: Sequence[Fold]) -> tuple[list[Candidate], int, int]:
    """Candidates that gain, with how many groups were costed and by how many schedules."""
    evaluator, budget = search.evaluator, COSTED * search.settings.effort
    before, last = evaluator.scheduled, evaluator.scheduled + budget
    best: dict[int, tuple[float, int]] = {}
    costed = set()
    for first in (True, False):
        for number, fold in enumerate(folds):
            if evaluator.scheduled >= last:
                break
            for variant, gain in cost_of(
                evaluator, search.baseline, search.base, fold, last - evaluator.scheduled, first
            ):
                costed.add(number)
                if gain > 0 and gain > best.get(number, (0.0, 0))[0]:
                    best[number] = gain, variant
            if len(costed) % 100 == 0:
                search.report(f"{len(costed)} of {len(folds)} groups costed")
    found = []
    for number, (gain, variant) in best.items():
        for mask in folds[number].masks:
            every = variants_for(search.baseline, search.base, mask)
            found.append(Candidate(mask, every[min(variant, len(every) - 1)], gain))
    return found, len(costed), evaluator.scheduled - before


def _ranked(search: _Search, state: _State, candidates: Sequence[Candidate]) -> list[Chosen]:
    """The exact partition, the next best ones and some of perturbed gains, through the full schedule."""
    masks, gains = [one.mask for one in candidates], [one.gain for one in candidates]
    seed, count = search.settings.seed, max(2, RANKED * search.settings.effort // 2)
    alone, known, found = search.evaluator.cost(search.base), list[tuple[int, ...]](), list[Chosen]()
    for number in range(2 * count):
        if number < count:
            solved = best_partition(search.of, masks, gains, not_these=known, seed=seed)
        else:
            noisy = [gain * search.rng.uniform(0.3, 1.0) for gain in gains]
            solved = best_partition(search.of, masks, noisy, seed=seed)
        if number == 0:
            state.partition = solved
        if solved.chosen in known:
            continue
        known.append(solved.chosen)
        chosen = {masks[one]: candidates[one].variant for one in solved.chosen}
        cost = search.evaluator.cost(plan_with(search.base, tuple(chosen.values())))
        if cost < float("inf"):
            state.pairs.append((alone - sum(gains[one] for one in solved.chosen), cost))
            found.append(chosen)
    return found


def _chosen(search: _Search, plan: Plan) -> Chosen:
    """The groups of a plan as choices on top of the base."""
    number = {one.op.name: one.number for one in search.baseline.scheduler.workload.operators}
    found: Chosen = {}
    for group in plan.groups:
        moved = tuple(
            (name, plan.placements[name].cores[0])
            for name in group.operators
            if name in plan.placements
            and plan.placements[name] != search.base.placements[name]
            and len(plan.placements[name].cores) == 1
        )
        found[mask_of(number[name] for name in group.operators)] = Variant(group, moved)
    return found


def groups_as_numbers(of: Plan, scheduler: Scheduler) -> list[int]:
    """The groups of a plan as bit sets of operator numbers."""
    number = {one.op.name: one.number for one in scheduler.workload.operators}
    return [mask_of(number[name] for name in group.operators) for group in of.groups]


__all__ = ["Found", "Settings", "bits", "find_fusion", "groups_as_numbers"]
