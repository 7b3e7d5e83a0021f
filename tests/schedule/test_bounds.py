"""Bounds and static energy of one small machine by hand: every rate, clock and leakage is written down here."""

from __future__ import annotations

import pytest

from monet.frontends.zoo.small import Mlp
from monet.graph import Graph
from monet.graph.counts import macs_of, work_of
from monet.graph.tensor import Role
from monet.hardware.accelerator import Accelerator
from monet.hardware.functions import DEFAULT_CYCLES
from monet.hardware.loading import describe_text
from monet.hardware.resolve import resolve
from monet.schedule.evaluation import evaluate, measure
from monet.schedule.measurement.figures import figures_of
from monet.schedule.result import Result
from monet.schedule.simulation.records import EVICT, READ, SPACE, WRITE
from monet.training.step import training_step
from tests.schedule.cases import random_schedule

TEXT = """
name: uneven
node_nm: 28
clock_hz: 1 GHz
other_area_m2: 3 mm2
clock_power_w: 128 mW
cores:
  fast:
    kind: matrix
    count: 2
    axes: {k: {size: 4, multicast: [I]}, c: {size: 4, reduce: true}}
    rates: {bf16: {products_per_cycle: 4, energy_j: 0.1 pJ}, fp32: {energy_j: 5 pJ}}
    compute_leakage_w: 1 mW
    memories: [{name: sram, size_bytes: 1 MiB, bandwidth_bits_per_cycle: 256, leakage_w: 2 mW}]
  slow:
    kind: matrix
    clock_hz: 500 MHz
    axes: {k: {size: 2, multicast: [I]}, c: {size: 2, reduce: true}}
    rates: {fp32: {energy_j: 3 pJ}}
    compute_leakage_w: 4 mW
    memories: [{name: sram, size_bytes: 1 MiB, bandwidth_bits_per_cycle: 256, leakage_w: 8 mW}]
  simd:
    kind: vector
    compute_leakage_w: 16 mW
    vector: {lanes: 2, dtypes: {fp32: {elements_per_cycle: 2, energy_j: 1 pJ}}, functions: {exp: 9, add: 3}}
    memories: [{name: vrf, size_bytes: 1 MiB, bandwidth_bits_per_cycle: 256, leakage_w: 32 mW}]
dram:
  main:
    kind: custom
    capacity_bytes: 1 GiB
    bandwidth_bytes_per_s: 4 GB/s
    latency_s: 50 ns
    burst_bytes: 4
    read_energy_j_per_bit: 7 pJ/bit
    write_energy_j_per_bit: 9 pJ/bit
    static_power_w: 64 mW
network:
  bus: {bus: [fast, slow, simd, main], bandwidth_bits_per_cycle: 256, energy_j_per_bit: 2 pJ/bit, area_m2: 5 mm2}
"""
MATRIX_PEAK = 2 * 16 * 1e9 + 4 * 0.5e9
LANE_PEAK = 2 * 2 * 1e9
STATIC_W = 2 * (1e-3 + 2e-3) + 4e-3 + 8e-3 + 16e-3 + 32e-3 + 64e-3 + 128e-3 + (3e-6 + 5e-6) * 1e3


@pytest.fixture(scope="module")
def machine() -> Accelerator:
    return resolve(describe_text(TEXT))


@pytest.fixture(scope="module")
def step() -> Graph:
    return training_step(Mlp(widths=(64, 96, 32)).build("mlp", 8), optimizer="momentum")


@pytest.fixture(scope="module")
def result(step: Graph, machine: Accelerator) -> Result:
    return evaluate(step, machine)


def lane_cycles(step: Graph) -> float:
    """Cycles of one lane for all that runs on lanes; arrays add a bias as they collect."""
    cycles = DEFAULT_CYCLES | {"exp": 9, "add": 3}
    work = [(name, count) for op in step.ops if not macs_of(step, op) for name, count in work_of(step, op).items()]
    return sum(cycles[name] * count for name, count in work)


def test_compute_bound(step: Graph, result: Result) -> None:
    """The slower of vector work over all lanes, and of all work over all that multiplies: lanes too, a cycle each."""
    macs = sum(macs_of(step, op) for op in step.ops)
    lanes = lane_cycles(step)
    together = (macs + lanes) / (MATRIX_PEAK + LANE_PEAK)
    assert result.bounds.compute_s == pytest.approx(max(together, lanes / LANE_PEAK))
    assert together < lanes / LANE_PEAK  # a wide network is bound by its arrays, below
    wide = training_step(Mlp(widths=(256, 256, 256)).build("mlp", 256))
    bound = evaluate(wide, resolve(describe_text(TEXT))).bounds.compute_s
    macs, lanes = sum(macs_of(wide, op) for op in wide.ops), lane_cycles(wide)
    assert bound == pytest.approx((macs + lanes) / (MATRIX_PEAK + LANE_PEAK))
    assert bound > lanes / LANE_PEAK


