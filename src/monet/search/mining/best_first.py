"""Best-first mining: designs that look best are evaluated, those whose bound is above the best found are cut.

What is cut is proved: no plan on it is better. What is left open has a bound below the best, and the smallest of these
is how far from the optimum the search may have stopped. Bounds come in two steps: for all designs at once
(``candidates``), then exactly for a design whose turn it is (``bounds``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monet.arrays import I64
from monet.errors import MonetError
from monet.schedule.workload import Workload
from monet.search.hardware.record import Record
from monet.search.hardware.samplers import Search
from monet.search.hardware.space import Values
from monet.search.mining.bounds import Bounded, bounded, closely_bounded
from monet.search.mining.candidates import Candidates
from monet.search.mining.clock import clocked
from monet.search.mining.looks import IDLE, OF_ARRAY, OF_DRAM, OF_LANES, Looks
from monet.search.mining.metrics import Metric
from monet.search.mining.surrogate import Designs
from monet.search.mining.templates import Limits

BATCH = 4  # designs evaluated before the next are chosen, whatever the number of processes
FIRST_CLOCKED, MOST_CLOCKED = 40, 12  # designs that the planner's clock is asked of before the first batch, any other
CLOCKED_AT_ONCE = 4
WORTHWHILE = 0.01  # share by which a design has to be better to count as progress
MOST_REFINED = 4_000  # designs whose bound is made exact to say how far the search may be from the optimum

OPEN, CUT, OVER, EVALUATED, IMPOSSIBLE = range(5)
STATES = ("open", "cut by the bound", "over a limit", "evaluated", "cannot run")


@dataclass
class BestFirst:
    """The state of a search over candidates."""

    candidates: Candidates
    workloads: Mapping[str, Workload]
    metric: Metric
    limits: Limits
    most: int  # evaluations
    slack: float = 0.0  # a design must be better by this share to be looked at
    floor_s: Mapping[str, float] = field(default_factory=dict)  # latency that a workload may take at most
    patience: int = 0  # evaluations without progress after which it ends, unless a proof is in reach; 0: goes on
    in_order: bool = True  # plans keep the graph's order, as default ones do
    best: float = np.inf
    evaluated: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    cut_by: Counter[str] = field(default_factory=Counter)
    history: list[tuple[int, float, float]] = field(default_factory=list)  # evaluations, best, smallest open bound

    def __post_init__(self) -> None:
        found = self.candidates
        self.state = np.zeros(len(found), np.int8)
        self.progress_at, self.progress = 0, np.inf  # evaluations, and the best, when it last got clearly better
        self.exact = np.zeros(len(found), bool)
        self.bound = self.metric.cost(found.latency_s, found.watts, found.energy_j)
        self.guess = np.maximum(self.metric.cost(found.estimate_s, found.watts, found.energy_j), self.bound)
        slowest = np.argmax(found.latency_s, axis=0)
        self.by_dram = np.take_along_axis(found.by_dram, slowest[None], axis=0)[0] > 0
        doubt = [OF_ARRAY if array else OF_LANES for array in found.arrays]
        shares = np.tensordot(self.metric.shares, found.shares, 1).T
        designs = Designs(found.choice.astype(float), shares, found.deciding)
        self.looks = Looks(designs, np.array([*doubt, OF_DRAM]), self.guess, found.area_m2)
        for name, least in zip(self.workloads, found.latency_s, strict=True):
            self.state[least > self.floor_s.get(name, np.inf)] = OVER
        self.cut_by["floor"] += int((self.state == OVER).sum())

    # --- the search -------------------------------------------------------------------------------------------------

    def search(self) -> Search:
        """Batches of designs to evaluate; is sent their records."""
        while len(self.evaluated) < self.most and not self._settled():
            rows = self._next(min(BATCH, self.most - len(self.evaluated)))
            if not rows:
                return
            records = yield [self.candidates.values(row) for row in rows]
            self._learn(rows, records)

    def _settled(self) -> bool:
        """Whether nothing better has come for long, and all that is open cannot be evaluated either."""
        if not self.patience or len(self.evaluated) < self.progress_at + self.patience:
            return False
        left, rows = self.most - len(self.evaluated), self._worth()
        if len(rows) <= MOST_REFINED:
            for row in rows.tolist():
                self._look(row)
            rows = self._worth()
        return len(rows) > left

    def _next(self, count: int) -> list[int]:
        """The designs that look best and may be better than the best found; each chosen as if those before it had come
        out as they are expected to, so that a batch does not ask the same thing several times."""
        self._ask_clock(MOST_CLOCKED if self.looks.clocked else FIRST_CLOCKED)
        chosen: list[int] = []
        while len(chosen) < count and len(rows := np.setdiff1d(self._worth(), chosen)):
            for row in self.looks.ranked(rows, chosen).tolist():
                if self._look(row):
                    self._clock(row)
                    chosen.append(row)
                    break
        return chosen

    def _ask_clock(self, most: int) -> None:
        """The planner's clock of the best looking designs that it was not asked of, whatever is better than they look:
        else a search stays with designs like the first good one until nothing like it is left."""
        while most > 0:
            worth = self._worth()
            unknown = worth[np.isnan(self.looks.delay[worth])]
            fresh = 0
            for row in self.looks.ranked(unknown).tolist() if len(unknown) else ():
                if self._look(row) and np.isnan(self.looks.delay[row]):
                    self._clock(row)
                    fresh += 1
                if fresh == min(most, CLOCKED_AT_ONCE):
                    break
            if not fresh:
                return
            most -= fresh

    def _clock(self, row: int) -> None:
        """What the planner's clock says of a design."""
        if np.isfinite(self.looks.delay[row]):
            return
        found = self.candidates
        hardware = found.space.hardware(found.values(row))
        steps = [clocked(workload, hardware) for workload in self.workloads.values()]
        seconds = np.array([step for step, _ in steps])
        working = [max(cores[name] / step for step, cores in steps) > IDLE for name in found.space.base["cores"]]
        cost = self.metric.cost(seconds, found.watts[row], np.maximum(found.energy_j[:, row], 1e-300))
        self.looks.clock(row, float(cost), working)

    def _worth(self) -> I64:
        """Open designs whose bound is below the best found; the others are cut."""
        worth = self.bound < self.best * (1 - self.slack)
        cut = (self.state == OPEN) & ~worth
        by_dram = int(self.by_dram[cut].sum())
        self.cut_by["DRAM"] += by_dram
        self.cut_by["cores"] += int(cut.sum()) - by_dram
        self.state[cut] = CUT
        return np.flatnonzero(self.state == OPEN)

    def _look(self, row: int) -> bool:
        """Whether a design, looked at alone, is within limits and may still be better than the best found."""
        if not self.exact[row]:
            self._refine(row)
        if self.state[row] == OPEN and self.bound[row] >= self.best * (1 - self.slack):
            self.state[row] = CUT
        return bool(self.state[row] == OPEN)

    def _refine(self, row: int) -> None:
        self.exact[row] = True
        fresh = self.state[row] == OPEN
        try:
            hardware = self.candidates.space.hardware(self.candidates.values(row))
            design = bounded(hardware, self.workloads, in_order=self.in_order)
        except MonetError:
            self.state[row] = IMPOSSIBLE
            return
        over = self.limits.over(design.area_m2 * 1e6, design.tdp_w)
        late = [name for name, step in design.steps.items() if step.latency_s > self.floor_s.get(name, np.inf)]
        if over or late:
            self.state[row] = OVER
            self.cut_by[over[0] if over else "floor"] += int(fresh)
            return
        self.bound[row] = max(self.bound[row], self._cost(design))
        if self.in_order and self.bound[row] < self.best * (1 - self.slack):
            design = closely_bounded(design, self.workloads)
            self.bound[row] = max(self.bound[row], self._cost(design))
        if self.bound[row] >= self.best * (1 - self.slack):
            self.state[row] = CUT
            limit = max(design.steps.values(), key=lambda step: step.latency_s).limit
            self.by_dram[row] = limit in ("DRAM", "links")
            self.cut_by[limit] += int(fresh)

    def _cost(self, design: Bounded) -> float:
        latency = np.array([step.latency_s for step in design.steps.values()])
        energy = np.array([step.energy_j for step in design.steps.values()])
        return float(self.metric.cost(latency, np.array(design.tdp_w), energy))

    def _learn(self, rows: Sequence[int], records: Sequence[Record]) -> None:
        for row, record in zip(rows, records, strict=True):
            self.state[row] = EVALUATED if record.ok else IMPOSSIBLE
            self.evaluated.append(row)
            cost = self.metric.of_record(record.metrics, tuple(self.workloads)) if record.ok else np.inf
            self.costs.append(cost)
            self.looks.evaluated[row] = cost
            self.best = min(self.best, cost)
        if self.best < (1 - WORTHWHILE) * self.progress:
            self.progress_at, self.progress = len(self.evaluated), self.best
        self.history.append((len(self.evaluated), float(self.best), self.smallest_open()))

    def know(self, records: Sequence[Record]) -> None:
        """Take in what was evaluated elsewhere; designs that are no candidates are passed over."""
        for record in records:
            row = self._row(record.values)
            if row is not None and self.state[row] not in (EVALUATED, OVER):
                self._learn([row], [record])

    def worth_trying(self, values: Mapping[str, Any]) -> bool:
        """Whether a design is a candidate that was not evaluated and, looked at alone, may be better than the best."""
        row = self._row(values)
        return row is not None and self.state[row] == OPEN and self._look(row)

    def _row(self, values: Mapping[str, Any]) -> int | None:
        found = self.candidates
        places = [each.values.index(values[each.name]) for each in found.space.parameters]
        rows = np.flatnonzero((found.choice == places).all(axis=1))
        return int(rows[0]) if len(rows) else None

    def best_design(self) -> Values:
        """The parameters of the best design that was evaluated."""
        return self.candidates.values(self.evaluated[int(np.argmin(self.costs))])

    # --- what is known ----------------------------------------------------------------------------------------------

    def smallest_open(self) -> float:
        """The smallest bound of a design that was not evaluated; the best found if none is below it."""
        left = self.bound[(self.state == OPEN) | (self.state == CUT)]
        return float(min(self.best, left.min(initial=np.inf)))

    def tighten(self, most: int = MOST_REFINED) -> float:
        """The smallest open bound, with bounds made exact in its order, at most so many. The share of the best found by
        which it is below is how far the search may be from the optimum."""
        for _ in range(most):
            rows = self._worth()
            if not len(rows):
                break
            row = int(rows[np.argmin(self.bound[rows])])
            if self.exact[row]:
                break
            self._refine(row)
        return self.smallest_open()

    @property
    def gap(self) -> float:
        """By what share of the best found's cost a better design may be cheaper; 0: it is proved the best."""
        return 1.0 - self.smallest_open() / self.best if np.isfinite(self.best) else 1.0

    def below_area(self, area_m2: float) -> list[Values]:
        """The design that looks best with less area than given; none if none is left."""
        rows = np.flatnonzero((self.candidates.area_m2 < area_m2) & ~np.isin(self.state, (OVER, IMPOSSIBLE, EVALUATED)))
        if not len(rows):
            return []
        for row in self.looks.ranked(rows)[:MOST_REFINED].tolist():
            if not self.exact[row]:
                self._refine(row)
            if self.state[row] not in (OVER, IMPOSSIBLE):
                return [self.candidates.values(row)]
        return []

    def standing(self) -> dict[str, int]:
        """Designs by what became of them; those out by area or power of their parts alone first."""
        found = {"over area or power": self.candidates.total - len(self.candidates)}
        return found | {name: int((self.state == number).sum()) for number, name in enumerate(STATES)}
