"""The page of an exploration: fronts side by side, designs as lines, which parameters matter, what is lost by choosing
for the wrong workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monet.hardware.drawing import parameter_text
from monet.report.html.study import Panel, axis, figure, scatter, table, write_study
from monet.report.quantities import joules, nbytes, percent, seconds, times
from monet.search.hardware.analysis import choices, importance, objectives_of, overlap, reasons, scopes
from monet.search.hardware.exploration import objective_values, pareto
from monet.search.hardware.objectives import Objective, shown
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space

MOST_IN_CLOUD = 4000
MOST_LINES = 1500
MOST_SVG = 3000  # points; more are drawn by WebGL, of which a browser has few contexts for one page
MOST_IN_TABLE = 60
FRONT, OTHER = "#d9703a", "#3f7fc1"
SCALES = {"latency_s": (1e3, "ms"), "energy_j": (1e3, "mJ"), "tdp_energy_j": (1e3, "mJ"),
          "edp_js": (1e6, "µJ·s"), "memory_bytes": (1e-6, "MB"),
          "area_mm2": (1.0, "mm²")}  # fmt: skip
Links = Mapping[str, Mapping[str, str]]  # point → scope → file of its run report


def design_text(space: Space, record: Record) -> str:
    """Everything about a design, as lines of a hover box."""
    lines = [
        f"{parameter.name} = {parameter_text(parameter.path, record.values[parameter.name])}"
        for parameter in space.parameters
    ]
    for name in space.workloads:
        figures = {key.partition(".")[2]: value for key, value in record.metrics.items() if key.startswith(f"{name}.")}
        if figures:
            lines.append(
                f"{name}: {seconds(figures['latency_s'])}, {joules(figures['energy_j'])}, "
                f"{nbytes(figures['memory_bytes'])} in DRAM"
            )
    if "area_mm2" in record.metrics:
        lines.append(f"area {record.metrics['area_mm2']:.1f} mm²")
    return "<br>".join(lines)


def _thinned(records: Sequence[Record], most: int) -> list[Record]:
    step = max(1, -(-len(records) // most))
    return list(records[::step])


def front_figure(space: Space, records: Sequence[Record], scope: str, links: Links) -> dict[str, Any]:
    """Latency against energy of one scope: every design, its front, and the fronts of the other scopes."""
    goals = objectives_of(space, scope)
    feasible = [record for record in records if record.ok]
    own = pareto(space, feasible, goals)
    traces = [_cloud(space, _thinned(feasible, MOST_IN_CLOUD), goals)]
    for other in scopes(space):
        if other != scope:
            theirs = pareto(space, feasible, objectives_of(space, other))
            traces.append(_points(space, theirs, goals, f"front for {other}", OTHER, "diamond-open", links, other))
    traces.append(_points(space, own, goals, f"front for {scope}", FRONT, "circle", links, scope))
    x, y = goals
    return figure(traces, xaxis=axis(_axis(x), type="log"), yaxis=axis(_axis(y), type="log"))


def declared_figure(space: Space, records: Sequence[Record], goals: Sequence[Objective]) -> dict[str, Any]:
    """The first two declared objectives against each other: every design, and those on the front of all of them."""
    feasible = [record for record in records if record.ok]
    x, y = goals[:2]
    front = pareto(space, feasible, goals)
    symbol = "circle" if len(goals) == 2 else "diamond"  # of more than two, points that are no line
    name = f"front of {', '.join(goal.text for goal in goals)}"
    traces = [
        _cloud(space, _thinned(feasible, MOST_IN_CLOUD), (x, y)),
        _points(space, front, (x, y), name, FRONT, symbol, {}, ""),
    ]
    return figure(traces, xaxis=axis(_axis(x), type="log"), yaxis=axis(_axis(y), type="log"))


def declared_table(space: Space, records: Sequence[Record], goals: Sequence[Objective]) -> str:
    """The designs on the front of the declared objectives, each with its parameters."""
    chosen = pareto(space, records, goals)[:MOST_IN_TABLE]
    values = objective_values(space, chosen, goals)
    rows = [
        [
            *(shown(goal, value) for goal, value in zip(goals, figures, strict=True)),
            *(parameter_text(parameter.path, record.values[parameter.name]) for parameter in space.parameters),
        ]
        for record, figures in zip(chosen, values, strict=True)
    ]
    return table((*(goal.text for goal in goals), *(parameter.name for parameter in space.parameters)), rows, names=0)


def _declared_panels(space: Space, records: Sequence[Record], goals: Sequence[Objective]) -> list[Panel]:
    """The front of the declared objectives, unless that is what a panel of one scope shows anyway."""
    if any(set(goals) == set(objectives_of(space, scope)) for scope in scopes(space)):
        return []
    names = ", ".join(goal.text for goal in goals)
    about = f"What the space asks for: none is better in {'all of ' * (len(goals) > 1)}{names}."
    found = [Panel("Designs on the declared front", about, body=declared_table(space, records, goals))]
    if len(goals) > 1:
        drawn = declared_figure(space, records, goals)
        found = [Panel("Front of the declared objectives", about, drawn, height_px=460), *found]
    return found


def _axis(goal: Objective) -> str:
    return f"{goal.text.replace('.', ' ')}, {SCALES[goal.figure][1]}"


def _columns(space: Space, records: Sequence[Record], goals: Sequence[Objective]) -> list[list[float]]:
    values = objective_values(space, records, goals)
    return [(values[:, place] * SCALES[goal.figure][0]).tolist() for place, goal in enumerate(goals)]


def _cloud(space: Space, records: Sequence[Record], goals: Sequence[Objective]) -> dict[str, Any]:
    x, y = _columns(space, records, goals)
    macs = [math.log2(record.metrics.get("macs", 1)) for record in records]
    ticks = list(range(math.ceil(min(macs)), math.floor(max(macs)) + 1, 2))
    marker = {
        "size": 5, "opacity": 0.55, "color": macs, "colorscale": "Viridis", "reversescale": True,
        "colorbar": {"title": {"text": "MACs"}, "thickness": 10, "len": 0.8, "tickvals": ticks,
                     "ticktext": [f"{2**tick:,}" for tick in ticks]},
    }  # fmt: skip
    texts = [design_text(space, record) for record in records]
    drawn = scatter("all designs", x, y, text=texts, hovertemplate="%{text}<extra></extra>", marker=marker)
    return drawn | {"type": "scattergl" if len(records) > MOST_SVG else "scatter"}


def _points(
    space: Space,
    records: Sequence[Record],
    goals: Sequence[Objective],
    name: str,
    colour: str,
    symbol: str,
    links: Links,
    scope: str,
) -> dict[str, Any]:
    x, y = _columns(space, records, goals)
    opens = [links.get(space.key(record.values), {}).get(scope, "") for record in records]
    texts = [
        design_text(space, record) + ("<br><i>click: its run report</i>" if link else "")
        for record, link in zip(records, opens, strict=True)
    ]
    line = {"line": {"color": colour, "shape": "hv", "width": 1}} if symbol == "circle" else {}
    marker = {"size": 9, "color": colour, "symbol": symbol, "line": {"width": 1.5, "color": colour}}
    mode, hover = "lines+markers" if line else "markers", "%{text}<extra></extra>"
    return scatter(name, x, y, mode, text=texts, customdata=opens, hovertemplate=hover, marker=marker, **line)


def lines_figure(space: Space, records: Sequence[Record], goals: Sequence[Objective]) -> dict[str, Any]:
    """Every design as a line through its parameters and objectives; the front's are always among them."""
    feasible = [record for record in records if record.ok]
    best = pareto(space, feasible, goals)
    rest = [record for record in feasible if record not in best]
    drawn = [*_thinned(rest, MOST_LINES), *best]
    dimensions = []
    for parameter in space.parameters:
        if parameter.is_continuous:
            dimensions.append({"label": parameter.name, "values": [record.values[parameter.name] for record in drawn]})
            continue
        known = {value: place for place, value in enumerate(parameter.values)}
        dimensions.append(
            {
                "label": parameter.name,
                "values": [known.get(record.values[parameter.name], -1) for record in drawn],
                "tickvals": list(known.values()),
                "ticktext": [parameter_text(parameter.path, value) for value in known],
            }
        )
    columns = _columns(space, drawn, goals)
    dimensions += [{"label": _axis(goal), "values": each} for goal, each in zip(goals, columns, strict=True)]
    on_front = [0] * (len(drawn) - len(best)) + [1] * len(best)
    dimensions.append({"label": "on the front", "values": on_front, "tickvals": [0, 1], "ticktext": ["no", "yes"]})
    trace = {
        "type": "parcoords", "dimensions": dimensions,
        "line": {"color": columns[0], "colorscale": "Viridis", "showscale": True},
    }  # fmt: skip
    return figure([trace], margin={"l": 60, "r": 60, "t": 70, "b": 30})


