"""What mining prints, writes as JSON and shows on its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.commands.application import app

ASKED = [
    "mine", "mlp-robot", "mlp-cartpole", "--batch", "4", "--jobs", "1", "--template", "edge", "--range", "rows=8,16",
    "--range", "columns=16",
    "--range", "lanes=8", "--range", "sram_kib=64", "--range", "core_count=1,2", "--range", "dram_gbps=6.4",
    "--evaluations", "3", "--finalists", "0",
]  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], str]:
    page = tmp_path_factory.mktemp("page") / "mine.html"
    done = CliRunner().invoke(app, [*ASKED, "--json", "-", "--report", str(page)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), page.read_text()


def test_json_has_what_is_promised(said: tuple[dict[str, object], str]) -> None:
    values, _ = said
    assert {"best", "evaluations", "seconds", "gap", "front"} <= values.keys()
    best = values["best"]
    assert isinstance(best, dict)
    assert {"parameters", "throughput", "area_mm2", "tdp_w"} <= best.keys()
    assert set(best["workloads"]) == {"mlp_robot", "mlp_cartpole"}
    for each in best["workloads"].values():
        assert each["bound_s"] <= each["latency_s"]


def test_the_page_has_designs_front_and_what_was_cut(said: tuple[dict[str, object], str]) -> None:
    _, page = said
    for title in (
        "Best designs",
        "Front over area",
        "Search tree: what was cut",
        "What each workload loses",
        "Design 1",
    ):
        assert title in page


def test_bad_options(tmp_path: Path) -> None:
    for more, message in (
        (["--weight", "1"], "--weight: 1 given for 2 models"),
        (["--range", "rows"], "--range 'rows': write NAME=VALUE,VALUE"),
        (["--resume"], "--resume: which store? give --store FILE"),
        (["--method", "wham", "--gap", "0.1"], "--gap: has no effect with --method wham"),
        (["--method", "tpe", "--patience", "2"], "--patience: has no effect with --method tpe"),
    ):
        done = CliRunner().invoke(app, [*ASKED, *more])
        assert message in str(done.exception)
