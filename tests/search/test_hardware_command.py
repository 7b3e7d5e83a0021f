from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from monet.cli import app
from monet.errors import MonetError
from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.evaluation import evaluate
from monet.training.options import TrainingOptions
from monet.training.step import prepare, training_step
from tests.search.spaces import document


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small space, exhausted by the command."""
    folder = tmp_path_factory.mktemp("explored")
    (folder / "space.yaml").write_text(yaml.safe_dump(document(constraints=["area_mm2 <= 38"])))
    result = run("explore", str(folder / "space.yaml"), "--store", str(folder / "s.sqlite"), "--json", "-")
    assert result.exit_code == 0, result.output
    (folder / "front.json").write_text(result.stdout)
    return folder


def rows(folder: Path) -> list[dict[str, str]]:
    assert run("explore", "export", str(folder / "s.sqlite"), "--csv", str(folder / "all.csv")).exit_code == 0
    with open(folder / "all.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_every_point_has_figures_or_a_reason(explored: Path) -> None:
    table = rows(explored)
    assert len(table) == 6
    for row in table:
        if row["status"] == "ok":
            assert float(row["training.latency_s"]) > 0
            assert float(row["area_mm2"]) <= 38
        else:
            assert row["reason"].startswith("constraint: area_mm2 <= 38 (area_mm2 is ")
    assert {row["status"] for row in table} == {"ok", "infeasible"}


def test_figures_are_those_of_a_whole_evaluation(explored: Path) -> None:
    row = next(one for one in rows(explored) if one["status"] == "ok")
    hardware = load_hardware("edge-tpu", {"x_pes": int(row["x_pes"]), "lanes": int(row["lanes"])})
    model = load_model("mlp-robot", batch=2)
    for name, graph in (("training", training_step(model)), ("inference", prepare(model, TrainingOptions()))):
        result = evaluate(graph, hardware)
        assert float(row[f"{name}.latency_s"]) == result.latency_s
        assert float(row[f"{name}.energy_j"]) == pytest.approx(result.energy_j, rel=1e-12)
        assert int(row[f"{name}.memory_bytes"]) == result.memory_peak_bytes["dram"].total


def test_the_front_beats_every_other_point(explored: Path) -> None:
    front = json.loads((explored / "front.json").read_text())
    assert front["points"] == 6
    figures = [one["metrics"] for one in front["front"]]
    chosen = [
        tuple(one[f"training.{name}"] * one[f"inference.{name}"] for name in ("latency_s", "energy_j"))
        for one in figures
    ]
    for row in rows(explored):
        if row["status"] == "ok":
            here = (
                float(row["training.latency_s"]) * float(row["inference.latency_s"]),
                float(row["training.energy_j"]) * float(row["inference.energy_j"]),
            )
            assert any(one[0] <= here[0] * (1 + 1e-12) and one[1] <= here[1] * (1 + 1e-12) for one in chosen)


def test_resume_evaluates_nothing_again_and_without_it_nothing_is_overwritten(explored: Path) -> None:
    space, store = str(explored / "space.yaml"), str(explored / "s.sqlite")
    result = run("explore", space, "--store", store, "--resume", "--search", "random", "--points", "4")
    assert "4 points" in result.output
    assert "0 evaluated now" in result.output
    with pytest.raises(MonetError, match="add --resume"):
        run("explore", space, "--store", store)


def test_exports_hold_the_same_table(explored: Path) -> None:
    import optuna
    import pyarrow.parquet

    parquet, study = explored / "all.parquet", explored / "study.db"
    store = str(explored / "s.sqlite")
    assert run("explore", "export", store, "--parquet", str(parquet), "--optuna", str(study)).exit_code == 0
    table = rows(explored)
    columns = pyarrow.parquet.read_table(parquet).to_pydict()
    assert list(columns) == list(table[0])
    assert [None if one is None else repr(one) for one in columns["training.energy_j"]] == [
        row["training.energy_j"] or None for row in table
    ]
    loaded = optuna.load_study(study_name="small", storage=f"sqlite:///{study}")  # what optuna-dashboard does
    assert len(loaded.trials) == 6
    assert len([one for one in loaded.trials if one.state.name == "COMPLETE"]) == sum(
        row["status"] == "ok" for row in table
    )
    assert loaded.best_trials


def test_the_report_links_designs_to_their_runs(explored: Path) -> None:
    page = explored / "page.html"
    assert run("explore", "report", str(explored / "s.sqlite"), str(page), "--front-reports", "1").exit_code == 0
    made = sorted(one.name for one in (explored / "page-designs").iterdir())
    assert made == ["inference-01.html", "training-01.html"]
    assert "page-designs/training-01.html" in page.read_text()


def test_bad_requests_are_errors_before_anything_runs(explored: Path, tmp_path: Path) -> None:
    space = str(explored / "space.yaml")
    for arguments, said in (
        (("explore", "edge-tpo"), "did you mean 'edge-tpu'"),
        (("explore", str(tmp_path / "none.yaml")), "no such file"),
        (("explore", space, "--search", "guess"), "allowed are exhaustive, random, qmc, tpe, nsga2"),
        (("explore", space, "--objective", "speed"), "no figure 'speed'"),
        (("explore", space, "--points", "3"), "take --search random"),
        (("explore", "export", str(tmp_path / "none"), "--csv", "-"), "no such store"),
        (("explore", "export", str(explored / "s.sqlite")), "say where to"),
    ):
        with pytest.raises(MonetError, match=said):
            run(*arguments, *(("--store", str(tmp_path / "s")) if "export" not in arguments else ()))
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workloads": {"net": {"model": "mlp-robo"}}}, r"workloads.net: unknown model 'mlp-robo'; did you mean"),
        ({"workloads": {"net": {"model": "mlp-robot", "precision": "fp31"}}}, r"net.precision: allowed are .* 'fp32'"),
        ({"parameters": {"x_pess": {"values": [1]}}}, "did you mean 'x_pes'"),
        ({"parameters": {"x_pes": {"range": [1, 4]}}}, "must be a mapping with low, high, step, log"),
    ],
)
def test_a_space_that_means_nothing_is_not_a_space_of_infeasible_points(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(document(**changes)))
    with pytest.raises(MonetError, match=said):
        run("explore", str(tmp_path / "space.yaml"), "--store", str(tmp_path / "s.sqlite"))
    assert not (tmp_path / "s.sqlite").exists()


def test_a_file_that_is_no_space_is_told_what_one_is(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("[1, 2]")
    with pytest.raises(MonetError, match="a space file is a mapping with at least name"):
        run("explore", str(tmp_path / "space.yaml"))


def test_no_point_with_figures_has_an_exit_code_and_the_commonest_reason(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(document(constraints=["training.latency_s < 1e-9"])))
    page = tmp_path / "page.html"
    result = run("explore", str(tmp_path / "space.yaml"), "--store", str(tmp_path / "s.sqlite"), "--report", str(page))
    assert result.exit_code == 3
    assert "training.latency_s < 1e-9" in result.stderr
    assert not page.exists()


def test_lists_and_schema() -> None:
    assert "10,000" in run("explore", "spaces").output
    assert json.loads(run("explore", "schema").output)["title"] == "SpaceModel"
    assert "SPACE" in run("explore", "--help").output
