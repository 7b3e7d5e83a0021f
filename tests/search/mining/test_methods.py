"""Other methods and hand-made designs on the same evaluator and within the same limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from monet.errors import MonetError
from monet.search.mining.comparison import beside_of, within
from monet.search.mining.methods import BLACK_BOX, hand_designs, mine_by
from monet.search.mining.mine import Problem, analysed
from monet.search.mining.templates import Limits, load_template
from monet.search.mining.wham import Wham
from tests.search.mining.test_mine import small


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("methods") / "designs.sqlite")


def test_black_boxes_stay_within_limits_and_budget(store: str) -> None:
    problem = small()
    for method in BLACK_BOX:
        found = mine_by(method, problem, store, evaluations=4, resume=True)
        again = mine_by(method, problem, store, evaluations=4, resume=True)
        assert found.best is not None
        assert found.gap is None
        assert found.best.metrics["full_use_power_w"] <= 1.0
        assert len(found.records) <= 5
        assert [each.values for each in found.records] == [each.values for each in again.records]


def test_wham_and_what_stands_beside(store: str) -> None:
    found = mine_by("wham", small(), store, evaluations=3, resume=True)
    assert found.best is not None
    assert "in WHAM's model" in found.notes[0]
    beside = beside_of(found, store, hand=True, inference=False)
    assert {each.name for each in beside} == {"tpu-like", "nvdla-like", "a100-like"}
    best = min(found.cost(record) for record in found.records if record.ok)
    assert within(found.records, found.problem, best) is not None
    assert within(found.records, found.problem, best / 2) is None


@pytest.mark.parametrize("name", ["edge", "wham", "phaze"])
def test_hand_designs_fit_and_could_not_be_larger(name: str) -> None:
    template = load_template(name)
    problem = Problem(template, {"model": template.workload({"model": "mlp-robot"})}, template.limits)
    space = problem.space()
    found = hand_designs(problem, space)
    assert set(found) == {"tpu-like", "nvdla-like", "a100-like"}
    for design, values in found.items():
        assert problem.fits(space, values)
        scaled = template.model.designs[design].scaled
        known = {each.name: each.values for each in space.parameters}
        places = {each: known[each].index(values[each]) + 1 for each in scaled}
        if all(place < len(known[each]) for each, place in places.items()):
            larger = values | {each: known[each][place] for each, place in places.items()}
            assert not problem.fits(space, larger)


def test_core_counts_stop_where_nothing_waits_any_more() -> None:
    template = load_template("wham")
    problem = Problem(
        template, {"model": template.workload({"model": "bert:layers=1,hidden=64,heads=2", "sequence": 16})}, Limits()
    )
    model = Wham(problem.space(), analysed(problem.workloads), problem.goal, problem.limits)
    found = model.counts_for({"rows": 32, "columns": 32, "lanes": 32, "buffer_mib": 2})
    assert found is not None
    assert found.steps_s["model"] >= found.critical_s["model"]
    assert found.steps_s["model"] <= 1.05 * found.critical_s["model"]
    assert found.values["tensor_cores"] * found.values["vector_cores"] < 64


def test_unknown_method(tmp_path: Path) -> None:
    with pytest.raises(MonetError, match="--method 'whem': did you mean 'wham'"):
        mine_by("whem", small(), str(tmp_path / "x.sqlite"), evaluations=2)
