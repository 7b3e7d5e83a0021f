"""Designs together with the parallel plan: combinations as if each were mined alone, the best by what a device does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.commands.application import app
from monet.commands.mine_plans import plan_options
from monet.distributed.plan import ParallelPlan
from monet.errors import MonetError
from monet.search.mining.stages.mine_stages import mine_stages
from monet.search.mining.stages.plans import PlanMining, mine_plans
from monet.search.mining.stages.problem import StageProblem
from tests.search.mining.stages.test_mine_stages import MLP, problem

BUDGET = 2  # evaluations


def asked(metric: str, **plan: int) -> Callable[[], StageProblem]:
    """A problem of two designs."""
    given = problem(MLP, metric)
    two = given.template.with_ranges({"core_count": [1], "rows": [8], "columns": [8]})
    return lambda: replace(given, template=two, plan=ParallelPlan(**plan))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> PlanMining:
    combinations = [
        ({"stages": 2, "tensor": 1}, asked("throughput", pipeline=2)),
        ({"stages": 3, "tensor": 1}, asked("throughput", pipeline=3)),
        ({"stages": 2, "tensor": 3}, asked("throughput", pipeline=2, tensor=3)),
    ]
    return mine_plans(combinations, str(tmp_path_factory.mktemp("plans") / "store"), top=2, evaluations=3 * BUDGET)


@pytest.mark.slow
def test_every_combination_is_what_it_is_alone(found: PlanMining, tmp_path: Path) -> None:
    for each, stages in zip(found.tried[:2], (2, 3), strict=True):
        alone = mine_stages(
            asked("throughput", pipeline=stages)(), str(tmp_path / f"{stages}.sqlite"), top=2, evaluations=BUDGET
        )
        assert each.choice is not None
        assert alone.chosen.heterogeneous is not None
        assert each.choice.throughput == alone.chosen.heterogeneous.throughput
        assert each.worth == each.choice.throughput / stages


def test_the_best_is_worth_most_and_what_cannot_run_says_why(found: PlanMining) -> None:
    worth = [each.worth for each in found.tried]
    assert found.best.worth == max(worth) > 0
    last = found.tried[-1]
    assert last.found is None
    assert last.worth == 0
    assert "tensor" in last.why


def test_combinations_none_of_which_can_run(tmp_path: Path) -> None:
    with pytest.raises(MonetError, match="no combination can run\n  tensor 3: "):
        mine_plans([({"tensor": 3}, asked("edp", pipeline=2, tensor=3))], str(tmp_path / "s"), top=1, evaluations=1)


def test_options_as_written() -> None:
    assert plan_options(["stages=2,4", "tensor=1,2,2", "sequence-parallel=yes,no", "precision=bf16"]) == {
        "stages": [2, 4],
        "tensor": [1, 2],
        "sequence_parallel": [True, False],
        "precision": ["bf16"],
    }
    for text, message in (
        ("tensor", "write NAME=VALUE,VALUE"),
        ("tenser=2", "no option 'tenser' of a pipeline; did you mean 'tensor'"),
        ("recompute=all", "--recompute 'all'"),
    ):
        with pytest.raises(MonetError, match=message):
            plan_options([text])
    with pytest.raises(MonetError, match="100 combinations, more than 64"):
        plan_options([f"stages={','.join(map(str, range(1, 11)))}", f"tensor={','.join(map(str, range(1, 11)))}"])


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    ranges = {"core_count": "1", "rows": "4,8", "columns": "8", "lanes": "4", "sram_kib": "64", "dram_gbps": "6.4"}
    narrowed = [part for name, values in ranges.items() for part in ("--range", f"{name}={values}")]
    page = tmp_path / "plans.html"
    done = CliRunner().invoke(
        app,
        ["mine", MLP, "--template", "edge", *narrowed, "--system", "edge-ethernet", "--stages", "2", "--fusion", "none",
         "--joint", "stages=2,3", "--evaluations", "2", "--jobs", "1", "--json", "-", "--report", str(page)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    values = json.loads(done.stdout)
    each = values["combinations"]
    assert [one["options"] for one in each] == [{"stages": 2}, {"stages": 3}]
    best = max(each, key=lambda one: one["worth"])
    assert values["options"] == best["options"]
    assert values["heterogeneous"] == best["choice"]
    assert "Combinations of design and plan" in page.read_text()
