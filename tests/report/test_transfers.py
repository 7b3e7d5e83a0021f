"""Transfers to what is outside of the chip have a place in every table, chart and file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

import monet
from monet.commands.hardware import _tree
from monet.hardware.drawing import drawing
from monet.hardware.power import full_use
from monet.report import difference, explanation
from monet.report.html.hardware import info as drawn
from monet.report.html.page import page
from monet.report.info import gantt, headline, memory
from monet.report.perfetto import write_trace
from monet.report.result_file import read_result, write_result
from monet.report.terminal import render
from monet.schedule.result import Result
from monet.transforms.checkpoint_plan import CheckpointPlan
from monet.transforms.recompute import recompute


@pytest.fixture(scope="module")
def results() -> tuple[Result, Result]:
    """A step that keeps everything, and one that pages out two activations."""
    step = monet.training_step(monet.load_model("mlp-robot", batch=64))
    paged = recompute(step, CheckpointPlan({"1": "offload", "3": "offload"}))
    chip = monet.load_hardware("edge-tpu")
    return monet.evaluate(step, chip), monet.evaluate(paged, chip)


def text_of(shown: object, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


def test_terminal(results: tuple[Result, Result]) -> None:
    plain, paged = (text_of(render(result)) for result in results)
    assert "host" not in plain
    assert "Peak memory (host)" in paged
    assert "transfer" in paged  # on the critical path
    assert max(map(len, paged.splitlines())) <= 80


def test_charts(results: tuple[Result, Result]) -> None:
    plain, paged = results
    (row,) = [row for row in gantt.info(paged)["rows"] if row["name"] == "host"]
    assert row["kind"] == "link"
    assert len(row["start"]) == 4
    assert row["busy"] > 0
    assert "host" not in {row["name"] for row in gantt.info(plain)["rows"]}
    first, second, *_ = memory.info(paged)["memories"]
    assert (first["name"], second["name"]) == ("dram", "host")
    assert second["peak_bytes"] == 64 * (512 + 256) * 4
    box = next(box for box in drawn(paged)["boxes"] if box["name"] == "host")
    assert box["load"] == pytest.approx(row["busy"])
    assert any(wire["name"] == "host" for wire in drawn(paged)["wires"])
    bounds = {row["label"]: row["seconds"] for row in headline.latency_bounds(paged)["rows"]}
    assert bounds[headline.BOUND_NAMES["endpoints_s"]] == paged.bounds.endpoints_s > 0
    assert headline.BOUND_NAMES["endpoints_s"] not in {row["label"] for row in headline.latency_bounds(plain)["rows"]}


def test_files(results: tuple[Result, Result], tmp_path: Path) -> None:
    _, paged = results
    path = str(tmp_path / "result.json")
    write_result(paged, path)
    again = read_result(path)
    assert again.to_json() == paged.to_json()
    assert again.hardware_summary.endpoints[0].name == "host"
    write_trace(paged, str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event.get("cat") == "transfer"] == [
        "1/page_out", "3/page_out", "3/page_in", "1/page_in",
    ]  # fmt: skip
    assert any(event["name"] == "host (bytes)" for event in events)
    assert "page_out" in page(paged)


def test_explain_and_diff(results: tuple[Result, Result]) -> None:
    plain, paged = results
    told = explanation.info(paged)
    assert told["lower_bounds_s"]["endpoints"] == paged.bounds.endpoints_s
    assert "endpoints" not in explanation.info(plain)["lower_bounds_s"]
    assert told["critical_path"]["seconds_by_kind"]["transfer"] > 0
    assert {"name": "host", "kind": "link", "busy": pytest.approx(0.5, abs=0.5)} in told["busiest"]
    compared = difference.info(plain, paged)
    peaks = {row.name: row.second for row in compared["memory_peak"]}
    assert peaks["host"] == 64 * (512 + 256) * 4
    assert {"1/page_in", "1/page_out"} <= set(compared["operators"]["only_second"])
    assert {row.name for row in compared["energy_by_level"]} >= {"host"}


def test_hardware_shows_its_endpoints() -> None:
    chip = monet.load_hardware("edge-tpu")
    line = "host (host) at dram: 500 MB/s, 1 µs, 10 pJ/bit"
    assert line in drawing(chip)
    assert line in text_of(_tree(chip, ""), 120)
    assert {row.name: row.watts for row in full_use(chip)}["host, transfers"] == pytest.approx(8 * 500e6 * 10e-12)
