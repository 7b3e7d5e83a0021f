"""All designs at once: never more than one design alone says, and out only where that is over a limit."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from monet.search.mining.best_first import BestFirst
from monet.search.mining.bounds import bounded
from monet.search.mining.candidates import candidates
from monet.search.mining.metrics import Metric
from monet.search.mining.mine import Problem, analysed
from monet.search.mining.templates import Limits, load_template


def problem(name: str, model: str = "mlp-robot", **more: object) -> Problem:
    """A template with every third value of its parameters."""
    template = load_template(name)
    values = {known: each.chosen()[0][::3] for known, each in template.model.parameters.items()}
    template = template.with_ranges(values)
    return Problem(template, {"model": template.workload({"model": model, **more})}, template.limits)


@pytest.mark.parametrize("name", ["edge", "wham", "phaze"])
def test_bounds_of_all_are_below_those_of_one(name: str) -> None:
    asked = problem(name, batch=4)
    space, workloads = asked.space(), analysed(asked.workloads)
    found = candidates(space, workloads, math.inf, math.inf)
    assert len(found) == found.total == space.size
    chosen = random.Random(7).sample(range(len(found)), 8)
    closeness = []
    for row in chosen:
        alone = bounded(space.hardware(found.values(row)), workloads)
        step = alone.steps["model"]
        assert found.area_m2[row] <= alone.area_m2 * (1 + 1e-9)
        assert found.watts[row] <= alone.tdp_w * (1 + 1e-9)
        assert found.latency_s[0, row] <= step.latency_s * (1 + 1e-9)
        assert found.energy_j[0, row] <= step.energy_j * (1 + 1e-9)
        closeness.append((found.area_m2[row] / alone.area_m2, found.watts[row] / alone.tdp_w))
    area, watts = np.mean(closeness, axis=0)
    assert area > 0.9
    assert watts > 0.5


def test_nothing_within_limits_is_left_out() -> None:
    asked = problem("edge")
    space, workloads = asked.space(), analysed(asked.workloads)
    kept = candidates(space, workloads, 2e-6, 0.5)
    inside = {space.key(kept.values(row)) for row in range(len(kept))}
    every = list(space.points())
    for point in random.Random(3).sample(every, min(60, len(every))):
        design = space.hardware(point)
        if design.area_m2 <= 2e-6 and bounded(design, workloads).tdp_w <= 0.5:
            assert space.key(point) in inside


def test_a_search_without_candidates_ends_at_once() -> None:
    asked = problem("edge")
    workloads = analysed(asked.workloads)
    none = candidates(asked.space(), workloads, 1e-9, 1.0)
    search = BestFirst(none, workloads, Metric("throughput", (1.0,)), Limits(1e-3, 1.0), 5)
    assert not list(search.search())
    assert search.gap == 1.0
