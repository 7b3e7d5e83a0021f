"""The table of an allocation search: baselines, what was found, the bound, and what others published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import Figures
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_plan
from monet.schedule.planning.family import one_core_per_layer
from monet.search.allocation.evaluator import plan_figures
from monet.search.allocation.published import published_rows
from monet.search.allocation.search import Allocation


@dataclass(frozen=True, slots=True)
class ComparedPlan:
    """One plan of the table. ``dram_bytes`` is unknown (None) of bounds and of published figures."""

    name: str
    about: str
    latency_s: float
    energy_j: float
    dram_bytes: int | None
    source: str = ""

    @property
    def edp(self) -> float:
        """Energy-delay product, joule seconds."""
        return self.latency_s * self.energy_j


def comparison(scheduler: Scheduler, allocation: Allocation, boundary: str = "") -> tuple[ComparedPlan, ...]:
    """One core per layer and the default as ``monet run`` has it, the best rule, the found plan, the bound, and
    published figures where there are any."""
    compared = list(_baselines(scheduler, boundary))
    rule = allocation.best_rule
    if rule:
        compared.append(_row("constructive", f"best rule for the same groups: {rule.name}", rule.figures))
    compared.append(_row("found", "this search", allocation.found.figures))
    compared.append(ComparedPlan("bound", "no plan is below: work, and what has to be moved", *allocation.bound, None))
    clock = scheduler.machine.accelerator.clock_hz
    compared += [
        ComparedPlan(published.name, "published", published.cycles / clock, published.energy_j, None, published.source)
        for published in published_rows(scheduler)
    ]
    return tuple(compared)


def _baselines(scheduler: Scheduler, boundary: str) -> Iterator[ComparedPlan]:
    try:
        plain = scheduler.complete(Plan(boundary=boundary or "keep"))
        default = default_plan(scheduler, "auto", boundary)
    except NoSchedule:
        return
    whole = Plan(placements=one_core_per_layer(scheduler, plain), boundary=plain.boundary)
    for name, about, plan in (
        ("one core per layer", "unfused, cores of a design in turn", whole),
        ("default", "as monet run has it", default),
    ):
        figures = plan_figures(scheduler, plan)
        if isinstance(figures, Figures):
            yield _row(name, about, figures)


def _row(name: str, about: str, figures: Figures) -> ComparedPlan:
    return ComparedPlan(name, about, figures.latency_s, figures.energy_j, figures.dram_bytes)
