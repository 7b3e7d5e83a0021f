"""What a plan of whole operators takes at least is never more than it takes, and close where arithmetic decides."""

from __future__ import annotations

import pytest

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan
from monet.schedule.planning.family import RULES, one_core, one_core_per_layer
from monet.schedule.planning.floors import whole_floor
from monet.training.step import training_step

CASES = [
    ("resnet18-cifar", "simba"),
    ("resnet18-cifar", "edge-tpu"),
    ("mlp-robot", "tpu-like-quad"),
    ("mlp-robot", "a100"),
]


@pytest.mark.parametrize(("model", "hardware"), CASES)
def test_no_plan_of_whole_operators_is_below_its_floor(model: str, hardware: str) -> None:
    scheduler = Scheduler(training_step(load_model(model)), load_hardware(hardware))
    base = scheduler.complete(Plan())
    for whole in (one_core_per_layer, one_core):
        placements = whole(scheduler, base)
        plans = [Plan(placements=placements, boundary=rule.boundary, buffer_share=rule.buffer_share) for rule in RULES]
        assert 0 < whole_floor(scheduler, placements) <= min(scheduler.schedule(plan).makespan for plan in plans)


def test_the_floor_is_near_where_wires_are_fast() -> None:
    wide = {"dram.dram.bandwidth_bits_per_cycle": 2**16, "network.bus.bandwidth_bits_per_cycle": 2**16}
    scheduler = Scheduler(training_step(load_model("resnet18-cifar")), load_hardware("edge-tpu", wide))
    placements = one_core(scheduler, scheduler.complete(Plan()))
    found = scheduler.schedule(Plan(placements=placements)).makespan
    assert whole_floor(scheduler, placements) > 0.8 * found
