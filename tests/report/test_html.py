"""The HTML report: what its figures hold, that one file is enough, and that a browser draws it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monet.errors import MonetError
from monet.hardware import load_hardware
from monet.hardware.summary import hardware_summary
from monet.report.html import page, write_html
from monet.report.html import page as page_module
from monet.report.html.hardware import info as hardware_info
from monet.report.info.energy import info as energy_info
from monet.report.info.gantt import info as gantt_info
from monet.report.info.headline import info as headline_info
from monet.report.info.memory import info as memory_info
from monet.report.info.memory import thinned
from monet.report.info.time_partition import info as partition_info
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES, TIME_PARTS, Timeline
from tests.report.chromium import load, needs_chromium
from tests.report.small import infeasible, small

FIGURES = 11


@pytest.fixture(scope="module")
def result() -> Result:
    return small()


def long(times: int) -> Result:
    """The schedule with its timeline ``times`` over: a report of many tiles."""
    result, line = small(), small().timeline
    start, end = (
        np.concatenate([one + number * result.ticks for number in range(times)]) for one in (line.start, line.end)
    )
    same = (np.tile(one, times) for one in (line.resource, line.operator, line.kind))
    longer = Timeline(line.ticks_per_second, line.resources, line.operators, start, end, *same)
    return dataclasses.replace(result, timeline=longer, ticks=times * result.ticks)


def data_of(document: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', document, re.DOTALL)
    assert found
    return json.loads(found[1])


# --- data -------------------------------------------------------------------------------------------------------------


def test_headline_numbers_stand_beside_their_bounds(result: Result) -> None:
    cards = headline_info(result)
    assert [card.label for card in cards][:2] == ["Latency", "Energy"]
    assert all(card.bound and card.distance >= 1 for card in cards)
    assert cards[0].distance == pytest.approx(result.latency_s / result.bounds.latency_s)


def test_every_event_is_on_the_timeline_once(result: Result) -> None:
    data = gantt_info(result)
    assert sum(len(row["start"]) for row in data["rows"]) == len(result.timeline) == data["events"]
    row = next(row for row in data["rows"] if row["name"] == "simd")
    index = result.timeline.resources.index("simd")
    mine = result.timeline.resource == index
    assert np.cumsum(row["start"]).tolist() == np.sort(result.timeline.start[mine]).tolist()
    assert sum(row["length"]) == int((result.timeline.end - result.timeline.start)[mine].sum())
    assert [row["kind"] for row in data["rows"]] == sorted(
        (r["kind"] for r in data["rows"]), key=["core", "dram", "link"].index
    )


def test_every_view_of_the_energy_adds_up(result: Result) -> None:
    data = energy_info(result)
    assert {view["by"] for view in data["views"]} == {"level", "phase", "operator kind", "core"}
    for view in data["views"]:
        assert sum(row["joules"] for row in view["rows"]) == pytest.approx(data["total"], rel=1e-9)


def test_the_parts_of_every_cores_time_add_up_exactly(result: Result) -> None:
    data = partition_info(result)
    assert len(data["causes"]) == len(TIME_PARTS)
    assert all(sum(row["ticks"]) == data["end"] for row in data["rows"])
    assert sum(data["mean"]["ticks"]) == pytest.approx(data["end"])


def test_a_core_that_did_nothing_is_not_in_the_mean(result: Result) -> None:
    ticks = dict.fromkeys(TIME_PARTS, 0) | {"idle": result.ticks}
    spare = dataclasses.replace(result.cores[0], name="spare", tiles=0, time_ticks=ticks)
    data = partition_info(dataclasses.replace(result, cores=(*result.cores, spare)))
    assert data["rows"][-1] == {"name": "spare", "ticks": list(ticks.values())}
    assert data["mean"] == partition_info(result)["mean"]


def test_memory_has_dram_first_and_names_the_peak(result: Result) -> None:
    data = memory_info(result)
    first = data["memories"][0]
    assert first["name"] == "dram"
    assert sum(first["at_peak"]) == first["peak_bytes"] == result.memory_peak_bytes["dram"].total
    assert first["peak_operator"] in {row.name for row in result.operators}
    assert max(map(sum, zip(*first["bytes"], strict=True))) == first["peak_bytes"]


@given(st.integers(1, 5000), st.integers(10, 200), st.integers(0, 2**32 - 1))
def test_thinning_keeps_both_ends_and_the_peak(steps: int, points: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    time = np.unique(rng.integers(0, 10**9, steps))
    amounts = rng.integers(0, 10**6, (len(CATEGORIES), len(time)))
    kept = thinned(time, amounts, points)
    assert len(kept) <= max(points, 1) + 1
    assert kept[0] == 0
    assert kept[-1] == len(time) - 1
    assert amounts.sum(axis=0)[kept].max() == amounts.sum(axis=0).max()
    assert np.all(np.diff(kept) > 0)


@pytest.mark.parametrize("hardware", ["edge-tpu", "fusemax", "aimc-4x4", "simba", "a100", "tpu-v3", "tpu-like"])
def test_hardware_boxes_do_not_overlap(hardware: str) -> None:
    summary = hardware_summary(load_hardware(hardware))
    data = hardware_info(dataclasses.replace(small(), hardware_summary=summary))
    boxes = data["boxes"]
    assert {box["name"] for box in boxes} >= {one.name for one in (*summary.cores, *summary.drams)}
    for index, one in enumerate(boxes):
        assert one["x"] + one["width"] <= data["width"]
        for other in boxes[index + 1 :]:
            apart_x = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            apart_y = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
            assert apart_x or apart_y, (one["name"], other["name"])
    assert {wire["name"] for wire in data["wires"]} >= {link.name for link in summary.links}


# --- the file ---------------------------------------------------------------------------------------------------------


def test_one_file_is_enough(result: Result) -> None:
    document = page(result)
    assert not re.search(r"(?:src|href)=[\"'](?!data:|#)", document)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", document)
    assert "@@" not in document
    assert set(data_of(document)) >= {
        "gantt",
        "memory",
        "energy",
        "roofline",
        "operators",
        "hardware",
        "phases",
        "bounds",
    }


def test_names_cannot_break_out_of_the_page(result: Result) -> None:
    name = "</script><script>alert(1)</script><b>&\u2028"
    rows = (dataclasses.replace(result.operators[0], name=name), *result.operators[1:])
    document = page(dataclasses.replace(result, model=name, operators=rows, notes=(name,)))
    assert "<script>alert" not in document
    assert data_of(document)["operators"]["rows"][0][0] == name


def test_the_file_is_written_whole_or_not_at_all(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_html(result, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    before = (tmp_path / "report.html").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("monet.report.files.os.replace", full)
    with pytest.raises(MonetError, match="No space left"):
        write_html(result, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_bytes() == before
    with pytest.raises(MonetError, match="cannot write"):
        write_html(result, tmp_path / "missing" / "report.html")


def test_fifty_thousand_tiles_stay_small() -> None:
    document = page(long(15))
    assert data_of(document)["gantt"]["events"] > 50_000
    assert len(document) < 3e6


def test_an_infeasible_result_says_why() -> None:
    document = page(infeasible())
    assert "8 bytes short" in document
    assert set(data_of(document)) == {"title", "feasible", "hardware"}


def test_assets_are_all_used() -> None:
    folder = Path(page_module.__code__.co_filename).parent / "assets"
    scripts = __import__("monet.report.html.page", fromlist=["SCRIPTS"]).SCRIPTS
    assert {path.name for path in folder.iterdir()} == {*scripts, "page.html", "style.css"}


# --- in a browser -----------------------------------------------------------------------------------------------------

MEASURE = """
<script>
{
  const before = performance.now(), view = monet.shared.view, canvas = document.querySelector("#gantt canvas");
  let frames = 0, worst = 0;
  const frame = (action) => {
    const begun = performance.now();
    action();
    monet.shared.paintTimeline();
    canvas.getContext("2d").getImageData(0, 0, 1, 1);
    worst = Math.max(worst, performance.now() - begun);
    frames += 1;
  };
  for (let step = 0; step < 12; step += 1) frame(() => view.zoom(view.begin + 0.4 * (view.end - view.begin), 0.7));
  for (let step = 0; step < 6; step += 1) frame(() => view.pan(0.2));
  frame(() => view.fit());
  document.body.dataset.worst = worst.toFixed(1);
  document.body.dataset.mean = ((performance.now() - before) / frames).toFixed(1);
  document.body.dataset.drawn = canvas.dataset.drawn;
}
document.body.dataset.overflow = Math.max(0, document.documentElement.scrollWidth - innerWidth);
</script>
"""


def measured(result: Result, path: Path) -> Path:
    path.write_text(page(result).replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    return path


@needs_chromium
@pytest.mark.parametrize("width", [1400, 420])
def test_a_browser_draws_every_figure(result: Result, tmp_path: Path, width: int) -> None:
    loaded = load(measured(result, tmp_path / "report.html"), tmp_path / "profile", width)
    assert loaded.console == ()
    assert loaded.data("ready") == "yes"
    assert loaded.data("failures") == ""
    assert loaded.data("figures") == str(FIGURES)
    assert loaded.data("overflow") == "0"
    assert loaded.dom.count("<canvas") == 3
    assert f'data-events="{len(result.timeline)}"' in loaded.dom
    assert loaded.dom.count("<tr title=") == 60
    assert int(loaded.data("drawn")) > 500


@needs_chromium
def test_the_timeline_stays_smooth_at_fifty_thousand_tiles(tmp_path: Path) -> None:
    large = long(15)
    assert len(large.timeline) > 50_000
    loaded = load(measured(large, tmp_path / "report.html"), tmp_path / "profile")
    assert loaded.console == ()
    assert loaded.data("figures") == str(FIGURES)
    assert int(loaded.data("drawn")) < 20 * 1400  # at most one rectangle per pixel and row
    assert float(loaded.data("mean")) < 100  # milliseconds a frame, without a graphics card, on a shared machine


@needs_chromium
def test_an_infeasible_report_loads(tmp_path: Path) -> None:
    write_html(infeasible(), tmp_path / "report.html")
    loaded = load(tmp_path / "report.html", tmp_path / "profile")
    assert loaded.console == ()
    assert loaded.data("figures") == "1"
    assert loaded.data("ready") == "yes"
