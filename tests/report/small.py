"""One small real schedule for tests of reports: a training step at batch 4 on four arrays in a mesh and a vector core,
with a layer that is done again in backward. Everything a report shows has something to show in it."""

from __future__ import annotations

from functools import cache

from monet.graph import Graph, GraphBuilder
from monet.schedule.evaluation import evaluate
from monet.schedule.result import Result
from monet.training.step import training_step
from monet.transforms.checkpoint_plan import CheckpointPlan
from monet.transforms.recompute import recompute
from tests.schedule.cases import accelerator

BATCH = 4
WIDTHS = (8, 12, 8, 4, 8, 8, 12, 4, 8, 8)
AGAIN = "layer2.relu"


@cache
def small_graph() -> Graph:
    builder = GraphBuilder("small")
    x, channels = builder.input("image", (BATCH, 4, 8, 8)), 4
    for number, width in enumerate(WIDTHS):
        with builder.scope(f"layer{number}"):
            weight = builder.parameter("weight", (width, channels, 3, 3))
            pad = ((1, 1), (1, 1))
            x = builder.emit("conv", x, weight, stride=(1, 1), padding=pad, dilation=(1, 1), groups=1)
            x, channels = builder.emit("relu", x), width
    step = training_step(builder.build([x]), loss="sum", optimizer="adam")
    return recompute(step, CheckpointPlan({AGAIN: "recompute"}))


@cache
def small() -> Result:
    return evaluate(small_graph(), accelerator("mesh", sram=8192, dram=16))


@cache
def other() -> Result:
    """Its forward phase alone."""
    return evaluate(small_graph(), accelerator("mesh", sram=8192, dram=16), phases=["forward"])


@cache
def infeasible() -> Result:
    """The same step on cores that are far too small for it."""
    return evaluate(small_graph(), accelerator("mesh", sram=64, local=64))
