"""The lower bound of every plan: by hand on small cases, below all on random ones, the same whatever the plan.

``MONET_TEST_CASES=10000 pytest -m '' tests/schedule/test_lower_bound.py`` tries ten thousand."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from monet.frontends import load_model
from monet.graph import Graph, GraphBuilder
from monet.hardware import load_hardware
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.evaluation import measure
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.lower_bound.liveness import Cut, cuts_of
from monet.schedule.lower_bound.traffic import least_traffic
from monet.schedule.plan import Group, Plan, PlanError
from monet.schedule.workload import workload_of
from monet.training.step import training_step
from monet.transforms.checkpoint_plan import saved_tensors
from tests.schedule.cases import accelerator, random_accelerator, random_plan

FP32 = 4


def perceptron(batch: int, width: int, layers: int, *, norm: bool = False, loss: str = "mse") -> Graph:
    """Linear layers with ReLU between them (and a norm over the batch in front of it)."""
    build = GraphBuilder("perceptron")
    x = build.input("x", (batch, width))
    for number in range(layers):
        with build.scope(f"layer{number}"):
            if number:
                x = build.emit("relu", _normed(build, x, width) if norm else x)
            x = build.emit("linear", x, build.parameter("weight", (width, width)), transpose=False)
    return training_step(build.build([x]), loss=loss)


def _normed(build: GraphBuilder, x: str, width: int) -> str:
    names = [build.parameter(name, (width,)) for name in ("gamma", "beta")]
    state = [build.buffer(name, (width,)) for name in ("mean", "variance")]
    return build.emit("batch_norm", x, *names, *state, epsilon=1e-5, momentum=0.1)


def kept(graph: Graph) -> Cut:
    """The cut that forces most on a chip without memory."""
    return max(cuts_of(workload_of(graph)), key=lambda cut: cut.read(0))


def test_what_is_kept_over_the_loss() -> None:
    """Of samples that nothing mixes, each keeps its own inputs of layers, and its own moment; weights are read again
    after it, if only by their update. A norm over the batch makes all of them wait for each other."""
    batch, width = 8, 16
    row = width * FP32
    cut = kept(perceptron(batch, width, 3))
    assert cut.slices == batch
    assert cut.of_each == cut.made == 2 * row + FP32  # two hidden vectors, one element of the loss's gradient
    assert cut.again == 2 * width * row + 2 * row  # two weights and a row of the last; the input of the sample
    cut = kept(perceptron(batch, width, 3, norm=True))
    assert (
        3 * batch * row + 4 * row <= cut.made
    )  # inputs of both norms, the first one's result; four vectors of statistics
    assert cut.of_each <= 3 * row


def test_cross_entropy_waits_for_all_samples() -> None:
    """Its gradient divides by the sum of all samples' weights, which the loss makes."""
    batch, width = 8, 16
    row = width * FP32
    cut = kept(perceptron(batch, width, 3, loss="cross-entropy"))
    assert cut.operator == "loss.nll_loss"
    assert cut.made == 3 * batch * row + FP32  # two hidden vectors and the log-probabilities of each; the sum
    assert cut.again == 3 * width * row + batch * (row + 8)  # three weights; the inputs and the labels


def test_bytes_that_do_not_fit() -> None:
    cut = Cut("loss", made=100, again=50, slices=4, of_each=90)
    assert (cut.written(200), cut.read(200)) == (0, 0)
    assert (cut.written(120), cut.read(120)) == (0, 30)
    assert (cut.written(80), cut.read(80)) == (20 + 3 * 10, 70 + 3 * 10)


def convolutions(batch: int, channels: int, layers: int, loss: str) -> Graph:
    """Convolutions with norms, means of the image, a classifier."""
    build = GraphBuilder("convolutions")
    x = build.input("x", (batch, channels, 6, 6))
    for number in range(layers):
        with build.scope(f"layer{number}"):
            weight = build.parameter("weight", (channels, channels, 3, 3))
            x = build.emit("conv", x, weight, stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1), groups=1)
            x = build.emit("relu", _normed(build, x, channels))
    x = build.emit("reduce_mean", x, axes=(2, 3), keepdims=False)
    x = build.emit("linear", x, build.parameter("weight", (4, channels)), transpose=False)
    return training_step(build.build([x]), loss=loss)


def random_step(seed: random.Random) -> Graph:
    """A training step whose loss stands between all that is saved and all that reads it."""
    kind, loss = (
        seed.choice(("perceptron", "norms", "convolutions", "transformer")),
        seed.choice(("mse", "cross-entropy")),
    )
    if kind == "transformer":
        model = load_model(
            "gpt:layers=1,hidden=16,heads=2,vocabulary=32,positions=8,sequence=8", batch=seed.choice((1, 3))
        )
        return training_step(model)
    if kind == "convolutions":
        return convolutions(seed.choice((1, 4)), seed.choice((4, 8)), seed.randint(1, 2), loss)
    return perceptron(seed.choice((2, 32)), seed.choice((8, 32)), seed.randint(1, 4), norm=kind == "norms", loss=loss)


