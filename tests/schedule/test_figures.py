"""The few figures that searches compare are those of the full result."""

from __future__ import annotations

import numpy as np
import pytest

import monet
from monet.frontends import load_model
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import figures_of, most_at_once
from monet.schedule.plan import Placement, Plan


@pytest.mark.parametrize(
    ("model", "hardware"), [("mlp-robot", "edge-tpu"), ("mlp-pusher", "fusemax"), ("lstm-lm", "edge-tpu")]
)
@pytest.mark.parametrize("boundary", ["keep", "dram"])
def test_figures_are_those_of_the_result(model: str, hardware: str, boundary: str) -> None:
    graph, accelerator = monet.training_step(monet.load_model(model)), monet.load_hardware(hardware)
    scheduler = Scheduler(graph, accelerator)
    plan = Plan(boundary=boundary)
    found = figures_of(scheduler, scheduler.schedule(plan))
    result = monet.evaluate(graph, accelerator, plan)
    assert found.latency_s == result.latency_s
    assert found.energy_j == pytest.approx(result.energy_j, rel=1e-12)
    assert found.dram_bytes == result.dram_bytes.total
    assert found.dram_peak_bytes == result.memory[0].peak_bytes


@pytest.mark.parametrize("split", ["C", "K", "OY"])
def test_figures_of_operators_on_several_cores(split: str) -> None:
    graph, accelerator = load_model("resnet18-stream"), monet.load_hardware("tpu-like-quad")
    scheduler = Scheduler(graph, accelerator)
    cores = tuple(f"tensor[{number}]" for number in range(4))
    plan = Plan(placements={"layer3.1.conv1": Placement(cores, split)})
    found, result = figures_of(scheduler, scheduler.schedule(plan)), monet.evaluate(graph, accelerator, plan)
    assert found.energy_j == pytest.approx(result.energy_j, rel=1e-12)
    assert found.latency_s == result.latency_s


def test_what_leaves_makes_room_for_what_comes_at_that_moment() -> None:
    came, went, size = np.array([0, 5, 5, 7]), np.array([5, 9, 5, 9]), np.array([10, 8, 1, 3])
    assert most_at_once(came, went, size) == 11  # from 7 on; ten and nine at moment 5 never lie there together
    assert most_at_once(came[:2], went[:2], size[:2]) == 10
    assert most_at_once(came[:0], went[:0], size[:0]) == 0
