"""Joint mining: the design together with how the model is trained on it: number format, checkpoint plan, batch.

Every combination of options is a search of its own over all designs, and all share the best found, per sample. The
combination that looks best is searched on, a few designs at a time; one whose smallest bound is not below the best is
cut whole. What is cut is proved; each step says what was done, and by which bound something was cut. A design that is
the best so far is tried with the options of every combination that was looked at, and first in one that is looked at
later: else options would seem better or worse by which designs they were tried on.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from monet.errors import MonetError
from monet.search.hardware.record import Record
from monet.search.hardware.samplers import answered
from monet.search.hardware.space import Space, Values, changed_workload
from monet.search.mining.best_first import BATCH, CUT, OPEN, BestFirst
from monet.search.mining.bounds import bounded, closely_bounded
from monet.search.mining.candidates import candidates
from monet.search.mining.mine import Bench, Problem, analysed, nothing_within, samples

TIGHTENED = 24  # bounds of a combination made exact before it is asked whether it is cut
LAST_TIGHTENED = 256  # and at the end, to say how far from the optimum it may be
MOST_COMBINATIONS = 256


@dataclass
class Combination:
    """One choice of options, and the search over designs for it. Costs are per sample."""

    options: Mapping[str, Any]
    problem: Problem
    search: BestFirst | None
    state: str = "open"  # open, cut, cannot run, done
    why: str = ""

    @property
    def text(self) -> str:
        """The options on one line."""
        return ", ".join(f"{name} {value or 'usual'}" for name, value in self.options.items())

    @property
    def scale(self) -> float:
        """What a cost of a step is divided by: samples, as often as seconds are in it."""
        goal, workloads = self.problem.goal, self.problem.workloads.values()
        shares = np.array(goal.weights) / sum(goal.weights)
        mean = math.exp(float(np.dot(shares, np.log([samples(workload) for workload in workloads]))))
        return mean**2 if goal.name == "edp" else mean

    @property
    def least(self) -> float:
        """The smallest bound of what is open, per sample."""
        assert self.search is not None
        return float(self.search.bound[self.search.state == OPEN].min(initial=np.inf)) / self.scale

    @property
    def lowest(self) -> float:
        """The smallest bound of what was not evaluated, cut or not, per sample; infinite if nothing is left."""
        assert self.search is not None
        left = np.isin(self.search.state, (OPEN, CUT))
        return float(self.search.bound[left].min(initial=np.inf)) / self.scale

    @property
    def promise(self) -> float:
        """How good its best open design looks, per sample: its guess, corrected by how far guesses were off so far."""
        assert self.search is not None
        known = self.search
        guess = float(known.guess[known.state == OPEN].min(initial=np.inf)) / self.scale
        costs = np.array(known.costs) / known.guess[known.evaluated] if known.evaluated else np.ones(1)
        finite = costs[np.isfinite(costs)]
        return guess * (float(np.exp(np.log(finite).mean())) if len(finite) else 1.0)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the search."""

    number: int
    evaluations: int  # so far
    combination: str
    did: str
    best: float  # per sample, after it


@dataclass(frozen=True)
class JointMining:
    """What was found."""

    problem: Problem
    space: Space  # designs and options
    options: Mapping[str, Sequence[Any]]
    combinations: tuple[Combination, ...]
    records: tuple[Record, ...]
    costs: Mapping[str, float]  # per sample, by key of the space
    steps: tuple[Step, ...]
    seconds: float
    cpu_seconds: float
    interrupted: bool = False

    @property
    def ranked(self) -> tuple[Record, ...]:
        """Designs with options, best first; of equal ones, options in the order in which they were given."""
        usable = [record for record in self.records if math.isfinite(self.cost(record))]
        return tuple(sorted(usable, key=lambda each: (self.cost(each), each.metrics["area_mm2"], *self._places(each))))

    def _places(self, record: Record) -> Iterator[int]:
        return (list(values).index(record.values[name]) for name, values in self.options.items())

    def cost(self, record: Record) -> float:
        """Cost per sample."""
        return self.costs[self.space.key(record.values)]

    @property
    def best(self) -> Record | None:
        """The best design with its options."""
        return self.ranked[0] if self.ranked else None

    @property
    def gap(self) -> float:
        """By what share of the best's cost something better may be cheaper, over all combinations."""
        return max((each.search.gap for each in self.combinations if each.search), default=1.0)

    def front(self) -> tuple[Record, ...]:
        """Designs with options of which none is both smaller and better, largest first."""
        found: list[Record] = []
        for record in self.ranked:
            if not found or record.metrics["area_mm2"] < found[-1].metrics["area_mm2"]:
                found.append(record)
        return tuple(found)

    def limits(self, record: Record) -> dict[str, str]:
        """By workload what bounds a design with its options."""
        chosen = {name: record.values[name] for name in self.options}
        own = next(each for each in self.combinations if dict(each.options) == chosen)
        assert own.search is not None
        hardware = self.space.hardware(record.values)
        found = bounded(hardware, own.search.workloads, in_order=own.problem.in_order)
        found = closely_bounded(found, own.search.workloads) if own.problem.in_order else found
        return {name: step.limit for name, step in found.steps.items()}

    def workloads(self, record: Record) -> dict[str, int]:
        """Samples of a step by workload of a record."""
        return {name: samples(workload) for name, workload in self.space.workloads_at(record.values).items()}


