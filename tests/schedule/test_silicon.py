"""Two measured chips, described as published, and peak memory as the framework's tracker measured it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.measurement.occupancy import traces
from monet.schedule.plan import Plan
from monet.schedule.simulation.records import COMPUTE, READ
from monet.training.step import training_step
from monet.validation.silicon import aimc_segment, depfin_fsrcnn, sensitivity
from monet.validation.stream import RUNS, STREAM_LANES, stream_plan, stream_rules


@pytest.mark.parametrize(
    ("case", "hardware", "measured", "accuracy"),
    [(depfin_fsrcnn, "depfin", 6.18e6, 0.98), (aimc_segment, "aimc-4x4", 66_302, 0.96)],
)
def test_latency_of_a_measured_chip(case, hardware: str, measured: float, accuracy: float) -> None:
    graph, plan = case()
    scheduler = Scheduler(graph, load_hardware(hardware))
    cycles = scheduler.schedule(plan).timed.makespan / 1024
    assert 1 - abs(1 - cycles / measured) >= accuracy


def test_what_the_agreement_rests_on_stands_in_the_docs() -> None:
    """Every choice that the sources leave open, decided otherwise: the tables of ``docs/silicon.md``."""
    page = (Path(__file__).parents[2] / "docs" / "silicon.md").read_text()
    rows = list(sensitivity())
    for chip, words, cycles, accuracy in rows:
        assert f"| {chip} | {words} | {cycles:,.0f} | {max(0.0, accuracy):.1%} |".replace("%", " %") in page
    for chip, at_least in (("depfin", 0.98), ("aimc-4x4", 0.96)):
        counts = {words: accuracy for name, words, _, accuracy in rows if name == chip and "tile buffer" in words}
        assert next(iter(counts.values())) == max(counts.values()) >= at_least
        assert min(counts.values()) < 0.85  # a chip tells how many buffers it has


def test_a_core_asks_for_a_tile_when_it_is_done_with_the_one_whose_buffer_it_takes() -> None:
    graph, plan = depfin_fsrcnn()
    for buffers in (1, 2, 3):
        machine = Scheduler(graph, load_hardware("depfin", {"cores.array.tile_buffers": buffers}))
        schedule = machine.schedule(plan)
        nodes, timed = schedule.decided.events.nodes, schedule.timed
        runs = np.flatnonzero(nodes.kind == COMPUTE)
        tile = {int(step): number for number, step in enumerate(nodes.step[runs])}
        fetches = [number for number in np.flatnonzero(nodes.kind == READ) if nodes.step[number] >= 0]
        free = [tile[int(nodes.step[number])] - buffers for number in fetches]
        slack = [timed.start[a] - timed.end[runs[b]] for a, b in zip(fetches, free, strict=True) if b >= 0]
        assert len(slack) > 500
        assert min(slack) == 0


@pytest.mark.parametrize("latency", [1, 10])
def test_latency_of_a_link_does_not_change_who_goes_first(latency: int) -> None:
    """With one tile buffer an input row comes behind the output row of the tile before, however long the wires are."""
    graph, plan = depfin_fsrcnn()
    hardware = load_hardware("depfin", {"network.off_chip.latency_cycles": latency})
    cycles = Scheduler(graph, hardware).schedule(plan).timed.makespan / 1024
    assert cycles == pytest.approx(6_080_157 + latency * 540 * 2, rel=1e-4)


# What Stream's cost model takes for one tile of each layer, in cycles.
AIMC_TILES = [34, 38, 34, 34, 38]
DEPFIN_TILES = [815, 461, 877, 877, 877, 877, 461, 4048]


@pytest.mark.parametrize(
    ("case", "hardware", "tiles", "within"),
    [(aimc_segment, "aimc-4x4", AIMC_TILES, 0.0), (depfin_fsrcnn, "depfin", DEPFIN_TILES, 0.09)],
)
def test_time_of_a_tile_follows_from_widths_alone(case, hardware: str, tiles: list[int], within: float) -> None:
    graph, plan = case()
    schedule = Scheduler(graph, load_hardware(hardware)).schedule(plan)
    ours = [max(cost.cycles for cost in one.costs) for one in schedule.expanded.operators]
    assert ours == pytest.approx(tiles, rel=within, abs=1e-6)


def test_width_of_a_weight_buffer_decides_as_it_does_for_stream() -> None:
    graph, plan = aimc_segment()
    narrow = {
        f"cores.{core}.memories.weights.ports.read.bandwidth_bits_per_cycle": 4096 for core in ("cimu_1", "cimu_4")
    }
    schedule = Scheduler(graph, load_hardware("aimc-4x4", narrow)).schedule(plan)
    assert schedule.timed.makespan / 1024 == pytest.approx(121_348, rel=0.02)  # Stream with 4096 bit everywhere


# Forward and backward with plain SGD, PyTorch 2.13: bytes in MB.
PEAKS = [
    ("resnet18", {"batch": 1}, 111.5),
    ("resnet18", {"batch": 32}, 782.5),
    ("gpt2-mini", {"batch": 8, "sequence": 256}, 1740.9),
    ("bert-base", {"sequence": 128}, 876.3),
    ("mlp-robot", {"batch": 4096}, 33.4),
]


@pytest.mark.parametrize(("model", "sizes", "megabytes"), PEAKS)
def test_peak_memory_as_the_framework_has_it(model: str, sizes: dict[str, int], megabytes: float) -> None:
    scheduler = Scheduler(training_step(load_model(model, **sizes)), load_hardware("edge-tpu"))
    schedule = scheduler.schedule(Plan(boundary="dram"))
    trace = traces(schedule, scheduler.machine, scheduler.workload)[0]
    assert trace.peak_bytes / 1e6 == pytest.approx(megabytes, rel=0.05)
    assert trace.peak_operator


@pytest.mark.parametrize(("split", "tiles"), [(1, 1118), (4, 3863)])
def test_stacks_have_as_many_rows_as_stream_has_tiles(split: int, tiles: int) -> None:
    """One row a tile in the stacks, one tile a layer elsewhere, convolutions and rectifiers split over the cores."""
    graph = load_model("resnet18-stream:activations=yes")
    fused = {name for group in stream_plan(graph, True, split > 1).groups for name in group.operators}
    counts = [
        (graph.tensors[op.outputs[0]].shape[2] if op.name in fused else 1)
        * (split if op.kind in ("conv", "relu") else 1)
        for op in graph.ops
    ]
    assert sum(counts) == tiles


def test_stream_on_its_quad_core() -> None:
    graph, hardware = load_model("resnet18-stream:activations=yes"), load_hardware("tpu-like-quad", STREAM_LANES)
    found = {run: evaluate(graph, hardware, stream_plan(graph, *run)) for run in RUNS}
    for run, (_, cycles, picojoules, _) in RUNS.items():
        assert found[run].cycles < cycles
        assert found[run].energy_breakdown.dynamic * 1e12 == pytest.approx(picojoules, rel=0.15)
    assert found[True, True].dram_bytes.total < 0.65 * found[False, True].dram_bytes.total
    # layer by layer every tensor crosses once for each layer that touches it, and no more
    moved = sum(row.input_bytes + row.output_bytes for row in found[False, True].operators)
    assert found[False, True].dram_bytes.total < 1.01 * moved


def test_rules_of_stream_give_its_latency() -> None:
    graph = load_model("resnet18-stream:activations=yes")
    for run, (_, cycles, *_) in RUNS.items():
        plan, links = stream_rules(graph, stream_plan(graph, *run))
        result = evaluate(graph, load_hardware("tpu-like-quad", STREAM_LANES | links), plan)
        assert result.cycles == pytest.approx(cycles, rel=0.2)
