"""What must hold for any graph, accelerator and plan (design 3.7), on a thousand random cases.

``MONET_TEST_CASES=10000 pytest -m '' tests/schedule/test_invariants.py`` tries ten thousand."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.mapping.cost_store import CostStore
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import measure, select_phases
from monet.schedule.plan import Placement, Plan, PlanError
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES, TIME_PARTS, DramBytes
from monet.schedule.schedule import Schedule
from monet.schedule.serving import run_replay
from monet.schedule.simulation.records import Events
from monet.training.step import training_step
from tests.schedule.cases import accelerator, random_graph, random_plan, random_schedule


def result_of(scheduler: Scheduler, schedule: Schedule) -> Result:
    return measure(scheduler, schedule, {}, 0.0)


def check(scheduler: Scheduler, schedule: Schedule) -> None:
    result = result_of(scheduler, schedule)
    assert result.feasible
    check_bounds(scheduler, schedule, result)
    check_sums(result)
    used = dict.fromkeys((memory.name for memory in scheduler.machine.memories), schedule.plan.memory_share)
    for trace in result.memory[1:]:
        assert trace.peak_bytes <= trace.capacity_bytes * used.get(trace.name, 1.0)
        assert trace.bytes.min() >= 0
        assert trace.bytes[:, -1].sum() >= 0


def check_bounds(scheduler: Scheduler, schedule: Schedule, result: Result) -> None:
    slack = 1 + 1e-9
    bounds = result.bounds
    assert result.latency_s * slack >= bounds.latency_s
    assert result.memory[0].peak_bytes >= bounds.memory_bytes
    dram = scheduler.machine.accelerator.dram
    assert result.latency_s * slack >= result.dram_bytes.total / dram.bandwidth_bytes_per_s
    assert result.dram_bytes.total >= bounds.dram_bytes
    assert result.energy_j * slack >= bounds.energy_j
    for link in result.links:
        assert link.busy_s <= result.latency_s * slack
        if len(link.endpoints) == 2:
            assert result.latency_s * slack >= link.bytes / link.bandwidth_bytes_per_s


def check_sums(result: Result) -> None:
    for name in ("by_level", "by_core", "by_phase", "by_operator"):
        assert math.isclose(math.fsum(getattr(result.energy_breakdown, name).values()), result.energy_j, rel_tol=1e-9)
    for core in result.cores:
        assert set(core.time_ticks) == set(TIME_PARTS)
        assert sum(core.time_ticks.values()) == result.ticks
        assert min(core.time_ticks.values()) >= 0
    read = sum(row.dram_read_bytes for row in result.operators)
    written = sum(row.dram_write_bytes for row in result.operators)
    assert result.dram_bytes == DramBytes(read, written, read + written)
    assert sum(row.dram_bytes for row in result.phases.values()) == result.dram_bytes.total
    for peak in result.memory_peak_bytes.values():
        assert sum(getattr(peak, name) for name in CATEGORIES) == peak.total


def check_monotone(scheduler: Scheduler, schedule: Schedule, seed: random.Random) -> None:
    """Any set of shorter durations and latencies is never slower, node by node."""
    decided = schedule.decided
    nodes, deps, bookings = (one.copied() for one in decided.events)
    shrink = np.array([seed.random() for _ in range(len(bookings))])
    bookings.ticks[:] = (bookings.ticks * shrink).astype(np.int64)
    for row in nodes:
        row["duration"] = bookings.ticks[row["book_start"] : row["book_end"]].max(initial=0)
    faster = run_replay(decided._replace(events=Events(nodes, deps, bookings)), scheduler.machine)
    assert np.all(faster.start <= schedule.timed.start)
    assert np.all(faster.end <= schedule.timed.end)


CASES = int(os.environ.get("MONET_TEST_CASES", "2000"))
BLOCK = 50
QUICK = 1  # blocks that are not left to the second tier


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=[pytest.mark.slow] * (block >= QUICK)) for block in range(-(-CASES // BLOCK))],
)
def test_invariants(block: int) -> None:
    ran = 0
    for number in range(1000 + BLOCK * block, 1000 + BLOCK * block + BLOCK):
        found = random_schedule(number)
        if found:
            ran += 1
            check(*found)
            if number % 4 == 0:
                check_monotone(*found, random.Random(number))
    assert ran >= BLOCK // 2


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(["bus", "mesh", "shared"]))
def test_twice_the_clock_and_bandwidth_is_half_the_time(number: int, network: str) -> None:
    ticks = []
    for clock, latency in ((500, 40), (1000, 20)):
        seed = random.Random(number)
        scheduler = Scheduler(random_graph(seed), accelerator(network, sram=65536, latency=latency, clock=clock))
        plan = replace(random_plan(seed, scheduler), groups=())
        ticks.append(scheduler.schedule(plan).timed.makespan)
    assert ticks[0] == ticks[1]


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_names_do_not_matter(number: int) -> None:
    found = []
    for prefix in ("", "other"):
        seed = random.Random(number)
        scheduler = Scheduler(random_graph(seed, prefix), accelerator("mesh", sram=65536, local=65536))
        found.append(scheduler.schedule(random_plan(seed, scheduler)).timed.makespan)
    assert found[0] == found[1]


@pytest.mark.parametrize("boundary", ["keep", "dram"])
def test_one_core_is_no_split_and_plans_are_deterministic(boundary: str) -> None:
    scheduler = Scheduler(random_graph(random.Random(5)), accelerator("mesh", sram=65536))
    operators = scheduler.workload.operators
    core = {op.op.name: ("pe[0,0]" if op.is_matrix else "simd") for op in operators}
    plain = Plan((), {name: Placement((one,)) for name, one in core.items()}, boundary)
    split = Plan((), {op.op.name: Placement((core[op.op.name],), op.nest.dims[0][0]) for op in operators}, boundary)
    first, second, again = (scheduler.schedule(plan).timed for plan in (plain, split, plain))
    assert np.array_equal(first.end, second.end)
    assert np.array_equal(first.end, again.end)


def test_more_memory_moves_no_more_bytes_in_a_fused_chain() -> None:
    seed = random.Random(3)
    graph = random_graph(seed)
    moved = []
    for sram in (8192, 65536):
        scheduler = Scheduler(graph, accelerator("shared", sram=sram))
        moved.append(result_of(scheduler, scheduler.schedule(Plan())).dram_bytes.total)
    assert moved[1] <= moved[0]


@pytest.mark.parametrize("number", range(16))
def test_a_scheduler_that_has_seen_other_plans_gives_the_same_answer(number: int) -> None:
    seed = random.Random(number)
    graph, hardware = random_graph(seed), accelerator("mesh", sram=65536, local=65536)
    used = Scheduler(graph, hardware)
    plans = [random_plan(seed, used) for _ in range(3)]
    for plan in plans:
        try:
            found = used.schedule(plan).timed
        except PlanError:
            continue
        fresh = Scheduler(graph, hardware, store=CostStore())
        assert np.array_equal(found.end, fresh.schedule(plan).timed.end)


@pytest.mark.parametrize("boundary", ["keep", "dram"])
@pytest.mark.parametrize("model", ["mlp-robot", "resnet18"])
def test_the_forward_slice_of_a_training_plan_is_the_inference_plan(model: str, boundary: str) -> None:
    graph, hardware = load_model(model), load_hardware("edge-tpu")
    step = Scheduler(training_step(graph), hardware)
    plan = step.complete(Plan(boundary=boundary))
    inference = Scheduler(graph, hardware)
    forward = {operator.op.name for operator in inference.workload.operators}
    plan = replace(plan, placements={name: one for name, one in plan.placements.items() if name in forward})
    part = Scheduler(select_phases(training_step(graph), ["forward"]), hardware)
    first, second = inference.schedule(plan), part.schedule(plan)
    assert np.array_equal(first.timed.end, second.timed.end)
    assert result_of(inference, first).dram_bytes == result_of(part, second).dram_bytes
