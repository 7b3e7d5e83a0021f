"""Designs mined together with options of training: equal to trying every pair, however it is run, and step by step."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from monet.commands.mine_joint import joint_options
from monet.errors import MonetError
from monet.report.html.joint import write_joint
from monet.report.joint import on_best_design, summary
from monet.search.hardware.evaluation import evaluate
from monet.search.mining.joint import JointMining, mine_jointly
from monet.search.mining.mine import Problem
from monet.search.mining.templates import Limits, load_template

RANGES = {"core_count": [1], "rows": [4, 16], "columns": [8], "lanes": [8], "sram_kib": [64], "dram_gbps": [3.2, 6.4]}
OPTIONS = {"precision": ["bf16", "fp32"], "checkpoint": ["keep-all", "per-block"], "batch": [2, 8]}
MODEL = "mlp:widths=32-64-64-32"


def problem(metric: str = "throughput", limits: Limits | None = None) -> Problem:
    template = load_template("edge").with_ranges(RANGES)
    workload = template.workload({"model": MODEL, "fusion": "none"})
    return Problem(template, {"model": workload}, limits or Limits(10.0, 1.0), metric)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> JointMining:
    return mine_jointly(problem(), OPTIONS, str(tmp_path_factory.mktemp("joint") / "one.sqlite"), evaluations=40)


def test_equal_to_trying_every_pair(found: JointMining) -> None:
    records = [evaluate(found.space.text, point) for point in found.space.points()]
    assert len(records) == 4 * 8
    each = {
        found.space.key(record.values): record.metrics["model.latency_s"] / record.values["batch"]
        for record in records
        if record.ok
    }
    assert found.best is not None
    assert found.cost(found.best) == pytest.approx(min(each.values()), rel=1e-12)
    assert found.gap == 0.0
    assert len(found.records) < len(records) / 2
    for combination in found.combinations:
        if combination.search is None or not math.isfinite(combination.lowest):
            continue
        tried = {found.space.key(record.values) for record in found.records}
        own = [
            cost
            for record in records
            if dict(combination.options).items() <= record.values.items()
            and (key := found.space.key(record.values)) not in tried
            and (cost := each.get(key))
        ]
        assert combination.lowest <= min(own) * (1 + 1e-12)


def test_every_step_says_what_and_why(found: JointMining) -> None:
    assert [step.number for step in found.steps] == list(range(1, len(found.steps) + 1))
    assert all(step.did and step.combination for step in found.steps)
    assert {each.state for each in found.combinations} <= {"cut", "done", "open", "cannot run"}
    cut = [each for each in found.combinations if each.state == "cut"]
    assert cut
    for each in cut:
        assert each.search is not None
        assert not each.search.evaluated
        assert "bound" in each.why


@pytest.mark.slow
def test_options_are_compared_on_the_same_design(tmp_path: Path) -> None:
    """A block of this model has nothing to recompute: its plan changes nothing, whatever was tried with it first."""
    options = {"checkpoint": ["keep-all", "per-block"]}
    found = mine_jointly(problem(), options, str(tmp_path / "same.sqlite"), evaluations=6)
    assert [on_best_design(found, each) for each in found.combinations] == [found.cost(found.best)] * 2
    assert found.best.values["checkpoint"] == "keep-all"
    assert any("the best design so far" in step.did for step in found.steps)


@pytest.mark.slow
def test_the_same_with_more_processes_and_after_a_kill(found: JointMining, tmp_path: Path) -> None:
    def plain(mined: JointMining) -> dict[str, object]:
        return {name: value for name, value in summary(mined).items() if "seconds" not in name}

    def killed(done: int, *_: object) -> None:
        if done >= 4:
            raise RuntimeError("killed")

    path = str(tmp_path / "two.sqlite")
    with pytest.raises(RuntimeError):
        mine_jointly(problem(), OPTIONS, path, evaluations=40, watch=killed)
    again = mine_jointly(problem(), OPTIONS, path, evaluations=40, jobs=2, resume=True)
    assert plain(again) == plain(found)


def test_options_that_cannot_run_say_why(tmp_path: Path) -> None:
    with pytest.raises(MonetError, match=r"image 64: .*image"):
        mine_jointly(problem(), {"image": [64]}, str(tmp_path / "a.sqlite"))


def test_limits_that_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(MonetError, match="smallest design takes"):
        mine_jointly(problem(limits=Limits(0.1, 1.0)), OPTIONS, str(tmp_path / "a.sqlite"))


def test_options_as_written() -> None:
    assert joint_options(["batch=4,8", "checkpoint=none,per-block"], ()) == {
        "batch": [4, 8],
        "checkpoint": ["keep-all", "per-block"],
    }
    for text, said in (
        ("batch", "NAME=VALUE"),
        ("bach=4", "'batch'"),
        ("batch=zero", "--batch"),
        ("rows=4", "no option"),
    ):
        with pytest.raises(MonetError, match=said):
            joint_options([text], ("rows",))
    with pytest.raises(MonetError, match="twice"):
        joint_options(["batch=4", "batch=8"], ())


def test_page_has_tree_steps_front_and_drawing(found: JointMining, tmp_path: Path) -> None:
    page = tmp_path / "joint.html"
    write_joint(str(page), found)
    text = page.read_text()
    for said in (
        "Combinations",
        "Steps",
        "Design 1",
        "cut whole",
        "Front over area",
        "is bound by",
        "search tree",
        "Below ",
    ):
        assert said in text
