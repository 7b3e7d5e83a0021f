"""Plans through the full schedule, each once: what every step of the search asks, with the best so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from monet.errors import MonetError
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import Figures, figures_of
from monet.schedule.plan import Group, Placement, Plan

OBJECTIVES = ("latency", "energy", "edp")
PER_SCHEDULE, PER_OPERATOR = 10_000, 30  # what any schedule takes, in nodes that take as long


@dataclass(frozen=True, slots=True)
class Variant:
    """A group with its tile and halo, and the operators that it places otherwise than the base plan."""

    group: Group
    moved: tuple[tuple[str, Placement], ...] = ()


def plan_with(base: Plan, variants: tuple[Variant, ...]) -> Plan:
    """The base plan with some groups; what they do not move stays where the base has it."""
    placements = dict(base.placements)
    for variant in variants:
        placements |= dict(variant.moved)
    return replace(base, groups=tuple(variant.group for variant in variants), placements=placements)


@dataclass
class FusionEvaluator:
    """Costs plans; remembers each, and the best of those whose groups keep a limit."""

    scheduler: Scheduler
    objective: str
    limit: int
    known: dict[tuple[object, ...], Figures | None] = field(default_factory=dict)
    scheduled: int = 0
    work: int = 0  # nodes of all schedules, and what every schedule takes besides: a budget without a clock
    best: tuple[float, Plan, Figures] | None = None
    watch: Callable[[], None] | None = None  # called after every schedule

    def figures(self, plan: Plan) -> Figures | None:
        """What a plan costs; None if it has no schedule or does not fit DRAM."""
        rules = plan.boundary, plan.prefetch, plan.buffer_share, plan.tiles, plan.memory_share
        key = (frozenset(plan.groups), frozenset(plan.placements.items()), rules)
        if key not in self.known:
            self.known[key] = self._schedule(plan)
            if self.watch:
                self.watch()
        return self.known[key]

    def cost(self, plan: Plan) -> float:
        """The objective of a plan; infinite if it has no schedule."""
        found = self.figures(plan)
        return float("inf") if found is None else found.objective(self.objective)

    def _schedule(self, plan: Plan) -> Figures | None:
        self.scheduled += 1
        self.work += PER_SCHEDULE + PER_OPERATOR * len(self.scheduler.workload.operators)
        try:
            schedule = self.scheduler.schedule(plan)
        except (NoSchedule, MonetError):
            return None
        self.work += schedule.size
        found = figures_of(self.scheduler, schedule)
        if found.dram_peak_bytes > self.scheduler.machine.accelerator.dram.capacity_bytes:
            return None
        cost = found.objective(self.objective)
        short = all(len(group.operators) <= self.limit for group in plan.groups)
        if short and (self.best is None or cost < self.best[0] * (1 - 1e-12)):
            self.best = cost, plan, found
        return found
