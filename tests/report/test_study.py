"""The page of searches and studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from monet.report.html.allocation import _colour
from monet.report.html.study import Panel, figure, study_page, table, write_study
from tests.report.chromium import load, needs_chromium


def test_a_page_holds_its_plots_and_tables_and_needs_no_network(tmp_path: Path) -> None:
    plot = figure([{"type": "scatter", "x": [1, 2], "y": [3, 4]}], xaxis={"title": {"text": "latency (ms)"}})
    panels = [Panel("Front", "one point per plan", plot), Panel("Plans", body=table(["plan", "ms"], [["a<b", "1.0"]]))]
    path = tmp_path / "page.html"
    write_study(path, "A search", ["resnet18", "edge-tpu"], panels)
    text = path.read_text()
    assert "latency (ms)" in text
    assert "a&lt;b" in text
    assert 'src="http' not in text


@needs_chromium
@pytest.mark.parametrize("width", [1400, 500])
def test_text_wraps_and_no_button_sends_anything_away(tmp_path: Path, width: int) -> None:
    plot = figure([{"type": "scatter", "x": [1, 2], "y": [3, 4], "name": "a"}])
    words = table(["finding", "ours"], [["long " * 80, "holds"]], names=2)
    script = """<script>addEventListener("load", () => {
      const box = document.querySelector(".scroll");
      document.body.dataset.over = box.scrollWidth - box.clientWidth;
      document.body.dataset.buttons = [...document.querySelectorAll(".modebar-btn")].map(one => one.dataset.title);
    })</script>"""
    path = tmp_path / "page.html"
    write_study(path, "A search", [], [Panel("Plot", figure=plot, half=True), Panel("Rows", body=words + script)])
    page = load(path, tmp_path / "profile", width)
    assert page.console == ()
    assert page.data("over") == "0"
    assert "Pan" in page.data("buttons")
    assert "loud" not in page.data("buttons")


def test_colours_of_the_timeline_are_colours() -> None:
    assert [_colour(one) for one in (0.0, 0.125, 1.0)] == ["rgb(43,76,126)", "rgb(50,115,122)", "rgb(138,63,143)"]


def test_a_page_without_plots_has_no_script() -> None:
    assert "Plotly.newPlot" not in study_page("A table", [], [Panel("Rows", body=table(["a"], [["1"]]))])