def test_what_lies_in_dram_before_the_step(step: Graph, result: Result) -> None:
    roots = [tensor for name, tensor in step.tensors.items() if name not in step.producer]
    assert {Role.INPUT, Role.LABEL, Role.PARAMETER, Role.STATE} <= {tensor.role for tensor in roots}
    assert result.bounds.memory_bytes == sum(tensor.bytes for tensor in roots)


def test_compulsory_bytes(step: Graph, result: Result) -> None:
    """All roots are read once; parameters, states and the loss are written once."""
    roots = sum(tensor.bytes for name, tensor in step.tensors.items() if name not in step.producer)
    kept = sum(step.tensors[name].bytes for name in step.updated)
    assert result.bounds.dram_s == pytest.approx((roots + kept + 4) / 4e9)


def test_static_energy_is_that_of_everything(result: Result, machine: Accelerator) -> None:
    assert machine.static_power_w == pytest.approx(STATIC_W)
    assert result.energy_breakdown.static == pytest.approx(STATIC_W * result.latency_s)
    assert result.energy_breakdown.static + result.energy_breakdown.dynamic == pytest.approx(result.energy_j)


def test_energy_of_transfers(result: Result) -> None:
    """DRAM by direction (in bursts of four bytes, so that hardly any is not full), the bus for every byte."""
    by_level, moved = result.energy_breakdown.by_level, result.dram_bytes
    assert moved.read != moved.write
    assert by_level["dram"] == pytest.approx(8 * (moved.read * 7e-12 + moved.write * 9e-12), rel=1e-3)
    (bus,) = (link for link in result.links if link.name == "bus")
    assert bus.bytes >= moved.total
    assert by_level["link"] == pytest.approx(8 * bus.bytes * 2e-12)


def test_energy_bound(step: Graph, result: Result) -> None:
    """A lane-cycle at 1 pJ, also for products (arrays take 3 or 5), compulsory bytes at 7 pJ a bit read, 9 written and
    2 on the bus, and static power for as long as it takes at least."""
    macs = sum(macs_of(step, op) for op in step.ops)
    lanes = lane_cycles(step)
    read = sum(tensor.bytes for name, tensor in step.tensors.items() if name not in step.producer)
    written = sum(step.tensors[name].bytes for name in step.updated) + 4
    expected = (macs + lanes) * 1e-12 + 8 * (read * 9e-12 + written * 11e-12) + STATIC_W * result.bounds.latency_s
    assert result.bounds.energy_j == pytest.approx(expected)


def test_chains_and_traffic_of_random_schedules_read_plainly() -> None:
    """Of the longest chain what waits for room, or in a queue, is no part. What is evicted crosses to DRAM too."""
    waited, evicted = 0, 0
    for number in (*range(1200, 1206), 1229, 1237, 1286):  # the last three evict
        found = random_schedule(number)
        if not found:
            continue
        scheduler, schedule = found
        result, dram = measure(scheduler, schedule, {}, 0.0), scheduler.machine.accelerator.dram
        (nodes, deps, _), ends = schedule.decided.events, list[int]()
        bits = dict.fromkeys((READ, WRITE, EVICT), 0)
        sizes = dict(bits)
        for at in range(schedule.size):
            needed = range(int(nodes.dep_start[at]), int(nodes.dep_end[at]))
            ready = [ends[deps.node[d]] + int(deps.lag[d]) for d in needed if deps.reason[d] != SPACE]
            ends.append(max(ready, default=0) + int(nodes.duration[at]) + int(nodes.latency[at]))
            if (kind := int(nodes.kind[at])) in bits and 0 in (nodes.source[at], nodes.target[at]):
                bits[kind] += 8 * int(nodes.bursts[at])
                sizes[kind] += int(nodes.bytes[at])
        assert result.longest_chain_s == pytest.approx(max(ends) / scheduler.machine.ticks_per_second)
        assert (result.dram_bytes.read, result.dram_bytes.write) == (sizes[READ], sizes[WRITE] + sizes[EVICT])
        joules = bits[READ] * dram.read_energy_j_per_bit + (bits[WRITE] + bits[EVICT]) * dram.write_energy_j_per_bit
        assert result.energy_breakdown.by_level["dram"] == pytest.approx(joules)
        figures = figures_of(scheduler, schedule)
        assert figures.dram_bytes == result.dram_bytes.total
        assert figures.energy_j == pytest.approx(result.energy_j)
        waited += any(reason == SPACE for reason in deps.reason)
        evicted += sizes[EVICT] > 0
    assert waited > 1
    assert evicted > 1