@dataclass
class _Search:
    """The state of the search over combinations."""

    combinations: list[Combination]
    evaluate: Callable[[Combination, list[Values]], list[Record]]
    most: int
    slack: float
    watch: Callable[[int, int, float, str], None]
    best: float = math.inf
    design: Values | None = None  # the best so far
    evaluations: int = 0
    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        """Until nothing is open or enough was evaluated."""
        for each in self.combinations:
            if each.search is None:
                self._say(each, f"cannot run: {each.why}")
        while self.evaluations < self.most:
            self._cut()
            waiting = [each for each in self.combinations if each.state == "open"]
            if not waiting:
                return
            self._go_on(min(waiting, key=lambda each: each.promise))

    def _cut(self) -> None:
        """Close combinations whose smallest bound is not below the best."""
        for each in self.combinations:
            if each.state != "open" or each.search is None or not math.isfinite(self.best):
                continue
            each.search.best = min(each.search.best, self.best * each.scale)
            each.search.tighten(TIGHTENED)
            if each.least < (1 - self.slack) * self.best:
                continue
            spent, (limit, _) = len(each.search.evaluated), each.search.cut_by.most_common(1)[0]
            each.state = "done" if spent else "cut"
            each.why = f"its smallest bound is {each.lowest / self.best:.3g} of the best, most are cut by {limit}"
            self._say(each, f"proved: {each.why}" if spent else f"cut whole: {each.why}")

    def _go_on(self, chosen: Combination) -> None:
        """Evaluate the next few designs of a combination."""
        search, before = chosen.search, self.best
        assert search is not None
        promise = chosen.promise
        tried = 0 if search.evaluated else self._try_best(chosen)
        known = self.best
        search.most = len(search.evaluated) + min(BATCH - tried, self.most - self.evaluations)
        count = sum(1 for _ in answered(search.search(), lambda points: self.evaluate(chosen, points)))
        self.evaluations += count
        if not count + tried:
            chosen.state, chosen.why = "done", "nothing is left that could be better"
            self._say(chosen, chosen.why)
            return
        best = min(search.costs) / chosen.scale
        self.best = min(known, best)
        gained = f", best {best:.4g} per sample" if best < known else ""
        if count:
            self._say(chosen, f"looked best ({promise:.4g} per sample): {count} designs evaluated{gained}")
        self.watch(self.evaluations, self.most, self.best, chosen.text)
        if best < before:
            self.design = search.best_design()
            for other in self.combinations:
                if other is not chosen and other.state == "open" and other.search and other.search.evaluated:
                    self._try_best(other)

    def _try_best(self, chosen: Combination) -> int:
        """Evaluate the best design so far with other options, unless it is known that it is no better with these;
        how many evaluations that took."""
        search = chosen.search
        if search is None or self.design is None or self.evaluations >= self.most:
            return 0
        search.best = min(search.best, self.best * chosen.scale)
        if not search.worth_trying(self.design):
            return 0
        search.know(self.evaluate(chosen, [self.design]))
        self.evaluations += 1
        cost = search.costs[-1] / chosen.scale
        said = f"{cost / self.best:.4g}× the best" if math.isfinite(cost) else "cannot run"
        self._say(chosen, f"the best design so far, with these options: {said}")
        self.best = min(self.best, cost)
        return 1

    def _say(self, each: Combination, did: str) -> None:
        self.steps.append(Step(len(self.steps) + 1, self.evaluations, each.text, did, self.best))


