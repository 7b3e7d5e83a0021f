"""The lower bound of energy lies below every schedule's energy and above nothing."""

from __future__ import annotations

import pytest

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.evaluation import evaluate
from monet.training.step import training_step


@pytest.mark.parametrize("fusion", ["auto", "none"])
@pytest.mark.parametrize(("model", "hardware"), [("mlp-robot", "edge-tpu"), ("resnet18-cifar", "edge-tpu")])
def test_no_schedule_spends_less(model: str, hardware: str, fusion: str) -> None:
    result = evaluate(training_step(load_model(model, batch=1)), load_hardware(hardware), fusion=fusion)
    assert result.feasible
    assert 0 < result.bounds.energy_j <= result.energy_j


def test_the_bound_holds_static_power_over_the_least_time() -> None:
    accelerator = load_hardware("edge-tpu")
    bounds = evaluate(training_step(load_model("mlp-robot", batch=1)), accelerator).bounds
    assert bounds.energy_j > accelerator.static_power_w * bounds.latency_s
