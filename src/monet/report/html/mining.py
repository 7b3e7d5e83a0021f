"""The page of a mined template: designs and front, what limits each, how the search went, what was cut and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monet.hardware.drawing import parameter_text
from monet.report.html.floorplan import drawn
from monet.report.html.study import Panel, axis, figure, scatter, table_panel, words_panel, write_study
from monet.report.mining import (
    MOST_SHOWN,
    beside_table,
    designs_table,
    finalists_table,
    headline,
    loss_table,
    mean_rate,
    parameters_text,
    standing_table,
)
from monet.report.quantities import percent
from monet.report.table import Heading, TextTable
from monet.search.hardware.record import Record
from monet.search.mining.best_first import CUT, EVALUATED, OPEN, OVER, BestFirst
from monet.search.mining.comparison import Beside
from monet.search.mining.finalists import Finalist
from monet.search.mining.mine import Mining

DRAWN = 2  # designs that are drawn
COSTS = {"throughput": "step, s", "throughput-per-tdp": "step × TDP, J", "edp": "step × energy, Js"}
FRONT, OTHER = "#d9703a", "#3f7fc1"


def write_mining(path: str, found: Mining, beside: Sequence[Beside] = (), last: Sequence[Finalist] = ()) -> None:
    """Write the page."""
    title = f"{', '.join(found.problem.workloads)} on {found.problem.template.name}: mined for {found.problem.metric}"
    write_study(path, title, headline(found)[1:], panels(found, beside, last))


def panels(found: Mining, beside: Sequence[Beside] = (), last: Sequence[Finalist] = ()) -> list[Panel]:
    """All that the page shows."""
    made = [Panel("Designs: throughput over area", "Every evaluated design; orange: none is faster and smaller.",
                  front_figure(found), half=found.search is not None)]  # fmt: skip
    if found.search:
        about = "The best found, and the smallest bound of all that was not evaluated: between them lies the optimum."
        made.append(Panel("How the search went", about, history_figure(found.search), half=True))
    made.append(table_panel(designs_table(found, "Best designs", found.ranked[:MOST_SHOWN])))
    made.append(table_panel(designs_table(found, "Front over area", found.front())))
    if last:
        made.append(table_panel(finalists_table(found, last)))
    if beside and found.best:
        made.append(table_panel(beside_table(found, beside)))
    if len(found.problem.workloads) > 1 and found.best:
        made.append(table_panel(loss_table(found)))
    if found.search:
        made.append(table_panel(standing_table(found), half=True))
        about = "By parameter and value: designs within limits, those cut without a schedule, those left open."
        made.append(table_panel(tree_table(found.search), about))
    made += [design_panel(found, number, record) for number, record in enumerate(found.ranked[:DRAWN], 1)]
    if found.notes:
        made.append(words_panel("Notes", list(found.notes)))
    return made


def front_figure(found: Mining) -> dict[str, Any]:
    """Throughput over area."""
    front = found.front()
    traces = [
        _trace(found, "evaluated", found.ranked, OTHER, "markers"),
        _trace(found, "front", front, FRONT, "lines+markers"),
    ]
    return figure(traces, xaxis=axis("area, mm²"), yaxis=axis("samples per second"))


def _trace(found: Mining, name: str, records: Sequence[Record], colour: str, mode: str) -> dict[str, Any]:
    return scatter(
        name,
        [record.metrics["area_mm2"] for record in records],
        [mean_rate(found, record) for record in records],
        mode,
        text=[parameters_text(found, record) for record in records],
        hovertemplate="%{text}<extra></extra>",
        marker={"color": colour},
    )


def history_figure(search: BestFirst) -> dict[str, Any]:
    """Best cost and smallest open bound over evaluations."""
    count, best, bound = ([row[place] for row in search.history] for place in range(3))
    traces = [
        scatter("best found", count, best, "lines+markers", line={"shape": "hv"}, marker={"color": FRONT}),
        scatter("smallest bound left", count, bound, "lines+markers", line={"shape": "hv"}, marker={"color": OTHER}),
    ]
    return figure(traces, xaxis=axis("evaluations"), yaxis=axis(COSTS[search.metric.name], type="log"))


def tree_table(search: BestFirst) -> TextTable:
    """What became of the designs that have each value of each parameter."""
    rows = []
    states, by = search.state, search.by_dram
    for place, parameter in enumerate(search.candidates.space.parameters):
        for position, value in enumerate(parameter.values):
            mine = search.candidates.choice[:, place] == position
            if not mine.any():
                continue
            best = search.bound[mine].min() / search.best
            rows.append(
                (
                    f"{parameter.name} {parameter_text(parameter.path, value)}",
                    *(f"{int((states[mine] == state).sum()):,}" for state in (OVER, CUT)),
                    *(f"{int((by == wanted)[mine & (states == CUT)].sum()):,}" for wanted in (False, True)),
                    *(f"{int((states[mine] == state).sum()):,}" for state in (EVALUATED, OPEN)),
                    f"{100 * best:.0f} %",
                )
            )
    counts = ("over a limit", "cut", "by cores", "by DRAM", "evaluated", "open", "least bound of best")
    headings = (Heading("with", "words"), *counts)
    return TextTable("Search tree: what was cut", headings, rows)


def design_panel(found: Mining, number: int, record: Record) -> Panel:
    """A design as a drawing."""
    accelerator = found.space.hardware(record.values)
    limit = {name: step.limit for name, step in found.bound(record).steps.items()}
    said = "; ".join(f"{name} is bound by {what}" for name, what in limit.items())
    share = found.cost(record) / found.cost(found.ranked[0]) - 1
    about = f"{parameters_text(found, record)}. {said}. {percent(share)} above the best."
    return Panel(f"Design {number}", about, body=drawn(accelerator))
