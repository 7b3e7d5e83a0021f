"""The search over parallel plans: what bounds leave out would not have been chosen; all legal plans and no others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from monet.distributed.costs.chunk_costs import Least
from monet.distributed.evaluation import evaluate_plan
from monet.distributed.layout import lay
from monet.distributed.memory.fitting import memory_of
from monet.distributed.pipelines.pipeline import PipelineWork, simulate
from monet.distributed.plan import ParallelPlan
from monet.report.distribution import counts_line, why
from monet.request.system_request import SystemRequest
from monet.search.distribution.bounds import HeldBytes, ModelNumbers, by_blocks, by_middle, piped
from monet.search.distribution.costing import Costing
from monet.search.distribution.search import Distribution, distribute, neighbours, same_but
from monet.search.distribution.space import PlanSpace, divisors

GPT = "gpt:layers=12,hidden=16,heads=2,vocabulary=32,positions=8,sequence=8"
SYSTEM = {
    "name": "boards",
    "devices": "micro-npu",
    "network": {
        "board": {"size": 2, "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-6},
        "rack": {"size": 2, "bandwidth_bytes_per_s": 1e8, "latency_s": 5e-6},
    },
}
SPACE = PlanSpace(
    4, 4, 12, 4, most_micro_batch=1, most_interleave=2, sharding=("none", "parameters"), recomputation=("none",),
    sequence_parallel=(False, True),
)  # fmt: skip
REQUEST = SystemRequest(GPT, system=SYSTEM, batch=4, optimizer="adam", fusion="none")


def test_plans_are_all_whose_numbers_divide() -> None:
    plans = list(SPACE.plans())
    assert len(set(plans)) == len(plans)
    for plan in plans:
        assert plan.devices == SPACE.devices
        assert SPACE.blocks % plan.chunks == 0
        assert plan.micro_batches(SPACE.batch) >= 1
    assert {(plan.data, plan.tensor, plan.pipeline) for plan in plans} == {
        (4, 1, 1), (2, 2, 1), (2, 1, 2), (1, 4, 1), (1, 2, 2), (1, 1, 4),
    }  # fmt: skip
    assert {plan.shard for plan in plans if plan.data > 1} == {"none", "parameters"}
    assert {plan.shard for plan in plans if plan.data == 1} == {"none"}
    assert divisors(12) == (1, 2, 3, 4, 6, 12)


def test_plans_are_those_of_a_plain_search() -> None:
    """Every combination of numbers, tried one by one against what a plan has to satisfy."""
    for devices, batch, blocks in ((4, 12, 12), (6, 6, 6), (8, 8, 4)):
        space = PlanSpace(
            devices, batch, blocks, most_tensor=4, most_micro_batch=2, most_interleave=3, sharding=("none", "states"),
            recomputation=("none",), schedules=("1f1b", "zero-bubble"),
        )  # fmt: skip
        numbers = range(1, max(devices, batch, blocks) + 1)
        expected = set()
        for tensor, pipeline, micro_batch, interleave in product(numbers, numbers, numbers, numbers):
            data, rest = divmod(devices, tensor * pipeline)
            if rest or not data or tensor > 4 or micro_batch > 2 or interleave > 3 or batch % (data * micro_batch):
                continue
            passes = batch // (data * micro_batch)
            if blocks % (pipeline * interleave) or (interleave > 1 and (pipeline == 1 or passes % pipeline)):
                continue
            for shard, schedule, sequence in product(("none", "states"), ("1f1b", "zero-bubble"), (False, True)):
                if (shard != "none" and data == 1) or (sequence and tensor == 1):
                    continue
                if schedule != "1f1b" and (pipeline == 1 or interleave > 1):
                    continue
                expected.add((data, tensor, pipeline, micro_batch, interleave, shard, schedule, sequence))
        plans = [
            (
                plan.data, plan.tensor, plan.pipeline, plan.micro_batch, plan.interleave, plan.shard,
                plan.pipeline_schedule, plan.sequence_parallel,
            )
            for plan in space.plans()
        ]  # fmt: skip
        assert len(plans) == len(set(plans))
        assert set(plans) == expected


@pytest.fixture(scope="module")
def both() -> tuple[Distribution, Distribution]:
    coster, system = REQUEST.coster(), REQUEST.load_system()
    quick = distribute(coster, system, SPACE, GPT)
    return quick, distribute(coster, system, SPACE, GPT, exhaustive=True)


def test_the_best_is_that_of_costing_all(both: tuple[Distribution, Distribution]) -> None:
    quick, exhaustive = both
    assert quick.best is not None
    assert exhaustive.best is not None
    assert quick.best.result.latency_s == exhaustive.best.result.latency_s
    assert exhaustive.bounded == 0
    assert len(exhaustive.tried) + sum(exhaustive.illegal.values()) + exhaustive.too_large == exhaustive.plans
    assert len(quick.tried) + quick.bounded + sum(quick.illegal.values()) + quick.too_large == quick.plans


def test_bounds_are_below_what_plans_cost(both: tuple[Distribution, Distribution]) -> None:
    numbers = ModelNumbers.of(REQUEST.coster(), REQUEST.load_system())
    held = HeldBytes(REQUEST.coster())
    costing = Costing(REQUEST.coster(), REQUEST.load_system(), SPACE.batch, GPT)
    for one in both[1].tried:
        seconds = _bounds(costing, one.plan)
        assert seconds == sorted(seconds)  # closer and closer
        assert numbers.seconds(one.plan, SPACE.batch) <= one.result.latency_s
        assert seconds[-1] <= one.result.latency_s * (1 + 1e-12)
        activations = held.bytes(one.plan, SPACE.batch)
        assert activations > 0
        assert numbers.bytes(one.plan) + activations <= one.result.peak_memory_bytes


def _bounds(costing: Costing, plan: ParallelPlan) -> list[float]:
    """Bounds of a step as the search takes them, one after the other."""
    passes, blocks = plan.micro_batches(SPACE.batch), SPACE.blocks // plan.chunks
    forward, backward, last = costing.ports(plan)
    floor, block = costing.floor(plan), costing.block(plan)
    floor = Least(max(floor.forward, forward), max(floor.backward, backward), floor.apart, last)
    least = floor._replace(forward=max(floor.forward, block.forward), backward=max(floor.backward, block.backward))
    assert min(block) > 0
    return [
        by_blocks(plan, passes, blocks, floor), by_middle(plan, passes, blocks, least, block),
        costing.before_update(plan),
    ]  # fmt: skip


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_a_pipeline_is_never_faster_than_its_bound(schedule: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        stages, chunks = int(random.integers(1, 6)), 1 if schedule == "zero-bubble" else int(random.integers(1, 4))
        passes = stages * int(random.integers(1, 4))
        plan = ParallelPlan(
            pipeline=stages,
            interleave=chunks if stages > 1 else 1,
            pipeline_schedule=schedule if stages > 1 else "1f1b",
        )
        least = random.uniform(0.1, 1.0, 3)
        seconds = np.zeros((3, plan.chunks, passes))
        seconds[:2] = least[:2, None, None] + random.uniform(0, 0.5, (2, plan.chunks, 1)) * random.integers(0, 2)
        if plan.pipeline_schedule == "zero-bubble":
            seconds[2], seconds[1] = 0.4 * seconds[1], 0.6 * seconds[1]
        none = np.zeros(plan.chunks)
        work = PipelineWork(stages, seconds, none, none, np.zeros(stages), np.zeros(stages))
        bound = piped(plan, passes, float(least[0]), float(least[1]))
        assert simulate(work, plan.pipeline_schedule).seconds >= bound * (1 - 1e-12)


def test_unlike_stages_may_be_faster_than_equal_ones() -> None:
    """So the bound of equal stages is for these only: half the work first, a quarter behind it."""
    seconds = np.zeros((3, 2, 2))
    seconds[:2] = np.array([0.25, 0.125])[None, :, None]
    work = PipelineWork(2, seconds, np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))
    assert simulate(work).seconds < piped(ParallelPlan(pipeline=2), 2, 0.1875, 0.1875)
    numbers = ModelNumbers(0.1875, 0.1875, 0, 0, 0, 1.0, 2, equal=False)
    assert simulate(work).seconds >= numbers.seconds(ParallelPlan(pipeline=2), 2)


def test_what_blocks_take_at_least_is_below_what_they_take() -> None:
    """So chunks are as their schedules say: nothing is added to them."""
    coster, system = REQUEST.coster(), REQUEST.load_system()
    for plan in (ParallelPlan(data=2, pipeline=2), ParallelPlan(tensor=2, sequence_parallel=True, pipeline=2)):
        laid = lay(plan, system, 4)
        floor = coster.floor(plan, laid.network, laid.devices[0], laid.micro_batches)
        forward, backward = coster.between(plan, laid.network, laid.devices[0], laid.micro_batches)
        assert 0 < floor.forward <= forward
        assert 0 < floor.backward <= backward
        chunks = coster.chunks(plan, laid.network, laid.devices, laid.micro_batches)
        assert all(chunk.forward["seconds"] >= chunk.blocks * forward for chunk in chunks)


def test_processes_find_the_same(both: tuple[Distribution, Distribution]) -> None:
    found = distribute(REQUEST.coster(), REQUEST.load_system(), SPACE, GPT, jobs=2)
    assert [one.plan for one in found.tried] == [one.plan for one in both[0].tried]
    assert found.bounded == both[0].bounded


def test_held_bytes_are_below_memory_at_other_micro_batches_and_recomputation() -> None:
    coster, system = REQUEST.coster(), REQUEST.load_system()
    plans = [
        ParallelPlan(data=1, tensor=2, pipeline=2, micro_batch=3, recompute="selective"),
        ParallelPlan(data=2, pipeline=2, interleave=3, micro_batch=3, recompute="full", shard="parameters"),
        ParallelPlan(data=2, tensor=2, sequence_parallel=True, micro_batch=3, shard="gradients"),
    ]
    held = HeldBytes(coster)
    for plan in plans:
        for peak in memory_of(coster, lay(plan, system, 12))[:1]:
            assert 0 < held.bytes(plan, 12) <= peak.parts["activations"]


def test_nothing_on_the_front_is_beaten(both: tuple[Distribution, Distribution]) -> None:
    found = both[1]
    points = [(one.value("time"), one.value("memory"), one.value("energy")) for one in found.tried]
    for one in found.front:
        mine = (one.value("time"), one.value("memory"), one.value("energy"))
        assert not any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in points)


def test_the_least_memory_and_energy_are_found_too(both: tuple[Distribution, Distribution]) -> None:
    coster, system = REQUEST.coster(), REQUEST.load_system()
    for objective in ("memory", "energy"):
        found = distribute(coster, system, SPACE, GPT, objective)
        assert found.best is not None
        assert found.best.value(objective) == min(one.value(objective) for one in both[1].tried)


def test_why_compares_with_plans_that_differ_in_one_thing(both: tuple[Distribution, Distribution]) -> None:
    found = both[1]
    assert found.best is not None
    for name, other in neighbours(found.tried, found.best).items():
        assert getattr(other.plan, name) != getattr(found.best.plan, name)
        assert other.result.latency_s >= found.best.result.latency_s


def test_where_nothing_fits_the_least_short_is_named() -> None:
    small = {**SYSTEM, "devices": {"hardware": "micro-npu", "set": {"dram.external.capacity_bytes": 20000}}}
    request = replace(REQUEST, system=small)
    found = distribute(request.coster(), request.load_system(), SPACE, GPT, exhaustive=True)
    quick = distribute(request.coster(), request.load_system(), SPACE, GPT)
    assert found.best is quick.best is None
    assert found.least_short is not None
    assert quick.least_short is not None
    assert quick.least_short.result.reason == found.least_short.result.reason
    reason = evaluate_plan(
        request.coster(), request.load_system(), ParallelPlan(data=4), 4, GPT, only_fitting=True
    ).reason  # fmt: skip
    assert reason is not None
    assert found.least_short.result.reason is not None
    assert found.least_short.result.reason.bytes_short <= reason.bytes_short


def test_an_interrupted_search_keeps_the_best_so_far() -> None:
    """And says how many plans it knows nothing of."""
    seen: list[int] = []

    def watch(done: int, plans: int, best: object) -> None:
        assert 0 <= done <= plans
        seen.append(done)
        if best is not None:
            raise KeyboardInterrupt

    found = distribute(REQUEST.coster(), REQUEST.load_system(), SPACE, GPT, exhaustive=True, watch=watch)
    assert found.interrupted
    assert found.best is not None
    assert 0 < found.not_looked_at < found.plans
    assert "not looked at; interrupted" in counts_line(found)


def test_progress_counts_plans_that_need_no_closer_bound() -> None:
    seen: list[int] = []
    found = distribute(
        REQUEST.coster(), REQUEST.load_system(), SPACE, GPT, watch=lambda done, *_: seen.append(done)
    )  # fmt: skip
    assert seen == sorted(seen)
    assert seen[0] < found.plans == seen[-1]
    assert found.not_looked_at == 0


def test_a_plan_that_differs_in_more_than_one_thing_says_so(both: tuple[Distribution, Distribution]) -> None:
    """Of the row of tensor degrees all that differ by it alone are taken away."""
    found = both[1]
    assert found.best is not None
    best = found.best
    alone = [one for one in found.tried if one is best or not same_but(one.plan, best.plan, "tensor")]
    table = why(replace(found, tried=tuple(alone)))
    assert table is not None
    (row,) = [str(row[0]) for row in table.rows if str(row[0]).startswith("tensor")]
    assert ", with " in row
    other = neighbours(alone, best)["tensor"].plan
    for name in ("shard", "pipeline", "interleave"):
        assert (f"{name} {getattr(other, name)}" in row) == (getattr(other, name) != getattr(best.plan, name))
