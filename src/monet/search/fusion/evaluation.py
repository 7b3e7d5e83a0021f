"""Plans through the full schedule, each once: what every step of the search asks, with the best so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from monet.errors import MonetError
from monet.schedule.engine import NoSchedule, Schedule, Scheduler
from monet.schedule.figures import Figures, figures_of
from monet.schedule.plan import Group, Placement, Plan

OBJECTIVES = ("latency", "energy", "edp")


@dataclass(frozen=True, slots=True)
class Variant:
    """A group with its tile and halo, and the operators it moves to another core."""

    group: Group
    moved: tuple[tuple[str, str], ...] = ()  # (operator, core)


def plan_with(base: Plan, variants: tuple[Variant, ...]) -> Plan:
    """The base plan with some groups; what they do not move stays where the base has it."""
    placements = dict(base.placements)
    for one in variants:
        placements |= {name: Placement((core,)) for name, core in one.moved}
    return replace(base, groups=tuple(one.group for one in variants), placements=placements)


@dataclass
class Evaluator:
    """Costs plans; remembers each, and the best."""

    scheduler: Scheduler
    objective: str
    say: Callable[[str], None] = lambda line: None
    known: dict[tuple[object, ...], Figures | None] = field(default_factory=dict)
    scheduled: int = 0
    best: tuple[float, Plan, Figures] | None = None

    def figures(self, plan: Plan) -> Figures | None:
        """What a plan costs; None if it has no schedule or does not fit DRAM."""
        key = (frozenset(plan.groups), _frozen(plan.placements), plan.boundary, plan.prefetch, plan.buffer_share)
        if key not in self.known:
            self.known[key] = self._schedule(plan)
        return self.known[key]

    def cost(self, plan: Plan) -> float:
        """The objective of a plan; infinite if it has no schedule."""
        found = self.figures(plan)
        return float("inf") if found is None else found.objective(self.objective)

    def _schedule(self, plan: Plan) -> Figures | None:
        self.scheduled += 1
        try:
            schedule = self.scheduler.schedule(plan)
        except (NoSchedule, MonetError):
            return None
        found = figures_of(self.scheduler, schedule)
        if found.dram_peak_bytes > self.scheduler.machine.accelerator.drams[0].capacity_bytes:
            return None
        cost = found.objective(self.objective)
        if self.best is None or cost < self.best[0] * (1 - 1e-12):
            self.best = cost, plan, found
        return found

    def schedule(self, plan: Plan) -> Schedule:
        """The schedule itself."""
        return self.scheduler.schedule(plan)


def _frozen(placements: Mapping[str, Placement]) -> frozenset[tuple[str, Placement]]:
    return frozenset(placements.items())
