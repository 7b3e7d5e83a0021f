"""Allocation search: constructive starting points, NSGA-II on latency and energy, local search on the objective.

First all equal layers share one decision (few genes, found quickly), then every operator has its own. What is found is
what the full schedule says of complete plans; nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from monet.display import Displayed
from monet.errors import MonetError, nearest
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.measurement.figures import Figures
from monet.schedule.plan import Plan
from monet.schedule.planning.family import one_core
from monet.schedule.result_rows import Infeasible
from monet.search.allocation.choices import AllocationSpace, space_of
from monet.search.allocation.constructive import Placements, starting_points
from monet.search.allocation.evaluator import AllocationEvaluator, Key
from monet.search.allocation.local import improve
from monet.search.genetic import EvolutionSettings, Score, evolve, non_dominated
from monet.search.progress import SearchProgress, Watch

OBJECTIVES = ("latency", "energy", "edp")
EFFORTS = range(1, 11)
TIE = 1e-3  # plans whose objectives differ by less are as good as each other; the energy-delay product decides


@dataclass(frozen=True)
class NamedPlan:
    """A plan with a name and what it costs."""

    name: str
    plan: Plan
    figures: Figures


@dataclass(frozen=True, slots=True)
class SearchStage:
    """One stage of a search: evaluations so far and the best figures after it."""

    name: str
    evaluations: int
    figures: Figures


@dataclass(frozen=True, repr=False)
class Allocation(Displayed):
    """Outcome of a search.

    ``constructive``: what rules alone give, the default and one core per layer among them; ``front``: plans that no
    other evaluated one beats in both latency and energy; ``bound``: (seconds, joules) that no plan is below.
    """

    found: NamedPlan
    constructive: tuple[NamedPlan, ...]
    front: tuple[NamedPlan, ...]
    bound: tuple[float, float]
    rounds: tuple[SearchStage, ...]
    points: tuple[tuple[float, float], ...]  # latency and energy of everything evaluated
    space: float  # allocations there are
    infeasible: int
    reason: str
    interrupted: bool
    objective: str = "latency"

    @property
    def tried(self) -> int:
        """Plans evaluated, with those that cannot run."""
        return len(self.points) + self.infeasible

    @property
    def best_rule(self) -> NamedPlan | None:
        """The best that rules alone give; None if nothing they give can run."""
        rules = [rule for rule in self.constructive if rule.name != "given"]
        return min(rules, key=lambda rule: rule.figures.objective(self.objective), default=None)


def budget_of(effort: int) -> int:
    """Plans that a search of some effort evaluates."""
    return 140 * effort + 60 * effort * effort


def allocate(
    scheduler: Scheduler,
    base: Plan,
    *,
    objective: str = "latency",
    effort: int = 5,
    seed: int = 0,
    splits: bool = True,
    watch: Watch | None = None,
) -> Allocation:
    """The best allocation found for ``base`` (its groups, tiles and boundary are kept; its placements are one more
    starting point). Without ``splits`` every operator runs on one core. Ctrl-C ends it with the best so far."""
    check_options(objective, effort)
    scheduler.check_fits()
    evaluator = AllocationEvaluator(scheduler, base, objective)
    default = scheduler.complete(replace(base, placements={}))
    given = {"given": dict(scheduler.complete(base).placements)} if base.placements else {}
    if not splits:
        default = replace(default, placements=one_core(scheduler, default))
    known = [default.placements, *given.values()]
    shared, single = (space_of(scheduler, shared=alike, given=known, splits=splits) for alike in (True, False))
    starts = starting_points(single, default) | given
    rounds: list[SearchStage] = []
    interrupted = False
    try:
        for name, run in _stages(evaluator, shared, single, starts, effort, seed):
            evaluator.watch = partial(_report, watch, name, budget_of(effort)) if watch else None
            interrupted = run()
            if evaluator.best is not None:
                rounds.append(SearchStage(name, len(evaluator.known), evaluator.best_figures))
            if interrupted:
                break
    except KeyboardInterrupt:
        interrupted = True
    if evaluator.best is None:
        if interrupted:
            raise KeyboardInterrupt
        raise NoSchedule(evaluator.reason or Infeasible("", "", "", 0, "no allocation can run"))
    return _outcome(evaluator, starts, rounds, single, interrupted)


def _report(watch: Watch, stage: str, budget: int, evaluator: AllocationEvaluator) -> None:
    tried, best = len(evaluator.known), None if evaluator.best is None else evaluator.best_figures
    watch(SearchProgress(stage, tried, min(1.0, tried / budget), best))


def check_options(objective: str, effort: int) -> None:
    """Raise if an objective or an effort is none."""
    if objective not in OBJECTIVES:
        raise MonetError(f"objective {objective!r}: {nearest(objective, OBJECTIVES)}")
    if effort not in EFFORTS:
        raise MonetError(f"effort {effort}: a whole number from {EFFORTS[0]} to {EFFORTS[-1]}")


def _stages(
    evaluator: AllocationEvaluator,
    shared: AllocationSpace,
    single: AllocationSpace,
    starts: Mapping[str, Placements],
    effort: int,
    seed: int,
) -> list[tuple[str, Callable[[], bool]]]:
    """Name and action of every stage; an action says whether it was interrupted."""
    budget, few = budget_of(effort), len(shared.classes) < len(single.classes)

    def construct() -> bool:
        for placements in starts.values():
            evaluator.figures(placements)
        return False

    def genetic(space: AllocationSpace, evaluations: int, seed: int) -> bool:
        population = min(16 + 4 * effort, 48)
        points = [space.genome(start) for start in starts.values()]
        points += [space.genome(evaluator.placements(key)) for key in _best(evaluator, population // 4)]
        found = evolve(
            space.counts,
            lambda genomes: evaluator.scores([space.placements(genome) for genome in genomes]),
            seed=seed,
            settings=EvolutionSettings(population, max(1, evaluations // population)),
            seeds=points,
            repair=space.repair,
        )
        return found.interrupted

    def descend(space: AllocationSpace, evaluations: int, seed: int) -> bool:
        if evaluator.best is None:
            return False
        improve(evaluator, space, space.genome(evaluator.placements(evaluator.best)), evaluations, seed)
        return False

    stages: list[tuple[str, Callable[[], bool]]] = [("constructive", construct)]
    if few:
        stages.append(("genetic, equal layers alike", partial(genetic, shared, budget * 3 // 10, seed)))
        stages.append(("local, equal layers alike", partial(descend, shared, budget // 10, seed)))
    stages.append(("genetic", partial(genetic, single, budget * (3 if few else 6) // 10, seed + 1)))
    stages.append(("local", partial(descend, single, budget * 3 // 10, seed + 1)))
    return stages


def _best(evaluator: AllocationEvaluator, count: int) -> list[Key]:
    """The allocations with the best objective so far."""
    able = [key for key, figures in evaluator.known.items() if figures is not None]
    return sorted(able, key=evaluator.value)[:count]  # stable: of equals the first


def _outcome(
    evaluator: AllocationEvaluator,
    starts: Mapping[str, Placements],
    rounds: list[SearchStage],
    space: AllocationSpace,
    interrupted: bool,
) -> Allocation:
    assert evaluator.best is not None
    known = {key: figures for key, figures in evaluator.known.items() if figures is not None}
    made = [
        NamedPlan(name, evaluator.plan(placements), known[evaluator.key(placements)])
        for name, placements in starts.items()
        if evaluator.key(placements) in known
    ]
    keys = dict(enumerate(known))
    front = non_dominated({(n,): Score((known[key].latency_s, known[key].energy_j)) for n, key in keys.items()})
    best = _chosen(evaluator, known, made)
    bounds = bounds_of(evaluator.scheduler.workload, evaluator.scheduler.machine.accelerator)
    return Allocation(
        found=NamedPlan("found", evaluator.plan(evaluator.placements(best)), known[best]),
        constructive=tuple(made),
        front=tuple(
            NamedPlan("front", evaluator.plan(evaluator.placements(keys[n])), known[keys[n]]) for (n,) in front
        ),
        bound=(bounds.latency_s, bounds.energy_j),
        rounds=tuple(rounds),
        points=tuple((figures.latency_s, figures.energy_j) for figures in known.values()),
        space=space.size,
        infeasible=evaluator.infeasible,
        reason=evaluator.reason.message if evaluator.reason else "",
        interrupted=interrupted,
        objective=evaluator.objective,
    )


def _chosen(evaluator: AllocationEvaluator, known: Mapping[Key, Figures], made: Sequence[NamedPlan]) -> Key:
    """Of the plans as good as the best, and none worse than any rule's, that of the least energy-delay product."""
    objective = evaluator.objective
    limit = min([evaluator.best_value * (1 + TIE), *(named.figures.objective(objective) for named in made)])
    able = [key for key, figures in known.items() if figures.objective(objective) <= limit]
    return min(able, key=lambda key: (known[key].edp, known[key].objective(objective)))
