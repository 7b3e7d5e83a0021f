"""The hardware studies on made-up points whose answers are known, and for real on very few."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monet.search.hardware.analysis import objectives_of
from monet.search.hardware.efficiency import efficiency, visited
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space, load_space
from monet.studies import edge_tpu, fusemax, inference_vs_training
from monet.studies.findings import points_of, store_of
from monet.studies.study import STUDIES, Options, study_named
from tests.search.evaluators import metrics as made_up
from tests.search.spaces import grid


def records(space: Space, figures: Callable[[dict[str, Any]], dict[str, float]], step: int = 1) -> list[Record]:
    return [Record(point, "ok", "", figures(point)) for point in list(space.points())[::step]]


def resnet(training_likes_small: bool) -> Callable[[dict[str, Any]], dict[str, float]]:
    """Inference gains by large elements; training by as much, or by small ones."""

    def figures(point: dict[str, Any]) -> dict[str, float]:
        macs, elements = point["simd_units"] * point["lanes"], point["x_pes"] * point["y_pes"]
        size = macs if not training_likes_small else 2048 / macs
        found = {"area_mm2": float(macs * elements), "macs": float(macs * elements)}
        for name, works in (("inference", macs), ("training", size)):
            latency, energy = 1.0 / works + 0.01 / elements, works**0.5 + 0.01 * elements
            found |= {f"{name}.latency_s": latency, f"{name}.energy_j": energy, f"{name}.edp_js": latency * energy}
        return found

    return figures


def test_edge_tpu_findings_follow_the_points() -> None:
    space = load_space("edge-tpu")
    differ = {one.claim: one for one in edge_tpu.findings(space, records(space, resnet(True), 7))}
    agree = {one.claim: one for one in edge_tpu.findings(space, records(space, resnet(False), 7))}
    best = next(claim for claim in differ if "best for inference" in claim)
    assert differ[best].holds
    assert not agree[best].holds
    assert agree[best].values["penalty"] == pytest.approx({"latency": 1.0, "energy": 1.0, "edp": 1.0})
    fronts = next(claim for claim in differ if "fronts" in claim)
    assert not agree[fronts].holds
    assert agree[fronts].values["share"] == 1.0
    fastest = next(claim for claim in differ if "fastest" in claim)
    assert differ[fastest].holds
    assert not agree[fastest].holds
    leave = next(claim for claim in differ if "leave" in claim)
    assert differ[leave].values["latency_area"][0] > differ[leave].values["latency_area"][1] == 0.0
    assert not agree[leave].holds


def gpt(training_energy: float, sensitive_to: str) -> Callable[[dict[str, Any]], dict[str, float]]:
    def figures(point: dict[str, Any]) -> dict[str, float]:
        latency = 1.0 / point[sensitive_to] + 1e-3 / point["buffer_bandwidth"]
        found: dict[str, float] = {"area_mm2": 1.0}
        for name, energy in (("inference", 1.0), ("training", training_energy)):
            found |= {f"{name}.latency_s": latency, f"{name}.energy_j": energy * (1 + latency)}
        return found

    return figures


def test_fusemax_findings_follow_the_points() -> None:
    space = load_space("fusemax")
    assert fusemax.energy_ratio(space, records(space, gpt(4.5, "array"))).holds
    assert not fusemax.energy_ratio(space, records(space, gpt(5.5, "array"))).holds
    bound, free = (records(space, gpt(4.5, name)) for name in ("dram_bandwidth", "array"))
    assert fusemax.bandwidth_dominates(space, bound, "dram_bandwidth", "DRAM").values["rank"]["latency"] == 1
    assert fusemax.bandwidth_dominates(space, bound, "dram_bandwidth", "DRAM").holds
    assert not fusemax.bandwidth_dominates(space, free, "dram_bandwidth", "DRAM").holds


def test_search_efficiency_is_one_for_all_points_and_less_for_few() -> None:
    space = grid(8, 8)
    every = records(space, made_up)
    goals = objectives_of(space, "training")
    assert efficiency(space, every, "random", goals, 64, [0]).shares == (1.0,)
    few = efficiency(space, every, "random", goals, 3, [0, 1, 2])
    assert all(0.0 < one < 1.0 for one in few.shares)
    known = {space.key(one.values): one for one in every}
    seen = visited(space, known, "nsga2", goals, 20, 1)
    assert len({space.key(one.values) for one in seen}) == len(seen) == 20


def test_studies_are_listed_and_keep_their_points(tmp_path: Path) -> None:
    assert {"edge-tpu", "fusemax", "inference-vs-training"} <= set(STUDIES)
    assert study_named("edge-tpu") is edge_tpu.run
    options = Options(store=str(tmp_path))
    paths = {store_of(load_space(name), options) for name in inference_vs_training.SPACES.values()}
    assert len(paths) == 4


@pytest.mark.slow
def test_a_quick_look_at_the_real_thing(tmp_path: Path) -> None:
    options = Options(effort=1, store=str(tmp_path))
    outcome = edge_tpu.run(options)
    assert len(outcome.values["findings"]["memories priced"]) == 5
    space, found = points_of("edge-tpu", options)
    assert len(found) == 24
    assert all(one.ok for one in found)
    assert space.name == "edge-tpu"
