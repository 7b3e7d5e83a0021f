"""``monet allocate`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.cli import app
from monet.errors import MonetError
from monet.schedule.plan import load_plan

MODEL = ("resnet18-stream", "--hardware", "tpu-like-quad", "--mode", "inference")


def run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_table_files_and_the_plan_in_run(tmp_path: Path) -> None:
    plan, outcome, page = (str(tmp_path / name) for name in ("plan.yaml", "outcome.json", "page.html"))
    files = ("--json", outcome, "--report", page, "--save-plan", plan)
    shown = run("allocate", *MODEL, "--effort", "1", "--fusion", "none", "--objective", "edp", *files)
    for words in ("one core per layer", "default", "found", "bound", "genetic", "4,768,463", "ed4e12ef"):
        assert words in shown
    values = json.loads(Path(outcome).read_text())
    rows = {row["name"]: row for row in values["plans"]}
    assert {"one core per layer", "default", "constructive", "found", "bound"} <= set(rows)
    assert all({"latency_s", "energy_j", "dram_bytes"} <= set(row) for row in rows.values())
    assert values["plan"] == load_plan(plan).to_dict()
    again = json.loads(run("run", *MODEL, "--fusion", plan, "--objective", "edp", "--json", "-"))
    assert again["latency_s"] == rows["found"]["latency_s"]
    assert again["energy_j"] == pytest.approx(rows["found"]["energy_j"], rel=1e-12)
    html = Path(page).read_text()
    for words in ("Cores in the found plan", "Latency and energy", "Placements", "tensor[3]"):
        assert words in html


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--effort", "11"), "1 to 10"),
        (("--objective", "power"), "latency"),
        (("--fusion", "stack"), "stacks"),
        (("--fusion", "missing.yaml"), "cannot read plan"),
        (("--boundary", "chip"), "keep"),
        (("--batch", "4"), "fixed size"),
    ],
)
def test_bad_options_say_what_is_allowed(options: tuple[str, str], words: str) -> None:
    with pytest.raises(MonetError, match=words):
        run("allocate", *MODEL, *options)
