"""The page of joint mining: combinations as the first branches of the search tree, steps, the best design drawn."""

from __future__ import annotations

from typing import Any

from monet.report.html.floorplan import drawn
from monet.report.html.mining import tree_table
from monet.report.html.study import Panel, axis, figure, scatter, table_panel, write_study
from monet.report.joint import (
    MOST_SHOWN,
    chosen_text,
    combinations_table,
    designs_table,
    headline,
    mean_rate,
    parameters_text,
    steps_table,
)
from monet.report.quantities import percent
from monet.report.table import TextTable
from monet.search.hardware.record import Record
from monet.search.mining.joint import JointMining

DRAWN = 2  # designs that are drawn
FRONT, OTHER = "#d9703a", "#3f7fc1"
MOST_TREES = 4  # combinations whose designs are shown by parameter


def write_joint(path: str, found: JointMining) -> None:
    """Write the page."""
    models, options = ", ".join(found.problem.workloads), ", ".join(found.options)
    title = f"{models} on {found.problem.template.name}: design and {options}"
    write_study(path, title, headline(found)[1:], panels(found))


def panels(found: JointMining) -> list[Panel]:
    """All that the page shows."""
    about = "The first branches of the search tree: one for each combination, and the bound that cut it."
    made = [table_panel(combinations_table(found), about)]
    about = "Every evaluated design with its options; orange: none is faster and smaller."
    made.append(Panel("Designs: throughput over area", about, front_figure(found), half=True))
    made.append(Panel("How the search went", "The best found, per sample.", history_figure(found), half=True))
    made.append(table_panel(designs_table(found, "Best designs", found.ranked[:MOST_SHOWN])))
    made.append(table_panel(designs_table(found, "Front over area", found.front())))
    made.append(table_panel(steps_table(found), "What was chosen at each step, and what was cut by which bound."))
    shown = [each for each in found.combinations if each.search is not None and each.search.evaluated]
    for each in sorted(shown, key=lambda each: -len(each.search.evaluated) if each.search else 0)[:MOST_TREES]:
        assert each.search is not None
        tree = tree_table(each.search)
        about = "By parameter and value: designs over a limit, those cut without a schedule, those left open."
        made.append(table_panel(TextTable(f"Below {each.text}", tree.headings, tree.rows), about))
    return made + [design_panel(found, number, record) for number, record in enumerate(found.ranked[:DRAWN], 1)]


def design_panel(found: JointMining, number: int, record: Record) -> Panel:
    """A design with its options as a drawing."""
    said = "; ".join(f"{name} is bound by {limit}" for name, limit in found.limits(record).items())
    share = found.cost(record) / found.cost(found.ranked[0]) - 1
    about = f"{chosen_text(found, record)}; {parameters_text(found, record)}. {said}. {percent(share)} above the best."
    body = drawn(found.space.hardware(record.values))
    return Panel(f"Design {number}", about, body=body)


def front_figure(found: JointMining) -> dict[str, Any]:
    """Throughput over area."""
    shown = (("evaluated", found.ranked, OTHER, "markers"), ("front", found.front(), FRONT, "lines+markers"))
    traces = [
        scatter(
            name, [record.metrics["area_mm2"] for record in records], [mean_rate(found, record) for record in records],
            mode, text=[f"{chosen_text(found, each)}; {parameters_text(found, each)}" for each in records],
            hovertemplate="%{text}<extra></extra>", marker={"color": colour},
        )
        for name, records, colour, mode in shown
    ]  # fmt: skip
    return figure(traces, xaxis=axis("area, mm²"), yaxis=axis("samples per second"))


def history_figure(found: JointMining) -> dict[str, Any]:
    """Best cost per sample over evaluations."""
    steps = [step for step in found.steps if step.best < float("inf")]
    trace = scatter(
        "best found", [step.evaluations for step in steps], [step.best for step in steps], "lines+markers",
        line={"shape": "hv"}, marker={"color": FRONT}, text=[f"{step.combination}: {step.did}" for step in steps],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    return figure([trace], xaxis=axis("evaluations"), yaxis=axis("cost per sample", type="log"))
