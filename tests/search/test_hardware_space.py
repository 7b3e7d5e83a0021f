from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from monet.errors import MonetError
from monet.hardware import load_hardware
from monet.search.hardware.exploration import require_satisfiable
from monet.search.hardware.expressions import ExpressionError, parse_comparison
from monet.search.hardware.samplers import distribution, search_named
from monet.search.hardware.space import SpaceError, load_space, space_from_text, space_names, space_schema
from tests.search.spaces import small_space


def test_shipped_spaces_are_those_of_the_paper() -> None:
    edge = load_space("edge-tpu")
    sizes = {one.name: len(one.values) for one in edge.parameters}
    assert sizes == {"x_pes": 5, "y_pes": 5, "simd_units": 4, "lanes": 4, "memory_bytes": 5, "register_bytes": 5}
    assert edge.size == 10_000
    assert {"edge-tpu", "fusemax"} <= set(space_names())


def test_all_points_once_and_those_with_one_core_together() -> None:
    space = load_space("edge-tpu")
    points = list(space.points())
    assert len({space.key(one) for one in points}) == 10_000
    cores = [(one["simd_units"], one["lanes"], one["memory_bytes"], one["register_bytes"]) for one in points]
    changes = sum(first != second for first, second in itertools.pairwise(cores))
    assert changes == 4 * 4 * 5 * 5 - 1  # 25 grids of one core, then the next core


@pytest.mark.parametrize("name", space_names())
def test_a_point_is_the_hardware_with_its_values_set(name: str) -> None:
    space = load_space(name)
    point = next(iter(space.points()))
    overrides = {path: point[one.name] for one in space.parameters for path in one.sets}
    assert space.hardware(point) == load_hardware(space.base["name"], space_settings(name) | overrides)


def space_settings(name: str) -> dict[str, Any]:
    from monet.hardware.document import read_document
    from monet.search.hardware.space import SPACES

    return dict(read_document(SPACES / f"{name}.yaml").get("set") or {})


def test_a_space_survives_its_own_text() -> None:
    space = small_space(constraints=["area_mm2 <= 1000"], set={"clock_hz": "1 GHz"})
    again = space_from_text(space.text)
    assert (again.base, again.parameters, again.meaning, again.text) == (
        space.base, space.parameters, space.meaning, space.text,
    )  # fmt: skip
    assert again.base["clock_hz"] == "1 GHz"


def test_meaning_changes_with_what_decides_figures_only() -> None:
    space = small_space()
    more = small_space(parameters=space.model.model_dump()["parameters"] | {"x_pes": {"values": [1, 2, 8]}})
    assert more.meaning == space.meaning
    assert small_space(objectives=["area"]).meaning == space.meaning
    assert small_space(set={"clock_hz": "1 GHz"}).meaning != space.meaning
    assert small_space(constraints=["area_mm2 <= 9"]).meaning != space.meaning


def test_workload_knobs_are_parameters_too() -> None:
    space = small_space(
        parameters={
            "batch": {"sets": "workloads.*.batch", "values": [1, 8]},
            "fusion": {"sets": "workloads.training.fusion", "values": ["none", "auto"]},
        }
    )
    workloads = space.workloads_at({"batch": 8, "fusion": "none"})
    assert workloads["training"].batch == workloads["inference"].batch == 8
    assert (workloads["training"].fusion, workloads["inference"].fusion) == ("none", "auto")


