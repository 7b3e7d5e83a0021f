"""Options that are no request's: they reach what they are about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from monet.cli import app
from monet.commands import explore as exploring
from tests.request.models import write_onnx
from tests.search.spaces import document


def run(*arguments: str) -> Any:
    shown = CliRunner().invoke(app, list(arguments))
    assert shown.exit_code == 0, (shown.output, shown.exception)
    return shown


class _Called(Exception):
    pass


@pytest.mark.parametrize(
    ("option", "value", "keyword", "handed"),
    [
        ("--timeout", "7", "timeout_s", 7.0),
        ("--memory-limit", "2", "memory_bytes", 2 * 2**30),
        ("--jobs", "3", "jobs", 3),
        ("--points", "5", "points", 5),
        ("--seed", "9", "seed", 9),
        ("--search", "qmc", "search", "qmc"),
        ("--cluster", "tcp://host:1", "cluster_address", "tcp://host:1"),
    ],
)
def test_explore_hands_on_what_it_is_told(
    option: str, value: str, keyword: str, handed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []

    def explore(space: Any, store: str, **given: Any) -> None:
        calls.append(given)
        raise _Called

    monkeypatch.setattr(exploring, "explore", explore)
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(document()))
    space = [str(tmp_path / "space.yaml"), "--store", str(tmp_path / "kept.sqlite")]
    for more in ([], [option, value]):
        assert isinstance(CliRunner().invoke(app, ["explore", *space, *more]).exception, _Called)
    assert calls[0][keyword] != handed
    assert calls[1][keyword] == handed


def test_a_boundary_overrides_that_of_a_plan_file(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    model = ("mlp-cartpole", "--batch", "4", "--hardware", "edge-tpu")
    run("run", *model, "--save-plan", str(plan))
    assert yaml.safe_load(plan.read_text())["boundary"] == "keep"
    kept = json.loads(run("run", *model, "--fusion", str(plan), "--json", "-").stdout)
    out = json.loads(run("run", *model, "--fusion", str(plan), "--boundary", "dram", "--json", "-").stdout)
    assert (kept["plan"]["boundary"], out["plan"]["boundary"]) == ("keep", "dram")
    assert out["dram_bytes"]["total"] > kept["dram_bytes"]["total"]
    plan.write_text(plan.read_text().replace("boundary: keep", "boundary: dram"))
    written = json.loads(run("run", *model, "--fusion", str(plan), "--json", "-").stdout)
    assert written["dram_bytes"] == out["dram_bytes"]
    back = json.loads(run("run", *model, "--fusion", str(plan), "--boundary", "keep", "--json", "-").stdout)
    assert back["dram_bytes"] == kept["dram_bytes"]


def test_a_checkpoint_plan_of_adapters_runs(tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.yaml")
    model = (write_onnx(tmp_path / "net.onnx"), "--batch", "2", "--lora", "8")
    run("checkpoint", *model, "--method", "recompute-all", "--save-plan", plan)
    assert any("lora" in name for name in yaml.safe_load(Path(plan).read_text())["recompute"])
    ran = json.loads(run("run", *model, "--hardware", "edge-tpu", "--checkpoint", plan, "--json", "-").stdout)
    assert any(one["recompute"] for one in ran["operators"])
    assert any("lora" in one["name"] for one in ran["operators"])
    plain = CliRunner().invoke(app, ["run", *model[:3], "--hardware", "edge-tpu", "--checkpoint", plan])
    assert "no tensor of the graph has this name" in str(plain.exception)  # the plain model has no adapters


@pytest.mark.parametrize("batch", [1, 8])
def test_the_headline_is_per_sample(batch: int, tmp_path: Path) -> None:
    path = str(tmp_path / "run.json")
    model = ("mlp-cartpole", "--batch", str(batch), "--hardware", "edge-tpu")
    shown = " ".join(run("run", *model).output.split())
    run("run", *model, "--json", path)
    result = json.loads(Path(path).read_text())
    assert result["throughput_per_s"] == pytest.approx(batch / result["latency_s"])
    energy = re.search(r"([\d.]+) (.)J per sample", shown)
    rate = re.search(r"([\d.]+) (k?)sample/s", shown)
    assert energy
    assert rate
    joules = float(energy[1]) * {"m": 1e-3, "µ": 1e-6, "n": 1e-9}[energy[2]]
    assert joules == pytest.approx(result["energy_j"] / batch, rel=1e-3)
    assert float(rate[1]) * (1e3 if rate[2] else 1) == pytest.approx(batch / result["latency_s"], rel=1e-3)
