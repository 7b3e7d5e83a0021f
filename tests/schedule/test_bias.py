"""A bias is an operand: its bytes move, its additions cost energy, and it is cut with the channels it belongs to."""

from __future__ import annotations

import pytest

from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Placement, Plan


def linear(bias: bool) -> Graph:
    b = GraphBuilder("linear")
    x, w = b.input("x", (64, 96), "bf16"), b.parameter("w", (48, 96), "bf16")
    more = (b.parameter("b", (48,), "bf16"),) if bias else ()
    return b.build([b.emit("linear", x, w, *more, transpose=False)])


def convolution(bias: bool) -> Graph:
    b = GraphBuilder("convolution")
    x, w = b.input("x", (2, 8, 12, 12), "bf16"), b.parameter("w", (16, 4, 3, 3), "bf16")
    more = (b.parameter("b", (16,), "bf16"),) if bias else ()
    return b.build([b.emit("conv", x, w, *more, stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=2)])


@pytest.mark.parametrize(("make", "channels", "outputs"), [(linear, 48, 64 * 48), (convolution, 16, 2 * 16 * 144)])
def test_bytes_and_additions(make, channels: int, outputs: int) -> None:
    hardware = load_hardware("fusemax")
    without, with_bias = (evaluate(make(bias), hardware) for bias in (False, True))
    assert with_bias.dram_bytes.read == without.dram_bytes.read + 2 * channels
    assert with_bias.dram_bytes.write == without.dram_bytes.write
    assert with_bias.latency_s >= without.latency_s
    core = hardware.instance("tensor").core
    added = outputs * core.rate("bf16", "bf16").energy_j
    levels = [result.energy_breakdown.by_level for result in (without, with_bias)]
    assert levels[1]["compute"] - levels[0]["compute"] == pytest.approx(added, rel=1e-9)


@pytest.mark.parametrize(("split", "parts"), [("K", 1), ("N", 4)])
def test_pieces_read_their_own_channels(split: str, parts: int) -> None:
    scheduler = Scheduler(linear(True), load_hardware("tpu-like-quad"))
    (operator,) = scheduler.workload.operators
    names = tuple(one.name for one in scheduler.machine.accelerator.cores if one.core.modes)
    found = scheduler.schedule(Plan(placements={operator.op.name: Placement(names, split)}))
    (one,) = found.expanded.operators
    position = next(i for i, (operand, _) in enumerate(operator.operands) if operand.name == "bias")
    assert sum(one.costs[kind].operands[position].bytes for kind in one.classes) == parts * 48 * 2
