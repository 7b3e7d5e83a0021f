"""Mining a template for workloads: candidates, best-first search, evaluations kept in a store, what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from monet.errors import MonetError
from monet.hardware.power import full_use_power_w
from monet.schedule.planning.default_plan import FUSIONS
from monet.schedule.workload import Workload as Analysed
from monet.schedule.workload import workload_of
from monet.search.hardware.engine import EVALUATE, Engine, local
from monet.search.hardware.evaluation import graph_of
from monet.search.hardware.record import Record
from monet.search.hardware.samplers import answered
from monet.search.hardware.space import Space, Values
from monet.search.hardware.store import open_store
from monet.search.hardware.workload import Workload
from monet.search.mining.best_first import BestFirst
from monet.search.mining.bounds import Bounded, bounded, closely_bounded
from monet.search.mining.candidates import candidates
from monet.search.mining.feasibility import excluded, nothing_feasible
from monet.search.mining.metrics import Metric
from monet.search.mining.templates import Limits, Template
from monet.training.options import without_hardware

FRONT_AREAS = (0.7, 0.4)  # shares of the best design's area at which smaller ones are looked for


@dataclass(frozen=True, slots=True)
class Problem:
    """What is mined: a template, workloads with their weights, limits, a metric, floors of throughput."""

    template: Template
    workloads: Mapping[str, Workload]
    limits: Limits
    metric: str = "throughput"
    floor: float = 0.0  # samples per second that every workload has to reach

    @property
    def goal(self) -> Metric:
        """The metric with the workloads' weights."""
        return Metric(self.metric, tuple(workload.weight for workload in self.workloads.values()))

    @property
    def in_order(self) -> bool:
        """Whether all workloads run by a default plan, which keeps the graph's order."""
        return all(workload.fusion in FUSIONS for workload in self.workloads.values())

    def floors_s(self) -> dict[str, float]:
        """Latency that each workload may take at most."""
        if not self.floor:
            return {}
        return {name: samples(workload) / self.floor for name, workload in self.workloads.items()}

    def space(self) -> Space:
        """The designs within limits as a space."""
        further = [f"{name}.latency_s <= {most!r}" for name, most in self.floors_s().items()]
        # bounds are of one implementation of attention, so designs are evaluated with that one
        workloads = {
            name: replace(workload, attention=without_hardware(workload.attention))
            for name, workload in self.workloads.items()
        }
        return self.template.space(workloads, self.limits, self.goal.objective, further)

    def cost(self, record: Record) -> float:
        """Cost of an evaluated design."""
        return self.goal.of_record(record.metrics, tuple(self.workloads))

    def fits(self, space: Space, values: Values) -> bool:
        """Whether a design is within area and power."""
        accelerator = space.hardware(values)
        return not self.limits.over(accelerator.area_m2 * 1e6, full_use_power_w(accelerator))


def samples(workload: Workload) -> int:
    """Samples of a step."""
    return workload.batch or 1


@dataclass(frozen=True)
class Mining:
    """What a search found."""

    problem: Problem
    space: Space
    method: str
    records: tuple[Record, ...]  # evaluated, in order
    search: BestFirst | None  # of the method that proves
    seconds: float
    cpu_seconds: float
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    bounds: dict[str, Bounded] = field(default_factory=dict, compare=False)

    def cost(self, record: Record) -> float:
        """Cost of an evaluated design."""
        return self.problem.cost(record)

    @property
    def ranked(self) -> tuple[Record, ...]:
        """Designs with figures, best first."""
        found = {self.space.key(record.values): record for record in self.records if record.ok}
        return tuple(sorted(found.values(), key=lambda record: (self.cost(record), record.metrics["area_mm2"])))

    @property
    def best(self) -> Record | None:
        """The best design found."""
        return self.ranked[0] if self.ranked else None

    @property
    def gap(self) -> float | None:
        """By what share of the best's cost a better design may be cheaper; None where the method proves nothing."""
        return self.search.gap if self.search else None

    def front(self) -> tuple[Record, ...]:
        """Designs that no other one beats in cost and area, largest first."""
        kept: list[Record] = []
        smallest_area = math.inf
        for record in self.ranked:
            if record.metrics["area_mm2"] < smallest_area:
                smallest_area = record.metrics["area_mm2"]
                kept.append(record)
        return tuple(kept)

    def bound(self, record: Record) -> Bounded:
        """Bounds of an evaluated design."""
        key = self.space.key(record.values)
        if key not in self.bounds:
            workloads, in_order = analysed(self.problem.workloads), self.problem.in_order
            found = bounded(self.space.hardware(record.values), workloads, in_order=in_order)
            self.bounds[key] = closely_bounded(found, workloads) if in_order else found
        return self.bounds[key]


