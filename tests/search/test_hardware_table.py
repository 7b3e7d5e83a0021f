"""Tables of explored points: every cell is the record's own, and a study has the objectives with their weights."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from monet.search.hardware.objectives import WORKLOAD_FIGURES, parse_objective
from monet.search.hardware.record import Record
from monet.search.hardware.table import csv_text, write_optuna
from tests.search.spaces import small_space

WORKLOADS = {
    "inference": {"model": "mlp-robot", "mode": "inference", "batch": 2, "weight": 3},
    "training": {"model": "mlp-robot", "batch": 2},
}
SPACE = small_space(workloads=WORKLOADS)


def record(x: int, lanes: int) -> Record:
    """Different numbers in every cell."""
    figures = {
        f"{workload}.{figure}": (place + 2) * 0.1 * x + number + lanes / 7
        for place, workload in enumerate(WORKLOADS)
        for number, figure in enumerate(WORKLOAD_FIGURES)
    }
    return Record({"x_pes": x, "lanes": lanes}, "ok", "", {**figures, "area_mm2": 1.5 * x}, 0.25 * lanes, x, "7")


RECORDS = [record(1, 2), Record({"x_pes": 2, "lanes": 1}, "infeasible", "too small", {}, 0.5, 3, "7"), record(2, 4)]


def test_cells_of_the_table_are_those_of_the_records() -> None:
    table = list(csv.DictReader(io.StringIO(csv_text(SPACE, RECORDS))))
    assert len(table) == len(RECORDS)
    for row, one in zip(table, RECORDS, strict=True):
        assert {name: row.pop(name) for name in ("status", "reason")} == {"status": one.status, "reason": one.reason}
        assert {name: int(row.pop(name)) for name in ("x_pes", "lanes")} == one.values
        assert float(row.pop("evaluation_s")) == one.seconds
        assert int(row.pop("attempts")) == one.attempts
        assert row.pop("model_version") == one.version
        assert {name: float(cell) for name, cell in row.items() if cell} == one.metrics


def test_a_study_holds_weighted_objectives(tmp_path: Path) -> None:
    import optuna

    modes = {"inference": "inference", "training": "training"}
    objectives = [parse_objective(text, modes) for text in ("latency", "training.energy", "area")]
    write_optuna(SPACE, RECORDS, objectives, str(tmp_path / "study.db"))
    study = optuna.load_study(study_name="small", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    for trial, one in zip(study.trials, RECORDS, strict=True):
        assert trial.params == one.values
        if not one.ok:
            continue
        first, second = (one.metrics[f"{name}.latency_s"] for name in WORKLOADS)
        mean = math.exp((3 * math.log(first) + math.log(second)) / 4)
        assert trial.values == pytest.approx([mean, one.metrics["training.energy_j"], one.metrics["area_mm2"]])
