"""The search for a fusion plan: candidates, exact partition, re-ranking and improvement through the full schedule."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from monet.display import Displayed
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import Figures, figures_of
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_schedule
from monet.schedule.result_rows import Infeasible
from monet.search.fusion.candidates import (
    HOPE,
    Candidate,
    Census,
    Costing,
    Fold,
    folded,
    hopeful_groups,
    undominated,
    variants_for,
)
from monet.search.fusion.evaluation import FusionEvaluator, Variant, plan_with
from monet.search.fusion.improve import Chosen, Climber, climb
from monet.search.fusion.manual import manual_plan
from monet.search.fusion.partition import Partition, best_partition
from monet.search.fusion.structure import Structure, circle, mask_of, structure_of
from monet.search.fusion.traffic import Baseline, baseline_of
from monet.search.progress import SearchProgress, Watch

COSTED = 4_000_000  # work for candidates, per unit of effort: nodes scheduled
IMPROVED = 5_000_000  # work for improvement, per unit of effort
RANKED = 4  # partitions re-ranked through the full schedule, per unit of effort
RERANKED = 3_000_000  # work for that, per unit of effort; the exact one is always scheduled


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """What a search may do. ``limit``: operators of a group; ``effort`` 1 to 10: how many schedules it may try."""

    objective: str = "latency"
    limit: int = 6
    effort: int = 5
    seed: int = 0


@dataclass(frozen=True, repr=False)
class FoundFusion(Displayed):
    """The outcome. ``plans``: unfused, default, manual and found, with their figures; ``within``: the best plan whose
    groups keep the limit (that of ``found``, unless the default or the manual plan has longer groups and is better).
    ``additive_cost``: the exact partition's own objective, cost of the unfused step less the sum of gains; below it the
    bound on that."""

    plans: dict[str, tuple[Plan, Figures]]
    within: tuple[Plan, Figures]
    settings: FusionSettings
    census: Census
    partition: Partition
    additive_cost: float
    additive_bound: float
    pairs: tuple[tuple[float, float], ...]  # (additive, scheduled) cost of re-ranked plans
    schedules: int
    interrupted: bool

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of additive and scheduled cost; not a number below three different plans."""
        return _rank_correlation(self.pairs)

    @property
    def correlation_of_best(self) -> float:
        """The same among the better half by additive cost: how well the sum of gains tells good plans apart."""
        return _rank_correlation(sorted(self.pairs)[: (len(self.pairs) + 1) // 2])


def _rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    from scipy.stats import spearmanr

    if len({estimated for estimated, _ in pairs}) < 3 or len({measured for _, measured in pairs}) < 3:
        return float("nan")
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


@dataclass
class _Search:
    evaluator: FusionEvaluator
    settings: FusionSettings
    of: Structure
    base: Plan
    baseline: Baseline
    rng: random.Random
    watch: Watch | None
    stage: str = "unfused, default and manual plan"
    # what is known so far, also when the search is interrupted
    census: Census = field(default_factory=Census)
    partition: Partition = field(default_factory=lambda: Partition((), 0.0, 0.0, 0))
    pairs: list[tuple[float, float]] = field(default_factory=list)

    def report(self, stage: str = "") -> None:
        """Tell whoever watches how far the search is, in another stage or the same."""
        self.stage = stage or self.stage
        if self.watch:
            best = self.evaluator.best[2] if self.evaluator.best else None
            share = min(1.0, self.evaluator.work / ((COSTED + RERANKED + IMPROVED) * self.settings.effort))
            self.watch(SearchProgress(self.stage, self.evaluator.scheduled, share, best))


def find_fusion(
    scheduler: Scheduler,
    settings: FusionSettings,
    *,
    base: Plan | None = None,
    manual: Plan | None = None,
    known: Sequence[Plan] = (),
    watch: Watch | None = None,
) -> FoundFusion:
    """Search for the fusion of a graph on an accelerator. ``base`` gives placements and all that is not fusion (its
    groups are a starting point); by default the plan of ``monet run``, so that none is found that is slower.
    ``manual``: a plan to compare with; ``known``: plans to start from as well. ``watch`` is told how far it is after
    every schedule. An interrupt (Ctrl-C) ends the search with the best plan so far. Raises ``NoSchedule`` if the step
    does not fit unfused."""
    scheduler.check_fits()
    evaluator = FusionEvaluator(scheduler, settings.objective, settings.limit)
    start = base or default_schedule(scheduler).plan
    plain = scheduler.complete(replace(start, groups=()))
    search = _Search(
        evaluator, settings, structure_of(scheduler.workload), plain,
        baseline_of(scheduler, scheduler.schedule(plain)), random.Random(settings.seed), watch,
    )  # fmt: skip
    default = scheduler.complete(start) if start.groups else _default(scheduler, start)
    if manual:
        manual = scheduler.schedule(manual).plan  # says what is wrong with it
    named = {"unfused": plain, "default": default, "manual": manual or manual_plan(evaluator, search.of, plain)}
    plans = {name: (plan, figures) for name, plan in named.items() if (figures := evaluator.figures(plan)) is not None}
    if "unfused" not in plans:
        raise _does_not_fit(scheduler, plain)
    evaluator.watch = search.report
    search.report()
    starts = [default, named["manual"], *known]
    try:
        _run(search, starts)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    within = (plain, plans["unfused"][1]) if evaluator.best is None else evaluator.best[1:]
    plans["found"] = min((within, *plans.values()), key=lambda entry: entry[1].objective(settings.objective))
    unfused_cost = evaluator.cost(plain)
    return FoundFusion(
        plans, within, settings, search.census, search.partition, unfused_cost - search.partition.gain,
        unfused_cost - search.partition.bound, tuple(search.pairs), evaluator.scheduled, interrupted,
    )  # fmt: skip


def _default(scheduler: Scheduler, start: Plan) -> Plan:
    """What fusing by rule makes of a plan without groups."""
    return default_schedule(scheduler, "auto", start.boundary, dict(start.placements)).plan


def _does_not_fit(scheduler: Scheduler, plain: Plan) -> NoSchedule:
    dram = scheduler.machine.accelerator.dram
    needed = figures_of(scheduler, scheduler.schedule(plain)).dram_peak_bytes
    short = needed - dram.capacity_bytes
    message = (
        f"does not fit: DRAM {dram.name} holds {dram.capacity_bytes:,} bytes, but {needed:,} are needed: "
        f"{short:,} bytes short"
    )
    return NoSchedule(Infeasible("", "", dram.name, short, message))


def _run(search: _Search, starts: Sequence[Plan]) -> None:
    settings, evaluator = search.settings, search.evaluator
    legal, complete, hopeful = hopeful_groups(search.of, search.baseline, settings.objective, settings.limit)
    folds = folded(search.baseline, hopeful, search.base)
    search.census = Census(legal, complete, len(hopeful), len(folds))
    search.report(f"{legal} legal groups, {len(hopeful)} may gain, {len(folds)} distinct")
    _first(search, folds)
    candidates = _costed(search, folds)
    ranked = _ranked(search, candidates)
    search.report("exact partition and its neighbours re-ranked")
    ordered = sorted(candidates, key=lambda candidate: (-candidate.gain, candidate.mask))
    climber = Climber(evaluator, search.of, search.baseline, search.base, settings.limit, IMPROVED * settings.effort)
    for chosen in [*ranked, *(_chosen(search, plan) for plan in starts)]:
        if all(mask.bit_count() <= settings.limit for mask in chosen):
            climber.start_if_better(chosen)
    climb(climber, ordered, search.rng, search.report)
    search.report("improved")


def _first(search: _Search, folds: Sequence[Fold]) -> None:
    """A quick plan: groups by their estimate per operator, each as a plain sequence."""
    chosen: list[int] = []
    taken = 0
    promise = [(fold.estimate / mask.bit_count(), mask) for fold in folds for mask in fold.masks]
    for _, mask in sorted(promise, key=lambda entry: (-entry[0], entry[1]))[:2000]:
        if not mask & taken and not circle(search.of, [*chosen, mask]):
            chosen.append(mask)
            taken |= mask
    variants = tuple(variants_for(search.baseline, search.base, mask)[0] for mask in chosen)
    search.evaluator.cost(plan_with(search.base, variants))
    search.report("groups by estimate alone")


def _costed(search: _Search, folds: Sequence[Fold]) -> list[Candidate]:
    """Candidates that gain and that no part of them equals."""
    budget = COSTED * search.settings.effort
    costing = Costing(search.evaluator, search.baseline, search.base, budget)
    costing.last -= budget // 4  # the rest is for the other variants of what gains
    for number, fold in enumerate(folds):
        if costing.spent:
            break
        costing.cost(fold, quick=True)
        if number % 50 == 49:
            search.report(f"{number + 1} of {len(folds)} distinct groups costed")
    costing.last += budget // 4
    for fold in sorted(costing.best, key=lambda fold: (-costing.best[fold][0] * len(fold.masks), fold.masks[0])):
        if costing.best[fold][0] > -HOPE * fold.estimate:
            costing.cost(fold, quick=False)
    every = costing.candidates()
    kept = undominated(every)
    schedules = search.evaluator.scheduled - costing.began
    search.census = replace(
        search.census,
        costed=len(costing.best),
        schedules=schedules,
        gaining=len(every),
        dominated=len(every) - len(kept),
    )
    search.report(f"{len(costing.best)} groups costed, {len(kept)} gain")
    return kept


def _ranked(search: _Search, candidates: Sequence[Candidate]) -> list[Chosen]:
    """The exact partition, the next best ones, some of perturbed gains and some of fewer candidates, through the full
    schedule."""
    masks, gains = [candidate.mask for candidate in candidates], [candidate.gain for candidate in candidates]
    count = max(2, RANKED * search.settings.effort // 2)
    unfused_cost, known, found = search.evaluator.cost(search.base), list[tuple[int, ...]](), list[Chosen]()
    last = search.evaluator.work + RERANKED * search.settings.effort
    for number in range(3 * count):
        if search.evaluator.work >= last:
            break
        if number < count:
            solved = best_partition(search.of, masks, gains, not_these=known, seed=search.settings.seed)
        elif number < 2 * count:
            noisy = [gain * search.rng.random() for gain in gains]
            solved = best_partition(search.of, masks, noisy, seed=search.settings.seed)
        else:  # from few groups to nearly all, so that the correlation is not one of near ties
            share = (number - 2 * count + 1) / (count + 1)
            some = [gain if search.rng.random() < share else 0.0 for gain in gains]
            solved = best_partition(search.of, masks, some, seed=search.settings.seed)
        if number == 0:
            search.partition = solved
        if solved.chosen in known:
            continue
        known.append(solved.chosen)
        chosen = {masks[index]: candidates[index].variant for index in solved.chosen}
        cost = search.evaluator.cost(plan_with(search.base, tuple(chosen.values())))
        if cost < float("inf"):
            search.pairs.append((unfused_cost - sum(gains[index] for index in solved.chosen), cost))
            found.append(chosen)
    return found


def _chosen(search: _Search, plan: Plan) -> Chosen:
    """The groups of a plan as choices on top of the base."""
    number = {operator.op.name: operator.number for operator in search.baseline.scheduler.workload.operators}
    found: Chosen = {}
    for group in plan.groups:
        moved = tuple(
            (name, plan.placements[name])
            for name in group.operators
            if name in plan.placements and plan.placements[name] != search.base.placements[name]
        )
        found[mask_of(number[name] for name in group.operators)] = Variant(group, moved)
    return found
