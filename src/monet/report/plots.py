"""Plots of results and searches as Plotly figures, for notebooks: ``monet.plots.timeline(result).show()``.

Every plot is of the numbers that the reports show; what they are stands in ``report/info``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.errors import MonetError, nearest
from monet.report.html.study import axis, figure, scatter
from monet.report.info import energy as energy_info
from monet.report.info import roofline as roofline_info
from monet.report.info import time_partition
from monet.report.info.gantt import PHASES
from monet.report.info.memory import by_fullness, thinned
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES

MOST_BARS = 20_000  # of a timeline: the longest; more are too many to move


def _drawn(made: dict[str, Any]) -> Any:
    from plotly.graph_objects import Figure

    return Figure(made)


def timeline(result: Result) -> Any:
    """Who does what when: a row for every core, link and DRAM."""
    events = result.timeline
    longest = np.sort(np.argsort(events.start - events.end, kind="stable")[:MOST_BARS])
    second = result.ticks_per_second
    phases = {row.name: row.phase for row in result.operators}
    names = [events.operators[operator] if operator >= 0 else "" for operator in events.operator[longest]]
    traces = []
    for phase in (*PHASES, ""):
        mine = [place for place, name in enumerate(names) if phases.get(name, "") == phase]
        if mine:
            chosen = longest[mine]
            traces.append(
                {
                    "type": "bar", "orientation": "h", "name": phase or "other",
                    "y": [events.resources[resource] for resource in events.resource[chosen]],
                    "base": (1e3 * events.start[chosen] / second).tolist(),
                    "x": (1e3 * (events.end[chosen] - events.start[chosen]) / second).tolist(),
                    "text": [names[place] for place in mine], "textposition": "none",
                    "hovertemplate": "%{text}<br>%{base:.4g} ms, %{x:.3g} ms long<extra></extra>",
                }
            )  # fmt: skip
    height = 140 + 26 * len(set(events.resource.tolist()))
    up = {"autorange": "reversed", "automargin": True}
    return _drawn(figure(traces, barmode="overlay", xaxis=axis("time, ms"), yaxis=up, height=height))


def memory(result: Result, name: str = "") -> Any:
    """Bytes in a memory over time by category; DRAM unless another is named."""
    traces = {trace.name: trace for trace in by_fullness(result)}
    if name and name not in traces:
        raise MonetError(f"no memory {name!r}; {nearest(name, traces)}")
    trace = traces[name] if name else next(iter(traces.values()))
    keep = thinned(trace.time, trace.bytes)
    time = (1e3 * trace.time[keep] / result.ticks_per_second).tolist()
    stacked = {"stackgroup": "one", "line": {"shape": "hv", "width": 0.5}}
    data = [
        scatter(category, time, (amounts[keep] / 1e6).tolist(), "lines", **stacked)
        for category, amounts in zip(CATEGORIES, trace.bytes, strict=True)
        if amounts.any()
    ]
    return _drawn(figure(data, xaxis=axis("time, ms"), yaxis=axis(f"{trace.name}, MB")))


def energy(result: Result, by: str = "level") -> Any:
    """Joules by level, phase, operator kind or core, largest first."""
    views = {view["by"]: view["rows"] for view in energy_info.info(result)["views"]}
    if by not in views:
        raise MonetError(f"energy by {by!r}; {nearest(by, views)}")
    rows = views[by]
    bars = {"type": "bar", "name": by, "x": [row["name"] for row in rows], "y": [row["joules"] for row in rows]}
    return _drawn(figure([bars], yaxis=axis("energy, J")))


def time(result: Result) -> Any:
    """Where the time of every core goes, by cause."""
    found = time_partition.info(result)
    second = found["ticks_per_second"]
    rows = found["rows"]
    data = [
        {"type": "bar", "name": cause, "x": [row["name"] for row in rows],
         "y": [1e3 * row["ticks"][place] / second for row in rows]}
        for place, cause in enumerate(found["causes"])
    ]  # fmt: skip
    return _drawn(figure(data, barmode="stack", yaxis=axis("time, ms")))


def roofline(result: Result) -> Any:
    """Operations per second against operations per off-chip byte, one point per operator, under the roofs."""
    found = roofline_info.info(result)
    points = [point for point in found["points"] if point["x"]]
    data = []
    for number, phase in enumerate(found["phases"]):
        mine = [point for point in points if point["phase"] == number]
        names = [result.operators[point["operator"]].name for point in mine]
        if mine:
            x, y = ([point[key] for point in mine] for key in ("x", "y"))
            data.append(scatter(phase, x, y, text=names, hovertemplate="%{text}<extra></extra>"))
    reach = [point["x"] for point in points] or [1.0]
    for roof in found["roofs"]:
        knee = roof["ops_per_s"] / found["bytes_per_s"]
        low, high = min(*reach, knee) / 2, max(*reach, knee) * 2
        heights = [low * found["bytes_per_s"], roof["ops_per_s"], roof["ops_per_s"]]
        data.append(scatter(roof["text"], [low, knee, high], heights, "lines"))
    logarithmic = {"type": "log"}
    return _drawn(
        figure(data, xaxis=axis("operations per off-chip byte", **logarithmic), yaxis=axis("op/s", **logarithmic))
    )


def front(found: Any) -> Any:
    """What a search found: plans of an allocation or of checkpointing, designs of an exploration; and the best."""
    kind = type(found).__name__
    if kind not in FRONTS:
        raise MonetError(f"front of a {kind}: of an outcome of allocate, checkpoint with hardware, or explore")
    return _drawn(FRONTS[kind](found))


def _allocation(found: Any) -> dict[str, Any]:
    best = [(point.figures.latency_s, point.figures.energy_j) for point in found.front]
    marks = {"tried": (found.points, "markers"), "front": (sorted(best), "lines+markers")}
    data = [
        scatter(name, [1e3 * point[0] for point in points], [1e3 * point[1] for point in points], mode)
        for name, (points, mode) in marks.items()
    ]
    return figure(data, xaxis=axis("latency, ms", type="log"), yaxis=axis("energy, mJ", type="log"))


def _checkpointing(found: Any) -> dict[str, Any]:
    named = {
        "front": [("", point) for point in found.front],
        "baselines": list(found.baselines),
        "plain": [("keep-all", found.plain)],
    }
    data = [
        scatter(
            name,
            [point.figures.memory_peak_bytes / 1e6 for _, point in points],
            [1e3 * point.figures.latency_s for _, point in points],
            text=[label for label, _ in points],
        )
        for name, points in named.items()
    ]
    return figure(data, xaxis=axis("peak of activations, MB"), yaxis=axis("latency, ms"))


def _exploration(found: Any) -> dict[str, Any]:
    from monet.report.html.explore import declared_figure

    if len(found.objectives) < 2:
        raise MonetError("one objective has no front to draw; to_dataframe() has the points")
    return declared_figure(found.space, found.records, found.objectives)


FRONTS = {"Allocation": _allocation, "ScheduledFront": _checkpointing, "Exploration": _exploration}
