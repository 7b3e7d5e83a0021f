"""Costs of allocations through the full schedule, each computed once, with the best so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monet.mapping.errors import MappingError
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import Figures, figures_of
from monet.schedule.plan import Placement, Plan
from monet.schedule.result_rows import Infeasible
from monet.search.genetic import Score

Placements = Mapping[str, Placement]
Key = tuple[Placement, ...]
NEVER = math.inf


@dataclass
class AllocationEvaluator:
    """Figures of allocations of one plan. What cannot run has none; the first reason for it is kept.

    ``watch`` is called after every evaluation with the evaluator itself.
    """

    scheduler: Scheduler
    base: Plan
    objective: str
    watch: Callable[[AllocationEvaluator], None] | None = None
    known: dict[Key, Figures | None] = field(default_factory=dict)
    best: Key | None = None
    infeasible: int = 0
    reason: Infeasible | None = None

    def key(self, placements: Placements) -> Key:
        """Placements in the order of the operators."""
        return tuple(placements[operator.op.name] for operator in self.scheduler.workload.operators)

    def placements(self, key: Key) -> dict[str, Placement]:
        """The allocation of a key."""
        return {operator.op.name: place for operator, place in zip(self.scheduler.workload.operators, key, strict=True)}

    def plan(self, placements: Placements) -> Plan:
        """The plan with this allocation."""
        return replace(self.base, placements=dict(placements))

    def figures(self, placements: Placements) -> Figures | None:
        """What an allocation costs; None if it cannot run."""
        key = self.key(placements)
        if key not in self.known:
            found = self.known[key] = self._evaluate(placements)
            if found is not None and self.value(key) < self.best_value:
                self.best = key
            if self.watch:
                self.watch(self)
        return self.known[key]

    def value(self, key: Key) -> float:
        """The objective of an allocation that was evaluated; infinite if it cannot run."""
        found = self.known[key]
        return NEVER if found is None else found.objective(self.objective)

    @property
    def best_value(self) -> float:
        """The objective of the best so far."""
        return NEVER if self.best is None else self.value(self.best)

    @property
    def best_figures(self) -> Figures:
        """Figures of the best so far; there must be one."""
        figures = self.known[self.best] if self.best is not None else None
        assert figures is not None
        return figures

    def scores(self, many: Sequence[Placements]) -> list[Score]:
        """Latency and energy for the genetic runner."""
        found = []
        for placements in many:
            figures = self.figures(placements)
            found.append(Score((figures.latency_s, figures.energy_j)) if figures else Score((NEVER, NEVER), 1.0))
        return found

    def _evaluate(self, placements: Placements) -> Figures | None:
        found = plan_figures(self.scheduler, self.plan(placements))
        if isinstance(found, Figures):
            return found
        self.infeasible += 1
        self.reason = self.reason or found
        return None


def plan_figures(scheduler: Scheduler, plan: Plan) -> Figures | Infeasible:
    """What a plan costs, or why it cannot run."""
    try:
        figures = figures_of(scheduler, scheduler.schedule(plan))
    except NoSchedule as error:
        return error.reason
    except MappingError as error:
        return Infeasible("", "", "", 0, str(error))
    dram = scheduler.machine.accelerator.dram
    short = figures.dram_peak_bytes - dram.capacity_bytes
    if short > 0:
        return Infeasible("", "", dram.name, short, f"{dram.name} is {short:,} bytes short")
    return figures