def parameter(**model: Any) -> dict[str, Any]:
    return {"parameters": {"p": {"sets": "clock_hz"} | model}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (parameter(sets="cores.pe.axes.lane.size", values=[1]), "did you mean 'lanes'"),
        (parameter(sets="cores.pe.axes.lanes.sise", values=[1]), "did you mean 'size'"),
        (parameter(values=[]), "parameters.p: values is empty"),
        (parameter(range={"low": 4, "high": 2}), "parameters.p.range: is empty: low 4.0 is above high 2.0"),
        (parameter(range={"low": 0, "high": 2, "log": True}), "a log range starts above 0"),
        (parameter(range={"low": 1, "high": 2, "step": 0}), "a number above 0 is needed"),
        (parameter(values=[1e9], range={"low": 1, "high": 2}), "give either values or range"),
        (parameter(values=[1e9, 1e9]), "is listed twice"),
        (parameter(values=["fast"]), "clock_hz: expected a number"),
        (parameter(valeus=[1]), "did you mean 'values'"),
        (parameter(sets="workloads.trainig.batch", values=[1]), "did you mean 'training'"),
        (parameter(sets="workloads.training.bath", values=[1]), "did you mean 'batch'"),
        (parameter(sets="workloads.training.batch", values=[-1]), "at least 1 is needed"),
        (parameter(sets="workloads.training.checkpoint", values=["per-blok"]), "did you mean 'per-block'"),
        ({"workloads": {"one": {"model": "mlp-robot", "fusion": "atuo"}}}, "did you mean 'auto'"),
        ({"parameters": {"speed": {"values": [1]}}}, "parameters.speed.sets: is required"),
        ({"parameters": {}}, "parameters"),
        ({"constraints": ["aera_mm2 <= 100"]}, "did you mean 'area_mm2'"),
        ({"constraints": ["area_mm2"]}, "is not a comparison"),
        ({"constraints": ["__import__('os').system('true') == 0"]}, "is not allowed"),
        ({"objectives": ["speed"]}, "objectives.0"),
        ({"objectives": ["trainig.latency"]}, "did you mean 'training'"),
        ({"workloads": {"training": {"model": "mlp-robot", "mode": "inference"}}}, "take another name"),
        ({"hardware": "edge-tpo"}, "did you mean 'edge-tpu'"),
        ({"set": {"cores.pe.axes.lanes.size": "x"}}, "hardware"),
        (
            {"workloads": {"one": {"model": "mlp-robot", "accumulate": 2}}},
            "workloads.one.accumulate: is called micro_batches now",
        ),
        ({"workloads": {"one": {"model": "mlp-robot", "hardware": "edge-tpu"}}}, "workloads.one.hardware: unknown key"),
        (
            {"workloads": {"one": {"model": "mlp-robot", "batch": 4, "micro_batches": 3}}},
            "workloads.one.micro_batches: must divide the batch (given: 4)",
        ),
        (
            {"workloads": {"one": {"model": "mlp-robot", "mode": "train"}}},
            "workloads.one.mode: allowed are training, inference",
        ),
    ],
)
def test_errors_say_where_and_what_is_allowed(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MonetError) as caught:
        small_space(**changes)
    assert said in str(caught.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(SpaceError) as caught:
        small_space(**parameter(sets="cores.pe.nothing.size", values=[1]), constraints=["x <= 1"], objectives=["y"])
    assert {one.path for one in caught.value.problems} == {"parameters.p", "constraints.0", "objectives.0"}


def test_a_constraint_nothing_satisfies_is_an_error_with_the_closest_point() -> None:
    space = small_space(constraints=["area_mm2 <= 0.5", "lanes >= 1"])
    with pytest.raises(
        MonetError, match=r"none of the 6 points satisfies the constraints\n  closest to area_mm2 <= 0.5"
    ):
        require_satisfiable(space)
    require_satisfiable(small_space(constraints=["area_mm2 <= 1000", "peak_tops_bf16 >= 0.1", "x_pes * lanes == 4"]))


def test_a_billion_points_are_not_exhausted() -> None:
    nodes = {"sets": "node_nm", "range": {"low": 7, "high": 90, "step": 0.001}}
    space = small_space(parameters={"p": {"sets": "clock_hz", "range": {"low": 1000, "high": 99999}}, "q": nodes})
    assert (space.size or 0) > 10**9
    with pytest.raises(MonetError, match="more than the 1,000,000 that --search exhaustive takes"):
        search_named("exhaustive", space, None, 0)
    assert len(next(search_named("random", space, 10, 0))) == 10


def test_a_continuous_space_is_not_exhausted() -> None:
    space = small_space(**parameter(range={"low": "400 MHz", "high": "1.2 GHz", "log": True}))
    assert space.size is None
    assert all(isinstance(one["p"], int) for one in next(search_named("random", space, 8, 0)))
    loose = small_space(**parameter(sets="node_nm", range={"low": 7.5, "high": 45.0}))
    assert loose.size is None
    with pytest.raises(MonetError, match="can take any number"):
        search_named("exhaustive", loose, None, 0)
    points = [one["p"] for batch in search_named("qmc", loose, 32, 0) for one in batch]
    assert len(set(points)) == 32
    assert all(7.5 <= one <= 45.0 for one in points)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"low": 1, "high": 4}, (1, 2, 3, 4)),
        ({"low": 1, "high": 8, "step": 2, "log": True}, (1, 2, 4, 8)),
        ({"low": 0.5, "high": 1.5, "step": 0.25}, (0.5, 0.75, 1.0, 1.25, 1.5)),
        ({"low": "1 KiB", "high": "4 KiB", "step": "1 KiB"}, (1024, 2048, 3072, 4096)),
    ],
)
def test_ranges(given: dict[str, Any], values: tuple[float, ...]) -> None:
    from monet.search.hardware.description import RangeModel

    assert RangeModel.model_validate(given).values() == values


def test_comparisons_compute_what_python_does() -> None:
    values = {"a": 3, "b": 0.5, "training.latency_s": 2.0}
    for text in ("a * b + 1 <= 2.5", "1 < a < 3", "a // 2 == 1", "-a < b", "max(a, b) % 2 == 1", "a / b != 6"):
        assert parse_comparison(text, values).holds(values) is eval(text, {}, values)
    assert parse_comparison("training.latency_s <= 1", values).violation(values) == pytest.approx(1.0)
    assert "is 2" in parse_comparison("training.latency_s <= 1", values).explain(values)


@pytest.mark.parametrize(
    "text",
    ["a", "a <= ", "a in (1, 2)", "a.__class__ == 1", "(lambda: 1)() == 1", "[a] == 1", "a if a else 1", "a <= True",
     "open('x') == a", "1 <= 2", "a ** 9 ** 9 ** 9 <= 1"],
)  # fmt: skip
def test_what_is_no_plain_comparison_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_comparison(text, ["a"])


def test_the_schema_allows_shipped_spaces(tmp_path: Path) -> None:
    schema = space_schema()
    assert set(schema["required"]) == {"name", "hardware", "parameters", "workloads"}
    assert "set" in schema["properties"]
    json.dumps(schema)


def test_searches_know_the_order_of_quantities() -> None:
    """What has an order is searched along it: neighbours of a good value are tried first."""
    memory = {"sets": "cores.pe.memories.sram.size_bytes", "values": ["512 KiB", "1 MiB", "2 MiB"]}
    batch = {"sets": "workloads.*.batch", "values": [4, 1, 2]}
    precision = {"sets": "workloads.*.precision", "values": ["bf16", "fp32"]}
    space = small_space(parameters={"memory": memory, "batch": batch, "precision": precision})
    kinds = [type(distribution(one)).__name__ for one in space.parameters]
    assert kinds == ["IntDistribution", "CategoricalDistribution", "CategoricalDistribution"]


def test_a_path_is_set_by_one_parameter() -> None:
    lanes = {"sets": "cores.pe.axes.lanes.size", "values": [1, 2]}
    with pytest.raises(MonetError, match=r"parameters\.second\.sets.*is already set by first"):
        small_space(parameters={"first": lanes, "second": lanes})
