"""The default plan: matrix operators fused with the vector work beside them, where the whole schedule gains."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.plan import TILES, Plan
from monet.schedule.planning.default_plan import default_schedule, fused_plans
from monet.schedule.planning.family import best_by_cores, best_unfused
from monet.schedule.planning.stretches import stretches
from monet.training.step import training_step

SMALL = "resnet:blocks=1-1,width=32,stem=cifar,classes=10,image=16"
CASES = [(SMALL, "edge-tpu"), ("gpt2-mini", "fusemax"), ("mlp-robot", "edge-tpu")]


def scheduler_of(model: str, hardware: str) -> Scheduler:
    return Scheduler(training_step(load_model(model)), load_hardware(hardware))


@pytest.mark.parametrize(("model", "hardware"), CASES)
def test_auto_is_the_fastest_of_its_plans(model: str, hardware: str) -> None:
    scheduler = scheduler_of(model, hardware)
    unfused = best_by_cores(scheduler)
    times = [schedule.makespan for schedule in unfused]
    assert best_unfused(scheduler).makespan == min(times)
    plans = [replace(each.plan, boundary=kept) for each in unfused for kept in {each.plan.boundary, "keep"}]
    for fused in (fused for plain in plans for fused in fused_plans(scheduler, plain, {})):
        for goal in TILES:
            with suppress(NoSchedule):
                times.append(scheduler.schedule(replace(fused, tiles=goal)).makespan)
    assert min(times) <= default_schedule(scheduler).makespan <= 1.02 * min(times)


def test_matrix_operators_are_fused_where_it_pays() -> None:
    scheduler = scheduler_of("resnet18-cifar", "edge-tpu")
    plain, auto = scheduler.schedule(Plan()), default_schedule(scheduler, "auto", "keep", {})
    assert auto.timed.makespan < 0.95 * plain.timed.makespan
    kinds = {one.op.name: one.is_matrix for one in scheduler.workload.operators}
    assert any(kinds[name] for group in auto.plan.groups for name in group.operators)


@pytest.mark.parametrize("before", [True, False])
def test_stretches_stand_together_and_can_be_cut(before: bool) -> None:
    scheduler = scheduler_of("resnet18-cifar", "edge-tpu")
    found = stretches(scheduler.workload, before)
    assert found
    for one in found:
        numbers = [operator.number for operator in one.operators]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        matrix = [operator.is_matrix for operator in one.operators]
        assert matrix == sorted(matrix, reverse=not before)
        assert len(set(matrix)) == 2
        for dims in one.cuts.values():
            assert all(dims[operator.number] in operator.tileable for operator in one.operators)
