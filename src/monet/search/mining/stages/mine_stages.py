"""Mining for a pipeline: every kind of stage by itself, its best designs kept, then the global choice among them.

A design that is evaluated is costed on every kind of stage, so the search of one stage serves the others, and the
global choice needs no further schedules where layers are alike. The same designs whatever
``jobs``, and whether interrupted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from monet.errors import MonetError
from monet.search.hardware.evaluation import evaluate as evaluate_here
from monet.search.hardware.pipeline_stages import StageFigures, grown_to
from monet.search.hardware.record import Point, Record
from monet.search.hardware.samplers import answered
from monet.search.hardware.space import Space, Values
from monet.search.mining.best_first import BestFirst
from monet.search.mining.candidates import Candidates, candidates
from monet.search.mining.feasibility import check_feasible
from monet.search.mining.mine import Bench
from monet.search.mining.stages.choice import Chooser, Chosen, Cuts, choose, costed_stages
from monet.search.mining.stages.problem import StageProblem

LEAST_EVALUATIONS = 8  # of each kind of stage
MOST_TIGHTENED = 64  # bounds of a stage's designs made exact to say how far its search may be from the optimum


@dataclass(frozen=True)
class StageSearch:
    """The search of one kind of stage."""

    kind: int
    stages: tuple[int, ...]  # that are of this kind
    layers: int
    search: BestFirst
    top: tuple[Record, ...]  # best first


@dataclass(frozen=True)
class StageMining:
    """What was found."""

    problem: StageProblem
    space: Space
    top_k: int
    kinds: tuple[StageSearch, ...]
    chosen: Chosen
    records: tuple[Record, ...]
    tried: int  # choices that were costed
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    interrupted: bool = False


Watch = Callable[[str, int, int], None]  # what is being done, designs evaluated, at most


def mine_stages(
    problem: StageProblem,
    store_path: str,
    *,
    top: int = 10,
    evaluations: int = 60,
    slack: float = 0.0,
    jobs: int = 1,
    resume: bool = False,
    notes: Sequence[str] = (),
    watch: Watch = lambda *_: None,
) -> StageMining:
    """Mine a template for every stage of a pipeline, keep the ``top`` designs of each, and choose among them."""
    began, cpu = time.monotonic(), time.process_time()
    pipeline, space = problem.pipeline, problem.space()
    kinds = sorted(set(pipeline.kinds))
    budget = max(LEAST_EVALUATIONS, evaluations // len(kinds))
    watch("bounding all designs", 0, budget * len(kinds))
    works = problem.bounded_workloads()
    area = math.inf if problem.limits.area_mm2 is None else problem.limits.area_mm2 * 1e-6
    found = candidates(space, works, area, problem.limits.tdp_w or math.inf)
    if not len(found):
        check_feasible(problem.template.name, space, problem.limits)
    records: dict[str, Record] = {}
    searches: list[BestFirst] = []
    interrupted = False
    with Bench(space, store_path, jobs, resume).opened() as evaluate:
        try:
            for place, name in enumerate(works):
                search = BestFirst(_only(found, place), {name: works[name]}, problem.goal, problem.limits, 0, slack)
                search.know(tuple(records.values()))
                search.most = len(search.evaluated) + budget
                searches.append(search)
                _mined(search, space, evaluate, records, lambda done, at=place: watch(  # type: ignore[misc]
                    f"stage kind {at + 1} of {len(kinds)}", done, budget * len(kinds)))  # fmt: skip
        except KeyboardInterrupt:
            interrupted = True
    if not any(record.ok for record in records.values()) and not interrupted:
        raise MonetError(_nothing(problem, tuple(records.values())))
    watch("choosing designs for all stages", len(records), len(records))
    chosen = _chosen(problem, space, tuple(records.values()), searches, top)
    return replace(
        chosen,
        seconds=time.monotonic() - began,
        cpu_seconds=time.process_time() - cpu + sum(record.seconds for record in records.values()),
        notes=tuple(notes),
        interrupted=interrupted,
    )


def _mined(
    search: BestFirst,
    space: Space,
    evaluate: Callable[[list[Values]], list[Record]],
    records: dict[str, Record],
    said: Callable[[int], None],
) -> None:
    said(len(records))
    for record in answered(search.search(), evaluate):
        records[space.key(record.values)] = record
        said(len(records))


def _only(found: Candidates, place: int) -> Candidates:
    """Candidates with the bounds of one workload."""
    one = slice(place, place + 1)
    return replace(
        found,
        latency_s=found.latency_s[one],
        by_dram=found.by_dram[one],
        energy_j=found.energy_j[one],
        estimate_s=found.estimate_s[one],
        shares=found.shares[one],
    )


def _chosen(
    problem: StageProblem, space: Space, records: Sequence[Record], searches: Sequence[BestFirst], top: int
) -> StageMining:
    """The global choice among the best designs of every kind of stage."""
    pipeline = problem.pipeline
    usable = [record for record in records if record.ok]
    kinds = [_kind(problem, number, search, usable, top) for number, search in enumerate(searches)]
    chooser = Chooser(pipeline, Profiles(problem, space).at, problem.metric, _capacity(space), problem.floor)
    chosen = choose(chooser, [kind.top for kind in kinds], top if usable else 0)
    return StageMining(problem, space, top, tuple(kinds), chosen, tuple(records), chooser.tried)


def _kind(problem: StageProblem, number: int, search: BestFirst, usable: Sequence[Record], top: int) -> StageSearch:
    pipeline, name = problem.pipeline, f"stage{number}"
    search.know(usable)
    search.tighten(MOST_TIGHTENED)
    ranked = sorted(
        usable, key=lambda record: (problem.goal.of_record(record.metrics, (name,)), record.metrics["area_mm2"])
    )
    stages = tuple(stage for stage, kind in enumerate(pipeline.kinds) if kind == number)
    return StageSearch(number, stages, len(pipeline.spans()[stages[0]]), search, tuple(ranked[:top]))


def _capacity(space: Space) -> float:
    return space.hardware(next(space.points())).dram.capacity_bytes


class Profiles:
    """Figures of all stages on a design: from its record, or where layers are unlike and cut elsewhere, costed here."""

    def __init__(self, problem: StageProblem, space: Space) -> None:
        self.problem, self.pipeline, self.space = problem, problem.pipeline, space
        self.known: dict[tuple[Point, Cuts], tuple[StageFigures, ...] | None] = {}
        self.spaces: dict[Cuts, Space] = {self.pipeline.cuts: space}

    def at(self, record: Record, cuts: Cuts) -> tuple[StageFigures, ...] | None:
        """By stage; None if the design cannot run one of them."""
        key = record.point, cuts
        if key not in self.known:
            self.known[key] = self._at(record, cuts)
        return self.known[key]

    def _at(self, record: Record, cuts: Cuts) -> tuple[StageFigures, ...] | None:
        if cuts != self.pipeline.cuts and not self.pipeline.coster.repeats:
            if cuts not in self.spaces:
                self.spaces[cuts] = self.problem.space(cuts)
            record = evaluate_here(self.spaces[cuts].text, record.values)
            if not record.ok:
                return None
        spans = zip(self.pipeline.kinds, self.pipeline.spans(cuts), strict=True)
        return tuple(grown_to(costed_stages(record.metrics, kind), len(span)) for kind, span in spans)


def _nothing(problem: StageProblem, records: Sequence[Record]) -> str:
    reasons = sorted({record.reason for record in records if record.reason})
    more = f": {reasons[0]}" if reasons else ""
    return (
        f"{problem.template.name}: none of the {len(records)} designs tried can run the stages of {problem.name}{more}"
    )
