"""``monet hardware`` prints what is asked for, with units."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.commands.hardware import app
from monet.hardware import HardwareError, preset_names
from monet.hardware.drawing import area, binary_bytes, drawing, facts, si
from monet.hardware.loading import load_hardware

RUNNER = CliRunner(env={"COLUMNS": "200"})


def test_the_list_names_every_preset() -> None:
    result = RUNNER.invoke(app, [])
    assert result.exit_code == 0
    for name in preset_names():
        assert name in result.output
    for unit in ("op/s", "MiB", "B/s", "mm²", "nm"):
        assert unit in result.output


@pytest.mark.parametrize("name", preset_names())
def test_show_prints_tree_and_drawing(name: str) -> None:
    result = RUNNER.invoke(app, ["show", name])
    assert result.exit_code == 0
    for part in ("peak", "mm²", "network", "pJ", "[["):
        assert part in result.output


def test_show_json_is_complete_and_follows_settings(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    assert RUNNER.invoke(app, ["show", "edge-tpu", "--json", str(target), "--set", "x_pes=2"]).exit_code == 0
    written = json.loads(target.read_text(encoding="utf-8"))
    assert len(written["cores"]) == 2 * 4 + 2
    assert written["designs"]["pe"]["levels"][-1]["size_bytes"] == 2 << 20
    assert written["peak_ops_per_s"]["int8"] == pytest.approx(2 * 8 * 256 * 0.8e9)
    assert list(tmp_path.iterdir()) == [target]
    printed = RUNNER.invoke(app, ["show", "tpu-like", "--json", "-"])
    assert json.loads(printed.output)["name"] == "tpu-like"


def test_bad_names_and_settings_raise_errors_for_the_user() -> None:
    assert isinstance(RUNNER.invoke(app, ["show", "tpulike"]).exception, HardwareError)
    assert isinstance(RUNNER.invoke(app, ["show", "tpu-like", "--set", "clock_hz"]).exception, HardwareError)


def test_the_schema_is_json() -> None:
    result = RUNNER.invoke(app, ["schema"])
    assert json.loads(result.output)["title"] == "Description"


def test_figures_have_units() -> None:
    assert si(4.2e-12, "J") == "4.2 pJ"
    assert si(0, "W") == "0 W"
    assert si(999.9e6, "Hz") == "1 GHz"
    assert binary_bytes(3 << 20) == "3 MiB"
    assert area(1.5e-6) == "1.5 mm²"


def test_the_drawing_of_a_grid() -> None:
    lines = drawing(load_hardware("edge-tpu", {"x_pes": 2, "y_pes": 2})).splitlines()
    assert lines[:4] == [
        "pe 2×2",
        "[256 MAC 2 MiB]───[256 MAC 2 MiB]",
        "       │                 │       ",
        "[256 MAC 2 MiB]───[256 MAC 2 MiB]",
    ]


def test_facts_count_cores() -> None:
    assert facts(load_hardware("tpu-like-quad")).cores == "4×tensor, pooling, simd"
