"""The page of a fusion search: plans compared, off-chip bytes against their bounds, the groups drawn on the graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monet.graph.op import Phase
from monet.report.fusion import PlanRow, facts_of, legal_groups, plan_columns
from monet.report.html.study import LAYOUT, Panel, axis, figure, rows_table, scatter, table, write_study
from monet.report.quantities import nbytes
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan
from monet.schedule.workload import Workload
from monet.search.fusion.search import FoundFusion

LANES = {Phase.FORWARD: 0.0, Phase.LOSS: 0.0, Phase.BACKWARD: 1.0, Phase.UPDATE: 2.0}
ROW_PX = 15


def write_fusion(path: str | Path, scheduler: Scheduler, found: FoundFusion, values: Mapping[str, Any]) -> None:
    """Write the page, whole or not at all."""
    title = f"Fusion of {values['model']} on {values['hardware']}"
    write_study(path, title, facts_of(values), panels(scheduler.workload, found, values))


def panels(workload: Workload, found: FoundFusion, values: Mapping[str, Any]) -> list[Panel]:
    """All boxes of the page."""
    plan = found.plans["found"][0]
    rows = graph_rows(workload, plan)
    compared = rows_table(plan_columns(values["plans"][0]), values["plans"])
    height = max(500, ROW_PX * (1 + max(row["y"] for row in rows)))
    return [
        Panel("Plans", "Every plan through the full schedule; the bound holds for all plans.", body=compared),
        Panel("Latency and energy", "Against unfused.", relative_figure(values), half=True, height_px=340),
        Panel("Off-chip bytes", "Compulsory: what every plan moves.", traffic_figure(values), half=True, height_px=340),
        Panel(
            "How far to trust the exact partition",
            "One point per plan: the cost if gains of groups added up, and the cost of the full schedule.",
            ranking_figure(values),
            half=True,
            height_px=340,
        ),
        Panel("The search", "What became of all legal groups.", body=_search(values), half=True),
        Panel(
            "Groups on the graph",
            "Executed operators by layer: forward (left, top to bottom), backward, update. One colour and one line per "
            "group; grey operators run alone. Point at one for its name, kind and tile.",
            graph_figure(rows, workload),
            height_px=height,
        ),
        Panel("Groups", "In the order of the plan.", body=_groups(plan)),
    ]


def graph_rows(workload: Workload, plan: Plan) -> list[dict[str, Any]]:
    """Every operator with its place in the drawing and its group (-1: alone)."""
    group = {name: number for number, fused in enumerate(plan.groups) for name in fused.operators}
    order: dict[str, int] = {}
    for operator in workload.operators:
        if operator.op.phase in (Phase.FORWARD, Phase.LOSS):
            order.setdefault(operator.op.layer or operator.op.name, len(order))
    height: dict[tuple[str, float], int] = {}
    found: list[dict[str, Any]] = []
    for operator in workload.operators:
        layer = operator.op.layer or operator.op.name
        lane = LANES[operator.op.phase]
        rank = height.get((layer, lane), 0)
        height[layer, lane] = rank + 1
        found.append(
            {
                "number": operator.number, "name": operator.op.name, "kind": operator.op.kind,
                "phase": operator.op.phase.value, "layer": layer, "lane": lane, "rank": rank,
                "group": group.get(operator.op.name, -1),
            }
        )  # fmt: skip
    for layer in dict.fromkeys(row["layer"] for row in found):
        order.setdefault(layer, len(order))
    tall: dict[str, int] = {}
    for (layer, _), count in height.items():
        tall[layer] = max(count, tall.get(layer, 0))
    start, offset = 0, dict[str, int]()
    for layer in sorted(order, key=order.__getitem__):
        offset[layer] = start
        start += tall.get(layer, 0)
    for row in found:
        row["y"] = offset[row["layer"]] + row["rank"]
        row["x"] = row["lane"] + 0.03 * (row["y"] % 3)
    return found


def graph_figure(rows: list[dict[str, Any]], workload: Workload) -> dict[str, Any]:
    """Operators as points, dependencies as thin lines, groups as coloured ones."""
    colours = LAYOUT["colorway"]
    at = {row["number"]: (row["x"], row["y"]) for row in rows}
    xs: list[float | None] = []
    ys: list[float | None] = []
    for earlier, later in workload.dependencies:
        xs += [at[earlier][0], at[later][0], None]
        ys += [at[earlier][1], at[later][1], None]
    thin = {"color": "rgba(120,130,150,0.4)", "width": 1}
    data = [scatter("data", xs, ys, "lines", line=thin, hoverinfo="skip")]
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    for number, members in sorted(groups.items()):
        colour = "#b9c0cb" if number < 0 else colours[number % len(colours)]
        label = "alone" if number < 0 else f"group {number}"
        text = [f"{row['name']}<br>{row['kind']}, {row['phase']}<br>{label}" for row in members]
        data.append(
            scatter(
                label, [row["x"] for row in members], [row["y"] for row in members],
                "markers" if number < 0 else "lines+markers", text=text, hoverinfo="text", showlegend=False,
                marker={"size": 7 if number < 0 else 11, "color": colour}, line={"color": colour, "width": 4},
            )
        )  # fmt: skip
    lanes = {"tickvals": [0.03, 1.03, 2.03], "ticktext": ["forward, loss", "backward", "update"], "side": "top"}
    firsts: dict[str, int] = {}
    for row in rows:
        firsts.setdefault(row["layer"], row["y"] - row["rank"])
    layers = {"tickvals": list(firsts.values()), "ticktext": list(firsts), "autorange": "reversed", "showgrid": False}
    margin = {"l": 190, "r": 20, "t": 60, "b": 20}
    plain = {"showgrid": False, "zeroline": False}
    return figure(data, xaxis=lanes | plain, yaxis=layers | plain, margin=margin, showlegend=False)


def relative_figure(values: Mapping[str, Any]) -> dict[str, Any]:
    """Latency and energy of every plan, unfused at 100 %."""
    rows: list[PlanRow] = values["plans"]
    names = [row.name for row in rows]
    latency = [100 * (row.latency_s / rows[0].latency_s) for row in rows]
    energy = [100 * (row.energy_j / rows[0].energy_j) for row in rows]
    data = [{"type": "bar", "name": what, "x": names, "y": y} for what, y in (("latency", latency), ("energy", energy))]
    return figure(data, barmode="group", yaxis=axis("% of unfused"))


def traffic_figure(values: Mapping[str, Any]) -> dict[str, Any]:
    """Off-chip bytes of every plan, and what is compulsory."""
    rows = values["plans"]
    compulsory = values["off_chip"]["compulsory_bytes"]
    names = [row.name for row in rows]
    bars = {"type": "bar", "name": "off-chip", "x": names, "y": [row.dram_bytes / 1e6 for row in rows]}
    line = scatter("compulsory", names, [compulsory / 1e6] * len(rows), "lines", line={"dash": "dot"})
    return figure([bars, line], yaxis=axis("MB per step"))


def ranking_figure(values: Mapping[str, Any]) -> dict[str, Any]:
    """Additive against scheduled cost of the plans that were re-ranked."""
    unit, pairs = values["partition"]["unit"], values["ranked_plans"]
    shown, scale = (f"m{unit}", 1e3) if unit in ("s", "J") else (unit, 1.0)
    title = f"{values['objective']}, {shown}"
    points = scatter("plan", [scale * x for x, _ in pairs], [scale * y for _, y in pairs], marker={"size": 9})
    upwards = {"title": {"text": f"scheduled {title}", "standoff": 12}, "automargin": True}
    return figure([points], showlegend=False, xaxis=axis(f"additive {title}"), yaxis=upwards)


def _search(values: Mapping[str, Any]) -> str:
    census, part, off = values["candidates"], values["partition"], values["off_chip"]
    correlation, among = values["rank_correlation"], values["rank_correlation_of_best"]
    rows = [
        ["legal groups (convex, connected)", legal_groups(census)],
        ["that may gain more than a part of them", f"{census['hopeful']:,}"],
        ["distinct, repeated layers once", f"{census['distinct']:,}"],
        ["costed through the full schedule", f"{census['costed']:,} ({census['schedules']:,} schedules)"],
        ["gaining; dominated by a part of them", f"{census['gaining']:,}; {census['dominated']:,}"],
        ["exact partition proved optimal", "yes" if part["optimal"] else "no"],
        ["rank correlation, additive and scheduled", "" if correlation is None else f"{correlation:.2f}"],
        ["the same among the better half", "too few plans" if among is None else f"{among:.2f}"],
        ["schedules in all", f"{values['schedules']:,}"],
        ["compulsory off-chip bytes that memories cannot keep", nbytes(off["forced_bytes"])],
    ]
    return table(["", ""], rows)


def _groups(plan: Plan) -> str:
    rows = []
    for number, fused in enumerate(plan.groups):
        cores = {", ".join(plan.placements[name].cores[:1]) for name in fused.operators if name in plan.placements}
        tile = ", ".join(f"{dim} {size}" for dim, size in fused.tile) or "whole operators"
        rows.append(
            [str(number), " → ".join(fused.operators), tile, fused.halo if fused.tile else "", ", ".join(sorted(cores))]
        )
    return table(["group", "operators", "tile", "halo", "first core"], rows, names=5)
