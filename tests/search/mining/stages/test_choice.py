"""The global choice: never worse with more designs kept, nor with one design per stage; near all assignments."""

from __future__ import annotations

from dataclasses import astuple
from itertools import product

import numpy as np
import pytest

from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.system import load_system
from monet.request import Request
from monet.search.hardware.description import PipelineModel
from monet.search.hardware.pipeline_stages import Pipeline, StageFigures, grown_to, pipeline_of
from monet.search.hardware.record import Record
from monet.search.mining.stages.choice import Choice, Chooser, choose, costed_stages

GPT = "gpt:layers=12,hidden=16,heads=2,vocabulary=32,sequence=8,positions=8"
METRICS = ("throughput", "throughput-per-tdp", "edp")


def pipeline(stages: int, batch: int = 12) -> Pipeline:
    asked = {"system": "edge-ethernet", "batch": batch, "plan": ParallelPlan(pipeline=stages).to_dict()}
    return pipeline_of(Request(GPT), PipelineModel.model_validate(asked))


def record(generator: np.random.Generator, kinds: int) -> Record:
    """A design with any figures: a faster one is larger, more or less."""
    speed = generator.uniform(0.5, 4.0)
    metrics = {
        "area_mm2": 3 * speed * generator.uniform(0.7, 1.5),
        "full_use_power_w": 0.3 * speed * generator.uniform(0.7, 1.5),
        "static_power_w": 0.05,
    }
    for kind in range(kinds):
        forward, backward = generator.uniform(0.5, 1.5, 2) * 1e-2 / speed
        figures = StageFigures(2, forward, 2 * backward, backward, 3 * backward, 1e-3, 2e-3, 3e-3, 1e4, 1e4)
        longer = StageFigures(3, *(1.4 * value for value in astuple(figures)[1:8]), 1e4, 1e4)
        for number, each in enumerate((figures, longer)):
            metrics |= each.to_metrics(f"stage{kind}.{number}")
    return Record({"speed": speed}, "ok", metrics=metrics)


def chooser(made: Pipeline, metric: str) -> Chooser:
    def profile(each: Record, cuts: tuple[int, ...]) -> list[StageFigures]:
        spans = zip(made.kinds, made.spans(cuts), strict=True)
        return [grown_to(costed_stages(each.metrics, kind), len(span)) for kind, span in spans]

    return Chooser(made, profile, metric, capacity=1e12)


def ranked(records: list[Record], kind: int) -> list[Record]:
    return sorted(records, key=lambda each: each.metrics[f"stage{kind}.1.forward_s"])


@pytest.mark.parametrize("metric", METRICS)
def test_more_designs_and_one_per_stage_are_never_worse(metric: str) -> None:
    made = pipeline(4)
    for seed in range(4):
        generator = np.random.default_rng(seed)
        records = [record(generator, 3) for _ in range(6)]
        tops = [ranked(records, kind) for kind in range(3)]
        found = [choose(chooser(made, metric), tops, top) for top in (1, 2, 4)]
        for choice in found:
            assert choice.homogeneous is not None
            assert choice.heterogeneous is not None
            assert choice.heterogeneous.cost <= choice.homogeneous.cost
            if metric == "throughput":
                assert choice.heterogeneous.throughput >= choice.homogeneous.throughput
        for name in ("homogeneous", "heterogeneous"):
            costs = [getattr(choice, name).cost for choice in found]
            assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("metric", METRICS)
def test_designs_per_stage_are_near_the_best_of_all_assignments(metric: str) -> None:
    made = pipeline(3)
    for seed in range(4):
        generator = np.random.default_rng(seed)
        records = [record(generator, 3) for _ in range(4)]
        costed = chooser(made, metric)
        every = [costed.choice(designs, made.cuts) for designs in product(records, repeat=3)]
        least = min(choice.cost for choice in every if choice)
        fresh = chooser(made, metric)
        assert min(choice.cost for choice in fresh.heterogeneous(records, made.cuts)) <= 1.01 * least


def test_layers_move_to_faster_devices() -> None:
    made = pipeline(3)
    generator = np.random.default_rng(5)
    records = [record(generator, 3) for _ in range(5)]
    found = choose(chooser(made, "throughput"), [ranked(records, kind) for kind in range(3)], 3)
    assert found.heterogeneous is not None
    assert sum(map(len, made.spans(found.heterogeneous.cuts))) == made.layers
    assert found.heterogeneous.throughput == found.by_top[-1][1]
    assert found.thrifty is not None
    assert found.thrifty.throughput >= 0.99 * found.heterogeneous.throughput
    assert found.thrifty.tdp_w <= found.heterogeneous.tdp_w


def test_what_does_not_fit_memory_is_no_choice() -> None:
    made = pipeline(3)
    small = chooser(made, "throughput")
    small.capacity = 1.0
    assert small.homogeneous([record(np.random.default_rng(0), 3)], made.cuts) == []


def test_the_system_of_the_pipeline_is_the_one_asked_for() -> None:
    assert pipeline(3).system.levels == load_system("edge-ethernet").levels


def test_the_thrifty_choice_draws_least() -> None:
    """Of those within a hundredth of the best's throughput; not the smallest, nor the fastest."""
    chooser = Chooser(pipeline(2), lambda *_: None, "throughput", 1e12)
    fast, small, cool, slow = (
        Choice((), (), seconds, 1.0, 1 / seconds, area, power, seconds, (), ())
        for seconds, area, power in ((1.0, 9.0, 9.0), (1.005, 1.0, 8.0), (1.008, 5.0, 4.0), (1.2, 0.5, 0.5))
    )
    chooser.known = {((number,), ()): choice for number, choice in enumerate((fast, small, cool, slow))}
    assert chooser.thrifty(fast) is cool