def spanning_plan(seed: random.Random, scheduler: Scheduler) -> Plan:
    """A random plan, or one group from somewhere before the loss to somewhere after it, tiled along some dimension."""
    operators, plan = scheduler.workload.operators, random_plan(seed, scheduler)
    if seed.random() < 0.3:
        return plan
    first = seed.randrange(len(operators) // 2)
    last = operators[seed.randrange(first + 1, len(operators))]
    dims = sorted(dim for dim in last.tileable if last.nest.sizes[dim] > 1)
    if not dims:
        return plan
    names = tuple(operator.op.name for operator in operators[first : last.number + 1])
    group = Group(names, ((seed.choice(dims), seed.choice((1, 2))),), seed.choice(("cached", "recomputed")))
    return replace(plan, groups=(group,))


CASES = int(os.environ.get("MONET_TEST_CASES", "300"))
BLOCK = 12
QUICK = 1  # blocks that are not left to the second tier


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=[pytest.mark.slow] * (block >= QUICK)) for block in range(-(-CASES // BLOCK))],
)
def test_no_random_plan_is_below(block: int) -> None:
    ran = forced = 0
    for number in range(BLOCK * block, BLOCK * block + BLOCK):
        seed = random.Random(number)
        scheduler = Scheduler(random_step(seed), random_accelerator(seed))
        try:
            schedule = scheduler.schedule(spanning_plan(seed, scheduler))
        except (NoSchedule, PlanError):
            continue
        result = measure(scheduler, schedule, {}, 0.0)
        assert result.latency_s * (1 + 1e-9) >= result.bounds.latency_s, number
        assert result.dram_bytes.total >= result.bounds.dram_bytes, number
        assert result.energy_j * (1 + 1e-9) >= result.bounds.energy_j, number
        ran += 1
        forced += result.bounds.forced_bytes > 0
    assert ran >= BLOCK // 2
    assert forced or block >= QUICK, "memories are too large to force anything"


def test_the_bound_does_not_look_at_the_plan() -> None:
    scheduler = Scheduler(perceptron(32, 32, 3), accelerator("bus"))
    plans = Plan(), Plan(boundary="dram"), spanning_plan(random.Random(1), scheduler)
    results = [measure(scheduler, scheduler.schedule(plan), {}, 0.0) for plan in plans]
    assert len({result.latency_s for result in results}) == 3
    assert {result.bounds for result in results} == {bounds_of(scheduler.workload, scheduler.machine.accelerator)}


def test_a_bus_that_is_narrower_than_dram_bounds_the_step() -> None:
    """A 512-bit bus in front of 800 or 9600 bit of DRAM: not off-chip bandwidth, but the bus is what matters."""
    workload = workload_of(training_step(load_model("gpt:layers=1,hidden=64,heads=2,sequence=32")))
    narrow, wide = (bounds_of(workload, load_hardware("fusemax", {"dram_bandwidth": bits})) for bits in (800, 9600))
    assert wide.links_s == narrow.links_s == wide.latency_s
    assert wide.links_s == pytest.approx(wide.dram_s * 9600 / 512)
    assert narrow.links_s == pytest.approx(narrow.dram_s * 800 / 512)


def test_what_is_saved_and_does_not_fit_is_compulsory() -> None:
    """A batch whose saved tensors are ten times the chip's memories: nearly all of them are written and read again."""
    graph, chip = training_step(load_model("resnet18-cifar", batch=64)), load_hardware("edge-tpu")
    kept = sum(memory.size_bytes for memory in chip.memories)
    saved = sum(tensor.bytes for tensor in saved_tensors(graph))
    bounds = bounds_of(workload_of(graph), chip)
    assert saved > 5 * kept
    assert 1.8 * (saved - kept) <= bounds.forced_bytes <= 2 * saved
    assert bounds.dram_bytes == bounds.forced_bytes + sum(least_traffic(workload_of(graph)).over(10**12))


def test_what_crosses_a_border_behind_a_buffer() -> None:
    """An L2 between DRAM and the SMs: what the SMs cannot keep themselves crosses the crossbar, even if the L2 can."""
    workload = workload_of(training_step(load_model("resnet18-cifar", batch=16)))
    chip = load_hardware("a100", {"network.crossbar.bandwidth_bits_per_cycle": 1024})
    crossed = sum(least_traffic(workload).over(108 * 192 * 1024))
    assert crossed > sum(least_traffic(workload).over(40 * 2**20 + 108 * 192 * 1024))
    assert bounds_of(workload, chip).links_s == pytest.approx(8 * crossed / (1024 * chip.clock_hz))
