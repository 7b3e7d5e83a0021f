"""Parallel plans as files: what a search saves, a run takes; what is said twice is said alike, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.cli import app
from monet.distributed.plan import ParallelPlan, load_parallel_plan, parallel_plan_text
from monet.errors import MonetError, OptionError
from monet.request.system_request import SystemRequest
from monet.transforms.checkpoint_plan import CheckpointPlan

MLP = "mlp:widths=8-16-16-4"
USUAL = [MLP, "--system", "edge-ethernet", "--batch", "8", "--fusion", "none"]


@pytest.mark.parametrize(
    "plan",
    [
        ParallelPlan(),
        ParallelPlan(data=2, tensor=4, sequence_parallel=True, pipeline=4, interleave=2, shard="states", micro_batch=3),
        ParallelPlan(pipeline=3, cuts=(1, 2), recompute=CheckpointPlan({"x": "recompute"})),
        ParallelPlan(data=2, pipeline=3, cut_by="time", recompute="full", offload="states", bucket_bytes=0),
    ],
)
def test_there_and_back(plan: ParallelPlan, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(parallel_plan_text(plan))
    assert load_parallel_plan(str(file)) == plan
    assert SystemRequest(MLP, system="edge-ethernet").under(plan).parallel_plan() == plan


@pytest.mark.parametrize(
    ("text", "said"),
    [("tensr: 4", "did you mean 'tensor'"), ("[1, 2]", "expected a mapping"), ("a: [", "not YAML")],
)
def test_what_is_no_plan_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    with pytest.raises(MonetError, match=said):
        load_parallel_plan(str(file))
    with pytest.raises(MonetError, match="cannot read"):
        load_parallel_plan(str(tmp_path / "none.yaml"))


def test_what_differs_from_the_plan_is_refused() -> None:
    plan = ParallelPlan(tensor=4, micro_batch=2)
    request = SystemRequest(MLP, system="edge-ethernet", micro_batch=2)
    assert request.under(plan).parallel_plan() == plan
    with pytest.raises(OptionError, match=r"tensor=2: plan.yaml says 4; leave one of them out"):
        SystemRequest(MLP, system="edge-ethernet", tensor=2).under(plan, "plan.yaml")
    with pytest.raises(OptionError, match=r"pipeline=2: the plan says the default"):
        SystemRequest(MLP, system="edge-ethernet", pipeline=2).under(plan)


def test_a_search_saves_what_a_run_takes(tmp_path: Path) -> None:
    file, found, ran = tmp_path / "plan.yaml", tmp_path / "found.json", tmp_path / "ran.json"
    runner = CliRunner()
    search = ["distribute", *USUAL, "--jobs", "1", "--save-plan", str(file), "--json", str(found)]
    assert runner.invoke(app, search).exit_code == 0
    assert runner.invoke(app, ["run", *USUAL, "--parallel", str(file), "--json", str(ran)]).exit_code == 0
    best, again = json.loads(found.read_text())["best"], json.loads(ran.read_text())
    assert best["latency_s"] == again["latency_s"]
    assert best["parallel"] == again["parallel"]
    refused = runner.invoke(app, ["run", MLP, "--hardware", "edge-tpu", "--parallel", str(file)])
    assert "no effect without --system" in str(refused.exception)
