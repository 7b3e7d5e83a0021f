"""Figures that others are made of, by hand: memory by task, what stays on a device, links of a torus."""

from __future__ import annotations

import pytest

from monet.distributed.memory.memory import ChunkMemory
from monet.distributed.memory.stage_memory import stage_peaks
from monet.distributed.pipelines.pipeline import order_of
from monet.distributed.systems.topology import ALGORITHMS, NetworkLevel, Span
from monet.request.system_request import SystemRequest

CONVOLUTIONS = "resnet:blocks=1,width=8,stem=cifar,classes=10"
SYSTEM = {
    "name": "boards",
    "devices": "micro-npu",
    "network": {"board": {"size": 2, "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-6}},
}


@pytest.mark.parametrize(("schedule", "activations", "workspace"), [("gpipe", 20, 2), ("1f1b", 10, 7)])
def test_only_the_last_micro_batch_synchronises(schedule: str, activations: int, workspace: int) -> None:
    """One stage, two micro-batches: all forward first holds two when the first goes back."""
    memory = ChunkMemory({"weights": 5.0, "gradients": 3.0}, saved=10.0, forward=1.0, backward=2.0, last=7.0)
    order, pointer = order_of(schedule, 1, 1, 2)
    (peak,) = stage_peaks([memory], order, pointer, 2)
    assert (peak.parts["activations"], peak.parts["workspace"]) == (activations, workspace)
    assert peak.total == 5 + 3 + activations + workspace


def test_running_statistics_stay_with_the_weights() -> None:
    found = SystemRequest(CONVOLUTIONS, system=SYSTEM, image=8, batch=1, fusion="none").distribute()
    alone = SystemRequest(CONVOLUTIONS, "micro-npu", image=8, batch=1, fusion="none").evaluate()
    memory = found.stages[0].peak_memory_bytes
    assert memory.weights == alone.memory_peak_bytes["external"].weights
    assert memory.weights > memory.gradients  # one of every parameter


def test_hops_and_shares_of_a_torus() -> None:
    level = NetworkLevel("torus", (8, 8), "torus_2d", 4e9, 4e9, 1e-6, 0.0, (), 1e-12, 0.0, ALGORITHMS)
    both = Span(level, (4, 2), (1, 4), 4e9, 1)
    assert both.hops() == 2.5  # neighbours along one dimension, four apart along the other
    assert both.dimension_shares() == (
        (4, 0.5 / 2),
        (2, 1.0 / 2 / 4),
    )  # half a ring is open
    assert Span(level, (8, 1), (1, 1), 4e9, 1).dimension_shares() == ((8, 0.5),)