def importance_figure(space: Space, records: Sequence[Record], goals: Sequence[Objective]) -> dict[str, Any]:
    """Bars: share of variance each parameter explains, for every objective."""
    traces = []
    for goal in goals:
        found = importance(space, records, goal)
        traces.append(
            {
                "type": "bar", "name": goal.text,
                "x": [share.parameter for share in found], "y": [share.main for share in found],
                "text": [percent(share.main) for share in found],
                "hovertext": [
                    f"alone {percent(share.main)}"
                    + (f", with interactions {percent(share.total)}" if share.total is not None else "")
                    for share in found
                ],
                "hoverinfo": "text",
            }
        )  # fmt: skip
    return figure(traces, barmode="group", yaxis=axis("share of variance explained", tickformat=".0%"))


def overlap_table(space: Space, records: Sequence[Record]) -> str:
    """How much the fronts of two scopes agree, and what it costs to choose for the wrong one."""
    rows = []
    for first in scopes(space):
        for second in scopes(space):
            if first != second:
                fronts = overlap(space, records, first, second)
                rows.append(
                    [f"designs of the {first} front, used for {second}",
                     str(fronts.first_size), str(fronts.second_size), str(fronts.common),
                     percent(fronts.share), percent(fronts.hypervolume_ratio)]
                )  # fmt: skip
    heads = ("fronts", "on the first", "on the second", "on both", "of either", "of the second's hypervolume")
    lost = [
        [f"best {choice.figure} for {choice.best_for}, used for {choice.used_for}", times(choice.penalty),
         ", ".join(str(value) for value in choice.design.values.values()),
         ", ".join(str(value) for value in choice.best.values.values())]
        for choice in choices(space, records, ("latency", "energy", "edp"))
    ]  # fmt: skip
    names = ", ".join(parameter.name for parameter in space.parameters)
    return table(heads, rows) + table(
        ("choice", "of the best there", f"chosen design ({names})", "best there"), lost, names=1
    )


