"""No schedule is faster than the bounds of its design, or cheaper: random designs, graphs, plans, default plans."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from monet.errors import MonetError
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.lower_bound.channels import borders
from monet.schedule.lower_bound.in_order import in_order_traffic
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_schedule
from monet.schedule.workload import workload_of
from monet.search.hardware.evaluation import graph_of
from monet.search.mining.bounds import closer, least_step
from monet.search.mining.metrics import Metric
from monet.search.mining.templates import load_template

AUTO = 0.25  # share of cases with the default plan, which takes longer to find
MODELS = (
    {"model": "mlp:widths=24-96-40", "batch": 6},
    {"model": "bert:layers=1,hidden=48,heads=3", "sequence": 12, "batch": 2},
    {"model": "gpt:layers=1,hidden=32,heads=2,vocabulary=100,positions=32,sequence=20"},
    {"model": "resnet:blocks=1-1,width=8,stem=cifar,classes=10", "image": 8, "batch": 2},
    {"model": "mlp:widths=30-50-10", "batch": 3, "optimizer": "adam"},
)


class Case(NamedTuple):
    """A schedule that could be made, and how close its bound came."""

    template: str
    default: bool  # whether its plan is the default one
    share: float  # bound over latency


def cases(count: int, seed: int) -> Iterator[Case]:
    """Random designs, graphs and plans; none is below its bounds in seconds or joules."""
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
            least = least_step(scheduler.workload, chip := scheduler.machine.accelerator)
            least = closer(least, scheduler.workload, chip)
            figures = figures_of(scheduler, schedule)
            assert least.latency_s <= figures.latency_s * (1 + 1e-9), (template.name, workload.model, point, plan)
            assert least.energy_j <= figures.energy_j * (1 + 1e-9), (template.name, workload.model, point, plan)
            made += 1
            yield Case(template.name, auto, least.latency_s / figures.latency_s)


def test_bounds_hold_on_some_plans() -> None:
    assert statistics.mean(case.share for case in cases(12, 1)) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_bounds_hold_on_a_thousand_plans(seed: int) -> None:
    """A hundred with each seed."""
    shares = [case.share for case in cases(100, seed)]
    assert max(shares) <= 1 + 1e-9
    assert statistics.mean(shares) > 0.3


def test_costs_are_seconds_watts_and_joules() -> None:
    """Two workloads, weighted one to three; a record has the same cost as its figures."""
    seconds, joules, watts = np.array([[2.0], [16.0]]), np.array([[3.0], [48.0]]), np.array([5.0])
    time = (2.0 * 16.0**3) ** 0.25
    expected = {"throughput": time, "throughput-per-tdp": 5 * time, "edp": time * (3.0 * 48.0**3) ** 0.25}
    metrics = {}
    for name, taken, spent in (("a", 2.0, 3.0), ("b", 16.0, 48.0)):
        metrics |= {f"{name}.latency_s": taken, f"{name}.tdp_energy_j": 5 * taken, f"{name}.edp_js": taken * spent}
    for name, cost in expected.items():
        metric = Metric(name, (1.0, 3.0))
        assert metric.cost(seconds, watts, joules) == pytest.approx([cost])
        assert metric.of_record(metrics, ("a", "b")) == pytest.approx(cost)


def test_links_carry_what_the_order_moves() -> None:
    """Of a design with thin links: eight bits of every byte that does not fit behind a border."""
    template = load_template("edge")
    workload = workload_of(graph_of(template.workload({"model": "mlp:widths=64-512-64", "batch": 16})))
    space = template.space({"model": template.workload({"model": "mlp:widths=64-512-64", "batch": 16})})
    chip = space.hardware({each.name: each.values[0] for each in space.parameters})
    thin = replace(chip, links=tuple(replace(link, bandwidth_bits_per_s=1e6) for link in chip.links))
    moved = max(
        8 * in_order_traffic(workload).over_size(border.kept_bytes) / border.together
        for border in borders(thin)
        if border.together
    )
    step = least_step(workload, thin)
    assert step.times["links"] == pytest.approx(max(moved, bounds_of(workload, thin).links_s))
    assert moved > 0.5 * step.times["links"]
    assert step.limit == "links"