def combinations_of(problem: Problem, options: Mapping[str, Sequence[Any]]) -> list[Combination]:
    """Every combination of options with the search over designs for it; options that no design can do say why."""
    count = math.prod(len(values) for values in options.values())
    if count > MOST_COMBINATIONS:
        raise MonetError(f"--joint: {count:,} combinations, more than {MOST_COMBINATIONS}; give fewer values")
    found = []
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        changed = {name: changed_workload(workload, chosen) for name, workload in problem.workloads.items()}
        own = replace(problem, workloads=changed)
        try:
            found.append(Combination(chosen, own, _search(own)))
        except MonetError as error:
            found.append(Combination(chosen, own, None, "cannot run", " ".join(str(error).split())))
    return found


def _search(problem: Problem) -> BestFirst:
    area = math.inf if problem.limits.area_mm2 is None else problem.limits.area_mm2 * 1e-6
    workloads = analysed(problem.workloads)
    every = candidates(
        problem.space(), workloads, area, problem.limits.tdp_w or math.inf, in_order=problem.in_order
    )  # fmt: skip
    return BestFirst(
        every, workloads, problem.goal, problem.limits, 0, 0.0, problem.floors_s(), 0, problem.in_order
    )  # fmt: skip


def mine_jointly(
    problem: Problem,
    options: Mapping[str, Sequence[Any]],
    store_path: str,
    *,
    evaluations: int = 60,
    slack: float = 0.0,
    jobs: int = 1,
    resume: bool = False,
    watch: Callable[[int, int, float, str], None] = lambda *_: None,
) -> JointMining:
    """Mine designs and options together. The same whatever ``jobs``, and whether it was interrupted."""
    began, cpu = time.monotonic(), time.process_time()
    space = problem.template.space(problem.workloads, problem.limits, problem.goal.objective, (), None, options)
    combinations, interrupted = combinations_of(problem, options), False
    for each in combinations:
        if each.search is not None:
            each.search.slack = slack
    records: dict[str, Record] = {}
    costs: dict[str, float] = {}
    with Bench(space, store_path, jobs, resume).opened() as evaluate:

        def evaluated(chosen: Combination, points: list[Values]) -> list[Record]:
            found = [_floored(chosen, record) for record in evaluate([{**point, **chosen.options} for point in points])]
            for record in found:
                key = space.key(record.values)
                records[key] = record
                costs[key] = chosen.problem.cost(record) / chosen.scale if record.ok else math.inf
            return found

        search = _Search(combinations, evaluated, evaluations, slack, watch)
        try:
            search.run()
        except KeyboardInterrupt:
            interrupted = True
    for each in combinations:
        if each.search is not None and math.isfinite(search.best):
            each.search.best = min(each.search.best, search.best * each.scale)
            each.search.tighten(LAST_TIGHTENED)
    if not math.isfinite(search.best) and not interrupted:
        raise MonetError(_nothing(problem, combinations, tuple(records.values())))
    spent = time.process_time() - cpu + sum(record.seconds for record in records.values())
    return JointMining(
        problem, space, options, tuple(combinations), tuple(records.values()), costs, tuple(search.steps),
        time.monotonic() - began, spent, interrupted,
    )  # fmt: skip


def _floored(chosen: Combination, record: Record) -> Record:
    """A record that is below the floor of throughput is none."""
    late = [
        name
        for name, most in chosen.problem.floors_s().items()
        if record.ok and record.metrics[f"{name}.latency_s"] > most
    ]
    return replace(record, status="infeasible", reason=f"floor: {late[0]} is too slow") if late else record


def _nothing(problem: Problem, combinations: Sequence[Combination], records: Sequence[Record]) -> str:
    """Which limit excludes every design, or why no combination can run."""
    reasons = [f"{each.text}: {each.why}" for each in combinations if each.why][:3]
    return nothing_within(problem, problem.space(), records, reasons)
