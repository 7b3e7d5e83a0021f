"""No schedule is faster than the bounds of its design, or cheaper: random designs, graphs, plans, default plans."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator

import pytest

from monet.errors import MonetError
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_schedule
from monet.search.hardware.evaluation import graph_of
from monet.search.mining.bounds import least_step
from monet.search.mining.templates import load_template

AUTO = 0.25  # share of cases with the default plan, which takes longer to find
MODELS = (
    {"model": "mlp:widths=24-96-40", "batch": 6},
    {"model": "bert:layers=1,hidden=48,heads=3", "sequence": 12, "batch": 2},
    {"model": "gpt:layers=1,hidden=32,heads=2,vocabulary=100,positions=32,sequence=20"},
    {"model": "resnet:blocks=1-1,width=8,stem=cifar,classes=10", "image": 8, "batch": 2},
    {"model": "mlp:widths=30-50-10", "batch": 3, "optimizer": "adam"},
)


def cases(count: int, seed: int) -> Iterator[float]:
    """Bound over latency of schedules that could be made; also checks joules."""
    chosen = random.Random(seed)
    templates = [load_template(name) for name in ("edge", "wham", "phaze")]
    made = 0
    while made < count:
        template = chosen.choice(templates)
        workload = template.workload(chosen.choice(MODELS))
        space = template.space({"model": workload})
        graph = graph_of(workload)
        for _ in range(10):
            point = {each.name: chosen.choice(each.values[:5]) for each in space.parameters}
            plan = Plan(
                boundary=chosen.choice(("keep", "dram", "local")),
                buffer_share=chosen.choice((0.5, 1.0)),
                tiles=chosen.choice(("latency", "throughput")),
            )
            try:
                scheduler = Scheduler(graph, space.hardware(point))
                auto = chosen.random() < AUTO
                schedule = default_schedule(scheduler) if auto else scheduler.schedule(plan)
            except (NoSchedule, MonetError):
                continue
            least = least_step(scheduler.workload, scheduler.machine.accelerator)
            figures = figures_of(scheduler, schedule)
            assert least.latency_s <= figures.latency_s * (1 + 1e-9), (template.name, workload.model, point, plan)
            assert least.energy_j <= figures.energy_j * (1 + 1e-9), (template.name, workload.model, point, plan)
            made += 1
            yield least.latency_s / figures.latency_s


def test_bounds_hold_on_some_plans() -> None:
    assert statistics.mean(cases(12, 1)) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_bounds_hold_on_a_thousand_plans(seed: int) -> None:
    """A hundred with each seed."""
    shares = list(cases(100, seed))
    print(
        f"seed {seed}: bounds are {statistics.mean(shares):.3f} of the latency in the mean, {max(shares):.3f} at most"
    )
    assert max(shares) <= 1 + 1e-9
    assert statistics.mean(shares) > 0.3
