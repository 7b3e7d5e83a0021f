"""The page of searches and studies."""

from __future__ import annotations

from pathlib import Path

from monet.report.html.study import Panel, figure, study_page, table, write_study


def test_a_page_holds_its_plots_and_tables_and_needs_no_network(tmp_path: Path) -> None:
    plot = figure([{"type": "scatter", "x": [1, 2], "y": [3, 4]}], xaxis={"title": {"text": "latency (ms)"}})
    panels = [Panel("Front", "one point per plan", plot), Panel("Plans", body=table(["plan", "ms"], [["a<b", "1.0"]]))]
    path = tmp_path / "page.html"
    write_study(path, "A search", ["resnet18", "edge-tpu"], panels)
    text = path.read_text()
    assert "latency (ms)" in text
    assert "a&lt;b" in text
    assert 'src="http' not in text


def test_a_page_without_plots_has_no_script() -> None:
    assert "Plotly.newPlot" not in study_page("A table", [], [Panel("Rows", body=table(["a"], [["1"]]))])
