from __future__ import annotations

from dataclasses import replace

import pytest

from monet.frontends import load_model
from monet.search.hardware.evaluation import evaluate, graph_of
from monet.training.step import training_step
from tests.search.spaces import small_space

POINT = {"x_pes": 1, "lanes": 2}


def test_a_point_has_the_figures_of_its_design_and_of_every_workload() -> None:
    space = small_space()
    record = evaluate(space.text, POINT)
    assert record.ok
    assert record.metrics["area_mm2"] == pytest.approx(space.hardware(POINT).area_m2 * 1e6)
    for name in ("inference", "training"):
        figures = record.metrics
        assert figures[f"{name}.edp_js"] == figures[f"{name}.energy_j"] * figures[f"{name}.latency_s"]
        assert figures[f"{name}.power_w"] == figures[f"{name}.energy_j"] / figures[f"{name}.latency_s"]
    assert evaluate(space.text, POINT).metrics == record.metrics


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"constraints": ["x_pes >= 2"]}, "constraint: x_pes >= 2 (x_pes is 1)"),
        ({"constraints": ["peak_tops_bf16 >= 50"]}, "constraint: peak_tops_bf16 >= 50"),
        ({"constraints": ["training.latency_s <= 1e-9"]}, "constraint: training.latency_s <= 1e-9"),
        ({"constraints": ["power_w <= 0.001"]}, "constraint: power_w <= 0.001"),
        ({"set": {"dram.dram.capacity_bytes": 1000}}, "bytes short"),
    ],
)
def test_what_is_infeasible_says_why(changes: dict[str, object], said: str) -> None:
    record = evaluate(small_space(**changes).text, POINT)
    assert record.status == "infeasible"
    assert said in record.reason


def test_hardware_and_schedule_are_explored_together() -> None:
    space = small_space(
        parameters={
            "lanes": {"values": [2]},
            "checkpoint": {"sets": "workloads.training.checkpoint", "values": ["keep-all", "recompute-all"]},
            "batch": {"sets": "workloads.*.batch", "values": [4, 64]},
            "fusion": {"sets": "workloads.*.fusion", "values": ["none", "auto"]},
        },
        workloads={"training": {"model": "mlp-robot", "batch": 2, "optimizer": "adam"}},
    )
    records = {tuple(point.values()): evaluate(space.text, point) for point in space.points()}
    assert all(one.ok for one in records.values())
    assert (
        records[2, "recompute-all", 64, "none"].metrics["training.energy_j"]
        > records[2, "keep-all", 64, "none"].metrics["training.energy_j"]
    )
    assert (
        records[2, "keep-all", 64, "auto"].metrics["training.latency_s"]
        <= records[2, "keep-all", 64, "none"].metrics["training.latency_s"]
    )


def test_the_graph_is_that_of_the_library() -> None:
    workload = small_space().workloads["training"]
    assert str(graph_of(workload)) == str(training_step(load_model("mlp-robot", batch=2)))
    assert graph_of(workload) is graph_of(replace(workload, fusion="none"))
