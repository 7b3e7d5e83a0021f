"""A page of interactive plots and tables, for searches and studies: one file that works offline.

Plots are Plotly figures as plain values (``{"data": [...], "layout": {...}}``), so that what they show can be tested
without drawing them. Plotly's script is inlined once.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from monet.report.columns import Column, Row
from monet.report.files import write_bytes
from monet.report.html.page import embedded
from monet.report.html.text_table import table_html
from monet.report.table import TextTable

AXIS_PX = 105  # width of a parallel axis with its name
LEGEND_LINE_PX, IN_A_LINE = 20, 3  # names of a legend in one line of a half panel
HALF_PX, WHOLE_PX, HIGH_PX = 420.0, 1000.0, 250.0  # a plot inside its margins, on a screen of usual width
LAYOUT: dict[str, Any] = {
    "template": "none",
    "margin": {"l": 70, "r": 20, "t": 74, "b": 55},  # above: the buttons, under them the legend
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "hovermode": "closest",
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#1b2330"},
    "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#a9b2bf", "activecolor": "#3f7fc1", "orientation": "h"},
    "colorway": ["#3f7fc1", "#d9703a", "#3a9a77", "#8a6fb5", "#e2a03f", "#cf5f5f", "#6b7686", "#d774a3"],
}

_START = """
// a page works offline: no button that sends what it shows to a server
const unused = ["sendChartToCloud", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"];
for (const [place, figure] of Object.entries(JSON.parse(document.getElementById("plots").textContent))) {
  const node = document.getElementById(place);
  const settings = {responsive: true, displaylogo: false, modeBarButtonsToRemove: unused};
  Plotly.newPlot(node, figure.data, figure.layout, settings).then(() => {
    node.on("plotly_click", (event) => {
      const link = event.points[0] && event.points[0].customdata;
      if (typeof link === "string" && /\\.html(#.*)?$/.test(link)) window.open(link, "_blank", "noopener");
    });
  });
}
"""


@dataclass(frozen=True, slots=True)
class Panel:
    """One box of the page: a plot, or finished HTML, under a heading and a line that says how to read it.

    A point of a plot whose ``customdata`` is the name of an HTML file opens it when clicked.
    """

    title: str
    about: str = ""
    figure: Mapping[str, Any] | None = None
    body: str = ""
    half: bool = False
    height_px: int = 420


def figure(data: Sequence[Mapping[str, Any]], **layout: Any) -> dict[str, Any]:
    """A Plotly figure in the house style, with room for the legend under the buttons."""
    named = sum(bool(trace.get("name")) for trace in data)
    margin = LAYOUT["margin"] | ({"t": 74 + LEGEND_LINE_PX * (-(-named // IN_A_LINE) - 1)} if named else {})
    return {"data": list(data), "layout": LAYOUT | {"margin": margin} | layout}


def axis(text: str, **more: Any) -> dict[str, Any]:
    """An axis with a title that keeps clear of its numbers."""
    return {"title": {"text": text, "standoff": 12}, "automargin": True, **more}


def scatter(name: str, x: Sequence[Any], y: Sequence[Any], mode: str = "markers", **more: Any) -> dict[str, Any]:
    """Points of a plot, lines between them, or both (``mode``)."""
    return {"type": "scatter", "name": name, "x": list(x), "y": list(y), "mode": mode, **more}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> str:
    """A table as HTML; the first ``names`` columns are text, the others figures."""

    def line(cells: Sequence[str], tag: str) -> str:
        shape = [tag if column < names else f"{tag} class=number" for column in range(len(cells))]
        return "".join(f"<{opening}>{html.escape(cell)}</{tag}>" for opening, cell in zip(shape, cells, strict=True))

    head, body = line(heads, "th"), "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def table_panel(made: TextTable, about: str = "", half: bool = False) -> Panel:
    """A box with a table that the terminal shows, too."""
    return Panel(made.title, about, body=f'<div class="scroll">{table_html(made)}</div>', half=half)


def words_panel(title: str, sentences: Sequence[str]) -> Panel:
    """A box of sentences."""
    return Panel(title, body="<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in sentences) + "</ul>")


def rows_table(columns: Sequence[Column[Row]], rows: Iterable[Row], *, names: int = 1) -> str:
    """A table of rows; the first ``names`` columns are text."""
    return table(
        [column.label for column in columns], [[column.text(row) for column in columns] for row in rows], names=names
    )


def study_page(title: str, facts: Sequence[str], panels: Sequence[Panel]) -> str:
    """The whole page as one HTML document."""
    from plotly.offline import get_plotlyjs

    style = files("monet.report.html").joinpath("assets", "style.css").read_text(encoding="utf-8")
    plots = {f"plot{number}": panel.figure for number, panel in enumerate(panels) if panel.figure is not None}
    boxes = "\n".join(_box(number, panel) for number, panel in enumerate(panels))
    links = "".join(
        f'<a href="#panel{i}">{html.escape(panel.title)}</a>' for i, panel in enumerate(panels) if panel.title
    )
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="monet">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}
table.plain {{ border-collapse: collapse; font-size: 14px; width: 100%; }}
table.plain th, table.plain td {{ padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: left; }}
table.plain td, table.plain th {{ max-width: none; overflow: visible; white-space: normal; vertical-align: top; }}
table.plain .number {{ text-align: right; white-space: nowrap; }}
.scroll {{ overflow-x: auto; max-height: none; }}
</style>
</head>
<body>
<header class="top"><div class="bar"><span class="brand">monet</span>
<nav aria-label="Sections">{links}</nav></div></header>
<main>
<h1>{html.escape(title)}</h1>
<p class="facts">{" · ".join(html.escape(fact) for fact in facts)}</p>
<div id="figures">
{boxes}
</div>
</main>
<script type="application/json" id="plots">{embedded(plots)}</script>
{f"<script>{get_plotlyjs()}</script><script>{_START}</script>" if plots else ""}
</body>
</html>
"""


def _box(number: int, panel: Panel) -> str:
    shape = "panel half" if panel.half else "panel"
    about = f'<p class="about">{html.escape(panel.about)}</p>' if panel.about else ""
    plot = ""
    if panel.figure is not None:
        # the names of parallel axes need their room: on a narrow screen they scroll
        axes = max((len(trace.get("dimensions", ())) for trace in panel.figure["data"]), default=0)
        room = f"min-width:{AXIS_PX * axes}px;" if axes else ""
        plot = f'<div class="scroll"><div id="plot{number}" style="{room}height:{panel.height_px}px"></div></div>'
    return (
        f'<section class="{shape}" id="panel{number}"><div class="head"><h2>{html.escape(panel.title)}</h2></div>'
        f"{about}{plot}{panel.body}</section>"
    )


def write_study(path: str | Path, title: str, facts: Sequence[str], panels: Sequence[Panel]) -> None:
    """Write the page, whole or not at all."""
    write_bytes(path, study_page(title, facts, panels).encode())
