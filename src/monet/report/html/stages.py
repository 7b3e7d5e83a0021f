"""The page of designs mined for a pipeline: both choices, stages side by side, the best designs of each, drawings."""

from __future__ import annotations

from typing import Any

from monet.report.html.floorplan import drawn
from monet.report.html.study import Panel, axis, figure, scatter, table_panel, words_panel, write_study
from monet.report.plans import headline as plans_headline
from monet.report.plans import plans_table
from monet.report.stages import CHOICES, WORDS, choices_table, headline, local_table, stages_table, top_table
from monet.search.hardware.record import Point
from monet.search.mining.stages.choice import Choice
from monet.search.mining.stages.mine_stages import StageMining
from monet.search.mining.stages.plans import PlanMining

COLOURS = {"homogeneous": "#3f7fc1", "heterogeneous": "#d9703a"}
MOST_DRAWN = 3  # designs


def write_stages(path: str, found: StageMining) -> None:
    """Write the page."""
    problem = found.problem
    title = f"{problem.workload.model} on {problem.plan.pipeline} stages of {problem.template.name}: {problem.metric}"
    write_study(path, title, headline(found)[1:], panels(found))


def write_plans(path: str, found: PlanMining) -> None:
    """Write the page of designs that were mined together with parallel plans: all combinations, then the best."""
    best = found.best.found
    assert best is not None
    title = f"{best.problem.workload.model} on stages of {best.problem.template.name}: design and plan together"
    write_study(path, title, plans_headline(found), [table_panel(plans_table(found)), *panels(best)])


def panels(found: StageMining) -> list[Panel]:
    """All that the page shows."""
    made = [table_panel(choices_table(found))]
    about = "A micro-batch on each stage, forward and backward: the slowest stage sets the pace."
    made.append(Panel("Stages", about, stages_figure(found), half=found.top_k > 1))
    if found.top_k > 1:
        about = "Designs kept of each stage before the choice for all of them."
        made.append(Panel("Top-k", about, top_figure(found), half=True))
    made += [table_panel(stages_table(found, name)) for name in CHOICES if getattr(found.chosen, name) is not None]
    made.append(table_panel(local_table(found)))
    if found.top_k > 1:
        made.append(table_panel(top_table(found), half=True))
    made += _drawings(found)
    if found.notes:
        made.append(words_panel("Notes", list(found.notes)))
    return made


def stages_figure(found: StageMining) -> dict[str, Any]:
    """Seconds of a micro-batch by stage."""
    traces = []
    for name in CHOICES:
        choice: Choice | None = getattr(found.chosen, name)
        if choice is not None:
            each = [stage.forward_s + stage.backward_s for stage in choice.stages]
            traces.append(
                scatter(
                    WORDS[name], list(range(len(each))), each, "lines+markers", line={"shape": "hvh"},
                    marker={"color": COLOURS[name]},
                )
            )  # fmt: skip
    return figure(traces, xaxis=axis("stage"), yaxis=axis("seconds of a micro-batch", rangemode="tozero"))


def top_figure(found: StageMining) -> dict[str, Any]:
    """Throughput over designs kept."""
    counts = list(range(1, len(found.chosen.by_top) + 1))
    traces = [
        scatter(WORDS[name], counts, list(rates), "lines+markers", marker={"color": COLOURS[name]})
        for name, rates in zip(CHOICES, zip(*found.chosen.by_top, strict=True), strict=True)
    ]
    return figure(traces, xaxis=axis("designs kept of each stage"), yaxis=axis("samples per second"))


def _drawings(found: StageMining) -> list[Panel]:
    used: dict[Point, tuple[Any, list[int]]] = {}
    choice = found.chosen.heterogeneous or found.chosen.homogeneous
    for number, record in enumerate(choice.designs if choice else ()):
        used.setdefault(record.point, (record, []))[1].append(number)
    made = []
    for record, stages in list(used.values())[:MOST_DRAWN]:
        where = f"stage {stages[0]}" if len(stages) == 1 else f"stages {stages[0]} to {stages[-1]} ({len(stages)})"
        body = drawn(found.space.hardware(record.values))
        made.append(Panel(f"The design of {where}", "", body=body))
    return made
