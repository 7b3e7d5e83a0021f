"""What is looked at next: the planner's clock against schedules, errors by what binds, designs that are alike."""

from __future__ import annotations

import random

import numpy as np
import pytest

from monet.errors import MonetError
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.planning.default_plan import default_schedule
from monet.search.hardware.evaluation import graph_of
from monet.search.mining.best_first import FIRST_CLOCKED, OPEN, BestFirst
from monet.search.mining.candidates import candidates
from monet.search.mining.clock import clocked
from monet.search.mining.looks import OF_GUESS, Looks
from monet.search.mining.metrics import Metric
from monet.search.mining.mine import analysed
from monet.search.mining.surrogate import Designs, Errors
from monet.search.mining.templates import Limits, load_template

MODEL = {"model": "mlp:widths=256-512-256", "batch": 64}


@pytest.mark.slow
def test_the_clock_comes_nearer_to_schedules_than_rooflines_do() -> None:
    """On designs that rooflines find best."""
    template = load_template("wham")
    workload = template.workload(MODEL)
    space, steps = template.space({"model": workload}), analysed({"model": workload})
    found = candidates(space, steps, 606.7e-6, 280.0)
    best = np.argsort(found.estimate_s[0], kind="stable")[:3000].tolist()
    off = []
    for row in random.Random(5).sample(best, 6):
        design = space.hardware(found.values(row))
        try:
            scheduler = Scheduler(graph_of(workload), design)
            taken = figures_of(scheduler, default_schedule(scheduler)).latency_s
        except (NoSchedule, MonetError):
            continue
        seconds, working = clocked(steps["model"], design)
        assert sum(working.values()) <= seconds * (1 + 1e-9)
        off.append((np.log(taken / found.estimate_s[0, row]), np.log(taken / seconds)))
    guess, clock = np.std(off, axis=0)  # what all have in common changes no order
    assert clock < 0.5 * guess


def test_an_error_goes_to_what_binds() -> None:
    """A design bound by arrays came out at e times its guess: so will others like it, not those bound by lanes."""
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 6.0]])
    designs = Designs(places, np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), ((0,), (1,)))
    mean, deviation = Errors(designs.some(np.array([0])), np.array([1.0]), OF_GUESS).predicted(designs)
    assert mean[0] > 0.95
    assert mean[1] > 0.6
    assert abs(mean[2]) < 0.05
    assert deviation[0] < deviation[1] < deviation[2]


def test_cores_without_work_make_no_other_design() -> None:
    """Two parameters, one for each kind of core: where the second has no work its size does not matter."""
    places = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    shares = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    designs = Designs(places, shares, ((0,), (1,), ()))
    looks = Looks(designs, np.ones(3), np.array([1.0, 1.0, 2.0, 2.0]), np.array([5.0, 4.0, 3.0, 2.0]))
    every = np.arange(4)
    assert set(looks.ranked(every).tolist()) == {1, 2, 3}  # of the first two the smaller one
    looks.evaluated[1] = 1.1
    assert set(looks.ranked(every).tolist()) == {2, 3}
    looks.clock(3, 2.5, [True, False])  # the planner gives the second kind nothing after all
    assert looks.kind[3] != looks.kind[2]
    assert np.isfinite(looks.delay[3])


def test_the_clock_is_asked_before_anything_is_evaluated() -> None:
    template = load_template("edge").with_ranges({"rows": [4, 16], "columns": [8, 16], "lanes": [8], "sram_kib": [64]})
    workload = template.workload({"model": "mlp-robot"})
    space, steps = template.space({"model": workload}), analysed({"model": workload})
    found = candidates(space, steps, 10e-6, 1.0)
    search = BestFirst(found, steps, Metric("throughput", (1.0,)), Limits(10.0, 1.0), 4)
    batch = next(search.search())
    rows = [row for row in range(len(found)) if found.values(row) in batch]
    assert len(rows) == len(batch) == 4
    assert np.isfinite(search.looks.delay[rows]).all()
    assert len(set(search.looks.kind[rows].tolist())) == 4


def test_the_clock_is_asked_of_others_than_the_first_good_design() -> None:
    """Whatever looks best already: a template with fewer kinds of designs than are asked about is known whole."""
    template = load_template("edge").with_ranges({"rows": [4, 16], "columns": [8, 16], "lanes": [8], "sram_kib": [64]})
    workload = template.workload({"model": "mlp-robot"})
    space, steps = template.space({"model": workload}), analysed({"model": workload})
    found = candidates(space, steps, 10e-6, 1.0)
    search = BestFirst(found, steps, Metric("throughput", (1.0,)), Limits(10.0, 1.0), 4)
    next(search.search())
    known = np.isfinite(search.looks.delay)
    assert set(search.looks.kind[~known & (search.state == OPEN)]) <= set(search.looks.kind[known])
    assert 4 < len(search.looks.clocked) <= FIRST_CLOCKED
