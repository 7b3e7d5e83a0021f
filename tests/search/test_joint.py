"""Joint search: every step is recorded, the best never gets worse, what is found costs what it says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from monet.errors import MonetError
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Group, Plan
from monet.search.joint import joint_search
from tests.schedule.cases import accelerator
from tests.search.test_allocation import chain


def keep(plan: Plan, seed: int) -> tuple[Plan, bool]:
    return plan, False


def fuse_all(plan: Plan, seed: int) -> tuple[Plan, bool]:
    return replace(plan, groups=(Group(("conv0", "conv1", "conv2"), (("OY", 3),)),)), False


def test_steps_add_up_and_never_lose() -> None:
    scheduler = Scheduler(chain(3), accelerator("bus"))
    found = joint_search(scheduler, fuse_all, objective="edp", effort=1)
    assert figures_of(scheduler, scheduler.schedule(found.plan)) == found.figures
    values = [found.start.edp, *(one.figures.edp for one in found.steps)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == found.figures.edp < found.start.edp
    left = math.prod(1 - one.gain for one in found.steps)
    assert left == pytest.approx(found.figures.edp / found.start.edp, rel=1e-9)
    last = max(one.round for one in found.steps)
    assert [one.name for one in found.steps if one.round == last] == ["fusion", "tiles", "allocation"]


def test_more_decisions_are_no_worse() -> None:
    hardware = accelerator("mesh")
    without = joint_search(Scheduler(chain(3), hardware), keep, effort=1)
    fused = joint_search(Scheduler(chain(3), hardware), fuse_all, effort=1)
    assert fused.figures.latency_s <= without.start.latency_s
    assert without.figures.latency_s <= without.start.latency_s


def test_same_seed_same_plan() -> None:
    first, again = (joint_search(Scheduler(chain(2), accelerator("bus")), keep, effort=1, seed=7) for _ in range(2))
    assert first == again


def test_interrupts_keep_the_best() -> None:
    def stop(plan: Plan, seed: int) -> tuple[Plan, bool]:
        raise KeyboardInterrupt

    scheduler = Scheduler(chain(2), accelerator("bus"))
    found = joint_search(scheduler, stop, effort=1)
    assert found.interrupted
    assert [one.name for one in found.steps] == ["stacks"]
    found = joint_search(scheduler, lambda plan, seed: (plan, True), effort=1)
    assert found.interrupted
    assert [one.name for one in found.steps] == ["stacks", "fusion"]


def test_bad_options() -> None:
    with pytest.raises(MonetError, match="1 to 10"):
        joint_search(Scheduler(chain(1), accelerator("bus")), keep, effort=12)