def front_table(space: Space, records: Sequence[Record]) -> str:
    """The designs on any front."""
    rows = []
    for scope in scopes(space):
        goals = objectives_of(space, scope)
        chosen = pareto(space, records, goals)
        columns = _columns(space, chosen, goals)
        for place, record in enumerate(chosen[:MOST_IN_TABLE]):
            figures = [f"{each[place]:.4g} {SCALES[goal.figure][1]}" for each, goal in zip(columns, goals, strict=True)]
            values = [parameter_text(parameter.path, record.values[parameter.name]) for parameter in space.parameters]
            rows.append([scope, *values, *figures, f"{record.metrics['area_mm2']:.1f} mm²"])
    heads = ("front for", *(parameter.name for parameter in space.parameters), "latency", "energy", "area")
    return table(heads, rows)


def panels(space: Space, records: Sequence[Record], goals: Sequence[Objective], links: Links) -> list[Panel]:
    """Every box of the page."""
    names = scopes(space)
    found = _declared_panels(space, records, goals)
    found += [
        Panel(
            f"Front for {name}",
            "Each point is a design; none has both less latency and less energy than one on the line. Hover for the "
            "whole design" + ("; click a point of a front for its run report." if links else "."),
            front_figure(space, records, name, links),
            half=len(names) > 1,
            height_px=460,
        )
        for name in names
    ]
    found.append(Panel("Designs", "Each line is a design; drag along an axis to select.",
                       lines_figure(space, records, goals), height_px=460))  # fmt: skip
    every = [goal for name in names for goal in objectives_of(space, name)]
    found.append(
        Panel(
            "Which parameters matter",
            "Share of the variance (of the logarithm) that a parameter explains on its own; hover for its share with "
            "interactions where the whole space was evaluated.",
            importance_figure(space, records, every),
        )
    )
    if len(names) > 1:
        found.append(Panel("What is lost by choosing for the other", "", body=overlap_table(space, records)))
    found.append(Panel("Designs on a front", "", body=front_table(space, records)))
    if why := reasons(records):
        rows = [[reason, f"{count:,}"] for reason, count in why[:MOST_IN_TABLE]]
        found.append(Panel("Points without figures", "", body=table(("reason", "points"), rows)))
    return found


def facts(space: Space, records: Sequence[Record]) -> list[str]:
    """The line under the title."""
    feasible = sum(record.ok for record in records)
    of = f" of {space.size:,}" if space.size else ""
    runs = [f"{name}: {workload.model}, {workload.mode}, batch {workload.batch or 1}, {workload.precision or 'fp32'}"
            for name, workload in space.workloads.items()]  # fmt: skip
    versions = sorted({record.version for record in records})
    return [
        f"{len(records):,}{of} points, {feasible:,} with figures",
        *runs,
        *(f"model {version}" for version in versions),
    ]


def write_exploration(
    path: str | Path, space: Space, records: Sequence[Record], goals: Sequence[Objective], links: Links | None = None
) -> None:
    """Write the page, whole or not at all."""
    boxes = panels(space, records, goals, links or {})
    write_study(path, f"Exploration of {space.name}", facts(space, records), boxes)
