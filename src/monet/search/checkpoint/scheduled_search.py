"""NSGA-II over checkpoint plans through the full schedule: latency, energy, and activation memory at its peak.

The first generation holds the baselines, exact optima at many budgets (for repeated FLOPs, and for the time that every
operator takes in the plain schedule), and greedy plans from what each activation costs alone. One more gene says
whether recomputed operators join the groups of their readers. The same seed gives the same front
for any number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from monet import processes
from monet.display import Displayed
from monet.schedule.engine import NoSchedule
from monet.schedule.plan import PlanError
from monet.search.checkpoint.genetic import exact_curve, genes_of, least_work, narrowable
from monet.search.checkpoint.scheduled import PlanFigures, ScheduledCost
from monet.search.checkpoint.static import Choice
from monet.search.genetic import EvolutionSettings, Genome, Score, evolve, non_dominated
from monet.transforms.checkpoint_baselines import BASELINES
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan, Impossible
from monet.transforms.checkpoint_problem import CheckpointProblem, problem_of

GREEDY_PLANS = 12
PAGED_BYTES = 64 * 1024  # smaller activations are not worth a page
INFINITE = (float("inf"),) * 3
UNSCHEDULED = 1e6  # violation of a plan without a schedule: worse than any that is merely too large for DRAM


@dataclass(frozen=True, slots=True)
class Point:
    """A plan and what it costs. ``work_share``: repeated FLOPs over those of the forward pass."""

    plan: CheckpointPlan
    fused: bool
    figures: PlanFigures
    work_share: float

    @property
    def objectives(self) -> tuple[float, float, float]:
        """What the search minimises."""
        return self.figures.latency_s, self.figures.energy_j, float(self.figures.memory_peak_bytes)


@dataclass(frozen=True, slots=True)
class StaticOptimum:
    """What is exact about a plan: nothing within ``choice.budget`` kept bytes repeats less of ``cost``: flops, or time,
    that of every operator in the plain schedule. Both add up."""

    cost: str
    choice: Choice


@dataclass(frozen=True, repr=False)
class ScheduledFront(Displayed):
    """Outcome of a search. ``front`` is by memory; ``exact`` are optima of repeated FLOPs over budgets of kept bytes.

    ``single_drops`` says what each saved storage costs when it alone is recomputed; ``optima`` which plans are exact
    static optima, if only such were asked for.
    """

    plain: Point
    front: tuple[Point, ...]
    baselines: tuple[tuple[str, Point], ...]
    single_drops: tuple[tuple[str, Point], ...]
    exact: tuple[Choice, ...]
    evaluated: int
    interrupted: bool
    dram_capacity_bytes: int
    optima: Mapping[CheckpointPlan, tuple[StaticOptimum, ...]] = field(default_factory=dict)

    def gap(self, point: Point) -> float:
        """Repeated work above the least that these kept bytes are proved to need, as a share of the forward pass."""
        forward = max(1, self.exact[0].forward_cost) if self.exact else 1
        return max(0.0, point.work_share - least_work(self.exact, point.figures.kept_bytes) / forward)

    @cached_property
    def free(self) -> Point | None:
        """The plan of least memory that is no slower than the plain step; None if no plan that saves memory is."""
        plain = self.plain.figures
        fast = [point for point in self.front if point.figures.latency_s <= plain.latency_s]
        best = min(fast, key=lambda point: point.figures.memory_peak_bytes, default=None)
        return best if best and best.figures.memory_peak_bytes < plain.memory_peak_bytes else None

    @property
    def unbudgeted(self) -> Point:
        """What to take without a budget: the least memory at no loss of latency, else the plain step, else, if that
        does not fit into DRAM, the fastest plan that does."""
        fits = self.plain.figures.dram_peak_bytes <= self.dram_capacity_bytes
        return self.free or (self.plain if fits else min(self.front, key=lambda point: point.objectives))

    def under(self, peak_bytes: int) -> Point | None:
        """The fastest plan whose activations never exceed ``peak_bytes``."""
        fits = [point for point in self.front if point.figures.memory_peak_bytes <= peak_bytes]
        return min(fits, key=lambda point: point.objectives, default=None)


# --- evaluation -------------------------------------------------------------------------------------------------------


class NoPlanFits(Impossible):
    """Every plan that was tried needs more DRAM than there is."""


class CheckpointEvaluator:
    """Figures of plans, each computed once, in this process or several."""

    def __init__(self, costed: ScheduledCost, problem: CheckpointProblem, executor: Executor | None = None) -> None:
        self.costed, self.problem, self.executor = costed, problem, executor
        accelerator = costed.scheduler.machine.accelerator
        self.dram, self.host = accelerator.dram, accelerator.endpoint("host")
        self.points: dict[tuple[CheckpointPlan, bool], Point | None] = {}

    def all(self, plans: Iterable[tuple[CheckpointPlan, bool]]) -> list[Point | None]:
        """The points of some plans (None: does not fit), in order."""
        asked = list(plans)
        new = [candidate for candidate in dict.fromkeys(asked) if candidate not in self.points]
        found: Iterable[PlanFigures | None]
        if self.executor is None or len(new) < 2:
            found = (figures_or_none(self.costed, *candidate) for candidate in new)
        else:
            found = self.executor.map(_in_worker, new, chunksize=max(1, len(new) // 16))
        for candidate, figures in zip(new, found, strict=True):
            self.points[candidate] = Point(*candidate, figures, self._share(candidate[0])) if figures else None
        return [self.points[candidate] for candidate in asked]

    def score(self, point: Point | None) -> Score:
        """What the search compares. Too much in DRAM, or on the host, is infeasible, by how much of it there is."""
        if point is None:
            return Score(INFINITE, UNSCHEDULED)
        short = max(0, point.figures.dram_peak_bytes - self.dram.capacity_bytes) / self.dram.capacity_bytes
        if self.host is not None:
            short += max(0, point.figures.host_peak_bytes - self.host.capacity_bytes) / self.host.capacity_bytes
        return Score(point.objectives, short)

    def front(self, points: Iterable[Point | None]) -> tuple[Point, ...]:
        """Those that fit into DRAM and that none beats in all three figures, by memory."""
        found = [point for point in points if point is not None]
        fits = [point for point in found if not self.score(point).violation]
        if not fits:
            least = min(found, key=lambda point: point.figures.dram_peak_bytes).figures
            short = least.dram_peak_bytes - self.dram.capacity_bytes
            raise NoPlanFits(
                f"DRAM {self.dram.name} holds {self.dram.capacity_bytes:,} bytes; of {len(found)} plans the least "
                f"needs {least.dram_peak_bytes:,}, its activations peak in {least.peak_operator}: {short:,} bytes "
                "short",
                least.peak_operator,
                short,
            )
        scores: dict[Genome, Score] = {(number,): Score(point.objectives) for number, point in enumerate(fits)}
        front = (fits[number] for number, *_ in non_dominated(scores))
        return tuple(sorted(front, key=lambda point: point.objectives[::-1]))

    def _share(self, plan: CheckpointPlan) -> float:
        return self.problem.cost(*self.problem.surviving(plan)) / max(1, self.problem.forward_cost)


def figures_or_none(costed: ScheduledCost, plan: CheckpointPlan, fused: bool) -> PlanFigures | None:
    """What a plan costs; None if it does not fit or cannot be."""
    try:
        return costed.figures(plan, fused)
    except (NoSchedule, CheckpointError, PlanError):  # groups may wait in a circle for what is made again
        return None


_costed: list[ScheduledCost] = []  # of a worker: inherited when the process is forked


def _in_worker(asked: tuple[CheckpointPlan, bool]) -> PlanFigures | None:
    return figures_or_none(_costed[-1], *asked)


@contextmanager
def workers(costed: ScheduledCost, jobs: int) -> Iterator[Executor | None]:
    """Processes that know what this one knows now; None for one job."""
    if jobs < 2:
        yield None
        return
    costed.figures(CheckpointPlan())  # kernels are compiled before processes part
    _costed[:] = [costed]
    with processes.workers(jobs) as executor:
        yield executor


# --- seeds ------------------------------------------------------------------------------------------------------------


def scheduled_problem(costed: ScheduledCost) -> CheckpointProblem:
    """Keep or recompute, where an operator costs the time it takes in the plain schedule: additive, so only a guide."""
    scheduler, schedule = costed.schedule(CheckpointPlan())
    tiles, moves = schedule.tiles, schedule.transfers
    first = np.full(len(scheduler.workload.operators), schedule.makespan, np.int64)
    last = np.zeros(len(scheduler.workload.operators), np.int64)
    for events, own in ((tiles, slice(None)), (moves, ~moves.is_eviction)):
        np.minimum.at(first, events.operator[own], events.start[own])
        np.maximum.at(last, events.operator[own], events.end[own])
    ticks = {
        operator.op.name: max(0, int(last[operator.number] - first[operator.number]))
        for operator in scheduler.workload.operators
    }

    return problem_of(costed.graph, lambda _, op: ticks.get(op.name, 0))


def greedy_plans(
    plain: Point, single_drops: Sequence[tuple[str, Point]], count: int = GREEDY_PLANS
) -> list[CheckpointPlan]:
    """Plans that drop the storages which cost least time per byte alone: first those that gain, then ever more."""
    worth = list[tuple[float, str]]()
    for name, point in single_drops:
        saved = plain.figures.kept_bytes - point.figures.kept_bytes
        worth.append(((point.figures.latency_s - plain.figures.latency_s) / max(1, saved), name))
    worth.sort()
    names = [name for _, name in worth]
    free = sum(price <= 0 for price, _ in worth)
    ends = {free, *(round(len(names) * i / count) for i in range(1, count + 1))}
    return [CheckpointPlan.dropping(names[:end]) for end in sorted(ends) if end]


# --- search -----------------------------------------------------------------------------------------------------------


def search_front(
    costed: ScheduledCost,
    *,
    choices: Sequence[str] = ("keep", "recompute"),
    seed: int = 0,
    settings: EvolutionSettings | None = None,
    jobs: int = 1,
    watch: Callable[[int], None] | None = None,
) -> ScheduledFront:
    """The front of latency, energy and peak activation memory. ``watch`` is told how many plans were costed."""
    settings = settings or EvolutionSettings(population=48, generations=16)
    with workers(costed, jobs) as executor:
        evaluator = CheckpointEvaluator(costed, problem_of(costed.graph), executor)
        return _search(evaluator, choices, seed, settings, watch)


def exact_points(
    costed: ScheduledCost, *, choices: Sequence[str] = ("keep", "recompute"), watch: Callable[[int], None] | None = None
) -> ScheduledFront:
    """Exact static optima over budgets of kept bytes, each through the schedule with its clones fused and not; nothing
    else is tried, so the front is the best of these. Static means that costs add up: repeated FLOPs, or the time of
    every operator in the plain schedule."""
    if "offload" in choices or "recompute" not in choices:
        raise CheckpointError("--method exact decides between keep, recompute and narrow; use --method ga for the rest")
    narrow = "narrow" in choices
    evaluator = CheckpointEvaluator(costed, problem_of(costed.graph))
    flops = exact_curve(evaluator.problem, narrow=narrow, points=16, most=32)
    time = exact_curve(scheduled_problem(costed), narrow=narrow, points=16, most=17)
    optima: dict[CheckpointPlan, tuple[StaticOptimum, ...]] = {}
    for cost, curve in (("flops", flops), ("time", time)):
        for choice in curve:
            optima[choice.plan] = (*optima.get(choice.plan, ()), StaticOptimum(cost, choice))
    return replace(_fixed(evaluator, optima, flops, watch), optima=optima)


def baseline_points(
    costed: ScheduledCost,
    *,
    given: Mapping[str, CheckpointPlan] | None = None,
    watch: Callable[[int], None] | None = None,
) -> ScheduledFront:
    """The named baselines through the schedule, clones fused and not; nothing is searched. ``given``: more plans by
    name, as one from a file, beside them."""
    evaluator = CheckpointEvaluator(costed, problem_of(costed.graph))
    exact = exact_curve(evaluator.problem, points=16, most=32)
    more = [(name, plan.checked(costed.graph, name)) for name, plan in (given or {}).items()]
    for _, plan in more:
        costed.figures(plan)  # raises with the reason if it cannot be
    found = _fixed(evaluator, [plan for _, plan in (*more, *_baselines(evaluator))], exact, watch)
    points = zip(more, evaluator.all([(plan, True) for _, plan in more]), strict=True)
    return replace(found, baselines=(*((name, point) for (name, _), point in points if point), *found.baselines))


def _fixed(
    evaluator: CheckpointEvaluator,
    plans: Iterable[CheckpointPlan],
    exact: Sequence[Choice],
    watch: Callable[[int], None] | None,
) -> ScheduledFront:
    """The front of some plans alone, with the baselines beside it."""
    plain, interrupted = _plain(evaluator), False
    try:
        for plan in plans:
            evaluator.all([(plan, True), (plan, False)])
            if watch:
                watch(len(evaluator.points))
    except KeyboardInterrupt:  # what there is
        interrupted = True
    tried = dict(evaluator.points)
    found = _collected(evaluator, plain, _baselines(evaluator), (), exact, interrupted)
    return replace(found, front=evaluator.front(tried.values()), evaluated=len(tried))


def _plain(evaluator: CheckpointEvaluator) -> Point:
    (plain,) = evaluator.all([(CheckpointPlan(), True)])
    if plain is None:
        evaluator.costed.figures(CheckpointPlan())  # raises with the reason
        raise RuntimeError("the plain step has no schedule")
    return plain


def _search(
    evaluator: CheckpointEvaluator,
    choices: Sequence[str],
    seed: int,
    settings: EvolutionSettings,
    watch: Callable[[int], None] | None,
) -> ScheduledFront:
    costed, problem = evaluator.costed, evaluator.problem
    treatments = _treatments(costed, problem, choices)
    genes = genes_of(problem, treatments, "recompute" in choices)
    plain = _plain(evaluator)
    exact = exact_curve(problem, narrow="narrow" in choices, points=16, most=32)
    named = _baselines(evaluator) if "recompute" in choices else []
    single_drops: list[tuple[str, Point]] = []
    seeds = [plan for _, plan in named]
    try:
        if "recompute" in choices:
            single_drops = _single_drops(evaluator)
            seeds += [optimum.plan for optimum in exact]
            seeds += [choice.plan for choice in exact_curve(scheduled_problem(costed), points=16, most=17)]
            seeds += greedy_plans(plain, single_drops)
    except KeyboardInterrupt:  # what there is
        return _collected(evaluator, plain, named, single_drops, exact, True)
    for treatment, names in treatments.items():
        largest = sorted(names, key=lambda name: (-costed.saved_bytes.get(name, (0, 0))[0], name))
        seeds += [CheckpointPlan(dict.fromkeys(largest[:many], treatment)) for many in (1, 2, 4, 8, len(largest))]

    def evaluate(genomes: Sequence[Genome]) -> list[Score]:
        plans = ((costed.settled(genes.plan(genome[:-1])), bool(genome[-1])) for genome in genomes)
        found = evaluator.all(plans)
        if watch:
            watch(len(evaluator.points))
        return [evaluator.score(point) for point in found]

    result = evolve(
        (*genes.counts, 2 if "recompute" in choices else 1),
        evaluate,
        seed=seed,
        settings=settings,
        seeds=[(*genes.genome(plan), 1) for plan in dict.fromkeys(seeds)],
        repair=lambda genome: (*genes.repaired(genome[:-1]), genome[-1]),
    )
    return _collected(evaluator, plain, named, single_drops, exact, result.interrupted)


def _treatments(costed: ScheduledCost, problem: CheckpointProblem, choices: Sequence[str]) -> dict[str, frozenset[str]]:
    """Ways to keep besides plain keeping, and the storages that have them."""
    treatments = {}
    if "narrow" in choices:
        treatments["narrow"] = narrowable(problem)
    if "offload" in choices:
        costed.host()
        sizes = {name: size for name, (size, _) in costed.saved_bytes.items()}
        treatments["offload"] = frozenset(name for name, size in sizes.items() if size >= PAGED_BYTES)
    return treatments


def _collected(
    evaluator: CheckpointEvaluator,
    plain: Point,
    named: Sequence[tuple[str, CheckpointPlan]],
    single_drops: Sequence[tuple[str, Point]],
    exact: Sequence[Choice],
    interrupted: bool,
) -> ScheduledFront:
    front = evaluator.front(evaluator.points.values())
    points = evaluator.all([(plan, True) for _, plan in named])
    baselines = tuple((name, point) for (name, _), point in zip(named, points, strict=True) if point)
    count, capacity = len(evaluator.points), evaluator.dram.capacity_bytes
    return ScheduledFront(plain, front, baselines, tuple(single_drops), tuple(exact), count, interrupted, capacity)


def _baselines(evaluator: CheckpointEvaluator) -> list[tuple[str, CheckpointPlan]]:
    """Named plans, those that equal an earlier one left out."""
    found: dict[CheckpointPlan, str] = {}
    for baseline in BASELINES:
        found.setdefault(baseline.plan(evaluator.costed.graph, evaluator.problem), baseline.name)
    return [(name, plan) for plan, name in found.items()]


def _single_drops(evaluator: CheckpointEvaluator) -> list[tuple[str, Point]]:
    """Every saved storage recomputed alone."""
    names = sorted(evaluator.problem.saved)
    points = evaluator.all([(CheckpointPlan.dropping([name]), True) for name in names])
    return [(name, point) for name, point in zip(names, points, strict=True) if point]