def analysed(workloads: Mapping[str, Workload]) -> dict[str, Analysed]:
    """Workloads as the scheduler sees them."""
    return {name: workload_of(graph_of(workload)) for name, workload in workloads.items()}


@dataclass
class Bench:
    """Where designs are evaluated: a store, and processes that fill it."""

    space: Space
    path: str
    jobs: int = 1
    resume: bool = False
    function: str = EVALUATE

    @contextmanager
    def opened(self) -> Iterator[Callable[[list[Values]], list[Record]]]:
        """A function that evaluates designs, while it is open."""
        from monet.schedule.evaluation import model_version

        with (
            local(self.jobs) as (make, slots),
            open_store(self.path, self.space, model_version(), resume=self.resume) as store,
        ):
            engine = Engine(store, make, slots, function=self.function)
            try:
                yield engine.evaluate
            finally:
                engine.stop()


Watch = Callable[[int, int, float, float], None]  # evaluated, at most, best cost, gap


def mine(
    problem: Problem,
    store_path: str,
    *,
    evaluations: int = 60,
    slack: float = 0.0,
    patience: int = 0,
    jobs: int = 1,
    resume: bool = False,
    front: bool = True,
    start: Sequence[Values] = (),
    watch: Watch = lambda *_: None,
) -> Mining:
    """Best-first mining of a template. The same design whatever ``jobs``, and whether it was interrupted. ``start``:
    designs that are evaluated first, as many as ``evaluations`` allow."""
    began, cpu = time.monotonic(), time.process_time()
    space, workloads = problem.space(), analysed(problem.workloads)
    found = candidates(
        space,
        workloads,
        _metres(problem.limits.area_mm2),
        problem.limits.tdp_w or math.inf,
        in_order=problem.in_order,
    )
    search = BestFirst(
        found,
        workloads,
        problem.goal,
        problem.limits,
        evaluations,
        slack,
        problem.floors_s(),
        patience,
        problem.in_order,
    )
    records, interrupted = dict[str, Record](), False
    with Bench(space, store_path, jobs, resume).opened() as evaluate:
        try:
            for record in evaluate(list(start[:evaluations])) if start else ():
                records[space.key(record.values)] = record
            search.know(tuple(records.values()))
            for record in answered(search.search(), evaluate):
                records[space.key(record.values)] = record
                watch(len(records), evaluations, search.best, search.gap)
            if front and math.isfinite(search.best):
                smaller = _smaller(search, records, space, evaluate)
                records |= {space.key(record.values): record for record in smaller}
                search.know(smaller)
        except KeyboardInterrupt:
            interrupted = True
    search.tighten()
    if not math.isfinite(search.best) and not interrupted:
        raise MonetError(_nothing_found(problem, space, search, tuple(records.values())))
    spent = time.process_time() - cpu + sum(record.seconds for record in records.values())
    return Mining(
        problem, space, "bound", tuple(records.values()), search, time.monotonic() - began, spent, interrupted
    )


def _metres(area_mm2: float | None) -> float:
    return math.inf if area_mm2 is None else area_mm2 * 1e-6


def _smaller(
    search: BestFirst,
    records: Mapping[str, Record],
    space: Space,
    evaluate: Callable[[list[Values]], list[Record]],
) -> Sequence[Record]:
    """Designs that look best with less area than the best found: the rest of the front."""
    best = min(
        (record for record in records.values() if record.ok),
        key=lambda r: search.metric.of_record(r.metrics, tuple(search.workloads)),
    )
    points = {}
    for share in FRONT_AREAS:
        for values in search.below_area(share * best.metrics["area_mm2"] * 1e-6):
            points[space.key(values)] = values
    return evaluate(list(points.values())) if points else []


# --- nothing feasible -------------------------------------------------------------------------------------------------


def _nothing_found(problem: Problem, space: Space, search: BestFirst, records: Sequence[Record]) -> str:
    """Which limit excludes every design, and what the smallest one needs."""
    floors, slow = problem.floors_s(), []
    for name, least in zip(problem.workloads, search.candidates.latency_s, strict=True):
        fastest = float(least.min(initial=np.inf))
        if np.isfinite(fastest) and fastest > floors.get(name, np.inf):
            rate = samples(problem.workloads[name]) / fastest
            slow.append(
                f"floor: no design within area and power runs {name} faster than {rate:.4g} samples/s, "
                f"the floor is {problem.floor:g} (--floor)"
            )
    return nothing_within(problem, space, records, slow)


def nothing_within(problem: Problem, space: Space, records: Sequence[Record], slow: Sequence[str] = ()) -> str:
    """The same without bounds on time: area, power, or what stops the designs that were tried."""
    reasons = [record.reason for record in records if not record.ok]
    said = excluded(space, problem.limits) or list(slow) or reasons[:1] or ["area and power leave no design"]
    return nothing_feasible(problem.template.name, said)
