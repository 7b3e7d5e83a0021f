"""Mining small ranges: equal to trying everything, the same whatever the number of processes, resumed, interrupted."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from monet.commands.mine_outcome import design_text
from monet.errors import MonetError
from monet.request import Request
from monet.search.hardware.evaluation import evaluate
from monet.search.mining.best_first import EVALUATED
from monet.search.mining.mine import Mining, Problem, mine
from monet.search.mining.templates import Limits, load_template

RANGES = {
    "core_count": [1, 2],
    "rows": [4, 16],
    "columns": [8, 16],
    "lanes": [8],
    "sram_kib": [64],
    "dram_gbps": [3.2, 6.4],
}
MODEL = {"model": "mlp:widths=64-256-64", "batch": 8}


def small(metric: str = "throughput", **more: object) -> Problem:
    template = load_template("edge").with_ranges(RANGES)
    return Problem(template, {"model": template.workload({**MODEL, **more})}, Limits(10.0, 1.0), metric)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mining:
    return mine(small(), str(tmp_path_factory.mktemp("mine") / "one.sqlite"), evaluations=20)


def test_equal_to_exhausting(found: Mining) -> None:
    space = found.space
    records = [evaluate(space.text, point) for point in space.points()]
    best = min(record.metrics["model.latency_s"] for record in records if record.ok)
    assert found.best is not None
    assert found.best.metrics["model.latency_s"] == best
    assert found.gap == 0.0
    assert len(found.records) < len(records)
    for record in records:
        if record.ok:
            assert found.bound(record).steps["model"].latency_s <= record.metrics["model.latency_s"]


def test_processes_and_resuming_change_nothing(found: Mining, tmp_path: Path) -> None:
    path = str(tmp_path / "two.sqlite")
    first = mine(small(), path, evaluations=4, front=False)
    again = mine(small(), path, evaluations=20, jobs=2, resume=True)
    assert [record.values for record in again.records] == [record.values for record in found.records]
    assert [record.values for record in first.records] == [record.values for record in found.records[:4]]
    assert again.best is not None
    assert found.best is not None
    assert again.best.metrics == found.best.metrics


def test_a_design_as_a_file_gives_the_same_figures(found: Mining, tmp_path: Path) -> None:
    """``--design``: any command with ``--hardware`` runs on what was mined."""
    assert found.best is not None
    file = tmp_path / "design.yaml"
    file.write_text(design_text(found.space, found.best), encoding="utf-8")
    assert "# for mlp:widths=64-256-64 --batch 8 --precision bf16\n" in file.read_text(encoding="utf-8")
    result = Request(model=MODEL["model"], batch=8, precision="bf16", hardware=str(file)).evaluate()
    assert result.latency_s == found.best.metrics["model.latency_s"]
    assert result.hardware_summary.area_m2 * 1e6 == pytest.approx(found.best.metrics["area_mm2"])


def asked(store: Path, *more: str) -> list[str]:
    """The same problem on the command line."""
    ranges = [f"--range={name}={','.join(map(str, values))}" for name, values in RANGES.items()]
    model = ["mlp:widths=64-256-64", "--batch", "8", "--template", "edge", "--finalists", "0", "--evaluations", "12"]
    return [sys.executable, "-m", "monet.cli", "mine", *model, *ranges, "--store", str(store), *more]


@pytest.mark.slow
def test_killed_and_resumed_is_the_same_design(tmp_path: Path) -> None:
    """Killed with SIGKILL while designs are under way, then resumed with other processes."""
    store = tmp_path / "killed.sqlite"
    with subprocess.Popen(asked(store), stdout=subprocess.DEVNULL, start_new_session=True) as run:
        while run.poll() is None and _finished(store) < 2:
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGKILL)
    assert 2 <= _finished(store) < 12
    again = subprocess.run(asked(store, "--resume", "--jobs", "2", "--json", "-"), capture_output=True, check=True)
    whole = subprocess.run(asked(tmp_path / "whole.sqlite", "--json", "-"), capture_output=True, check=True)
    resumed, at_once = json.loads(again.stdout), json.loads(whole.stdout)
    for name in ("best", "gap", "evaluations", "ranked", "front"):
        assert resumed[name] == at_once[name]


def _finished(store: Path) -> int:
    """Designs that a store has figures of."""
    if not store.exists():
        return 0
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        try:
            return int(opened.execute("SELECT COUNT(*) FROM points WHERE status = 'ok'").fetchone()[0])
        except sqlite3.OperationalError:  # not made yet
            return 0


@pytest.mark.slow
def test_patience_ends_what_cannot_be_proved(found: Mining, tmp_path: Path) -> None:
    """With evaluations for all that is open it goes on to the proof; with fewer it ends when nothing better comes."""
    patient = mine(small(), str(tmp_path / "a.sqlite"), evaluations=20, patience=1, front=False)
    assert patient.gap == 0.0
    short = mine(small("edp"), str(tmp_path / "b.sqlite"), evaluations=5, patience=1, front=False)
    assert len(short.records) <= 5


def test_front_has_smaller_designs(found: Mining) -> None:
    front = found.front()
    areas = [record.metrics["area_mm2"] for record in front]
    costs = [found.cost(record) for record in front]
    assert areas == sorted(areas, reverse=True)
    assert costs == sorted(costs)
    assert front[0] == found.best


def test_what_is_evaluated_for_the_front_counts(tmp_path: Path) -> None:
    """The search knows it: as evaluated, and for the best found, which the gap is of."""
    found = mine(small(), str(tmp_path / "front.sqlite"), evaluations=1)
    search = found.search
    assert search is not None
    assert len(found.records) > 1
    assert int((search.state == EVALUATED).sum()) == sum(record.ok for record in found.records)
    assert search.best == min(found.cost(record) for record in found.records if record.ok)


def test_limits_that_leave_nothing(tmp_path: Path) -> None:
    template = load_template("edge").with_ranges(RANGES)
    workloads = {"model": template.workload(MODEL)}
    with pytest.raises(MonetError, match=r"area: the smallest design takes [\d.]+ mm², the limit is 0.1 mm²"):
        mine(Problem(template, workloads, Limits(0.1, 1.0)), str(tmp_path / "a.sqlite"))
    with pytest.raises(MonetError, match=r"power: the one that draws least takes [\d.]+ W"):
        mine(Problem(template, workloads, Limits(10.0, 0.01)), str(tmp_path / "b.sqlite"))
    with pytest.raises(MonetError, match=r"floor: no design within area and power runs model faster than"):
        mine(Problem(template, workloads, Limits(10.0, 1.0), floor=1e12), str(tmp_path / "c.sqlite"))
