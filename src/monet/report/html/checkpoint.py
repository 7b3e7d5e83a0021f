"""The page of a checkpoint search: memory against latency and energy, plans on hover, baselines, what is proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from monet.report.checkpoint import counts
from monet.report.checkpoint_schedule import change, free_line, shortage, static_line
from monet.report.columns import Column
from monet.report.html.labels import with_labels_apart
from monet.report.html.study import (
    HALF_PX,
    HIGH_PX,
    WHOLE_PX,
    Panel,
    axis,
    figure,
    rows_table,
    scatter,
    table,
    write_study,
)
from monet.report.quantities import joules, nbytes, quantity, seconds

MB = 1e6
NAMED = 8  # tensors of a plan that hover spells out
SHADED = {"fill": "tozeroy", "fillcolor": "rgba(27,35,48,0.07)"}  # what is proved impossible
Values = Mapping[str, Any]


def write_checkpoint(path: str | Path, values: Values) -> None:
    """Write the page of a search."""
    pages = scheduled_page if values["cost"] == "schedule" else static_page
    title, facts, panels = pages(values)
    write_study(path, title, facts, panels)


def plan_text(plan: Mapping[str, Sequence[str]]) -> str:
    """A plan in a few lines of hover text."""
    if not plan:
        return "everything kept"
    lines = []
    for choice, names in plan.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"{choice} {len(names)}: {', '.join(names[:NAMED])}{more}")
    return "<br>".join("<br>".join(wrap(line, 90, break_long_words=False, break_on_hyphens=False)) for line in lines)


def _marks(points: Sequence[Values], x: str, y: Any, name: str, **more: Any) -> dict[str, Any]:
    return scatter(
        name,
        [point[x] / MB for point in points],
        [y(point) for point in points],
        hovertext=[f"<b>{point['method']}</b><br>{plan_text(point['plan'])}" for point in points],
        text=[point["method"] for point in points],
        cliponaxis=False,
        **more,
    )


def again(plan: Values) -> float:
    """Repeated work in per cent of the forward pass."""
    return 100 * float(plan["recompute_over_forward"])


# --- through the schedule ---------------------------------------------------------------------------------------------


def lower_envelope(points: Sequence[Values], value: str) -> list[Values]:
    """Of a front in three figures the plans that none beats in memory and ``value`` alone, by memory."""
    found: list[Values] = []
    for plan in sorted(points, key=lambda plan: (plan["memory_peak_bytes"], plan[value])):
        if not found or plan[value] < found[-1][value]:
            found.append(plan)
    return found


def scheduled_figure(values: Values, value: str, label: str) -> dict[str, Any]:
    """Peak memory against a figure of the schedule, relative to the plain step."""
    plain = values["plain"]

    def relative(plan: Values) -> float:
        return 100 * (float(plan[value]) / float(plain[value]) - 1)

    hover = f"%{{x:.3f}} MB, %{{y:+.2f}} % {label}<br>%{{hovertext}}<extra></extra>"
    line = lower_envelope(values["front"], value)
    rest = [plan for plan in values["front"] if plan not in line]
    data = [
        _marks(rest, "memory_peak_bytes", relative, "on the front for the other figure", mode="markers",
               hovertemplate=hover, marker={"size": 5, "opacity": 0.45, "color": "#6b7686"}),
        _marks(line, "memory_peak_bytes", relative, f"memory and {label}", mode="lines+markers", hovertemplate=hover,
               line={"shape": "hv", "width": 1.5, "color": "#3f7fc1"}, marker={"size": 7}),
        _marks(values["baselines"], "memory_peak_bytes", relative, "baselines", mode="markers+text",
               hovertemplate=hover, marker={"size": 10, "symbol": "diamond", "color": "#d9703a"}),
        _marks([values], "memory_peak_bytes", relative, "chosen", mode="markers", hovertemplate=hover,
               marker={"size": 14, "symbol": "star", "color": "#3a9a77"}),
    ]  # fmt: skip
    drawn = figure(
        data,
        xaxis=axis("peak of activations, MB"),
        yaxis=axis(f"{label} against the plain step, %", zeroline=True),
    )
    return with_labels_apart(drawn, HALF_PX, HIGH_PX)


def work_figure(values: Values) -> dict[str, Any]:
    """Kept bytes against repeated work: the exact curve, what is proved, and where the front lies above it."""
    exact = values["exact"]
    hover = "%{x:.3f} MB kept, %{y:.2f} % of forward again<br>%{hovertext}<extra></extra>"
    front = _marks(values["front"], "kept_bytes", again, "front through the schedule", mode="markers",
                   hovertemplate=hover, marker={"size": 6, "color": "#3f7fc1"})  # fmt: skip
    named = _marks(values["baselines"], "kept_bytes", again, "baselines", mode="markers+text", hovertemplate=hover,
                   marker={"size": 10, "symbol": "diamond", "color": "#d9703a"})  # fmt: skip
    curve = scatter(
        "proved least",
        [optimum["kept_bytes"] / MB for optimum in exact],
        [100 * optimum["bound"] for optimum in exact],
        "lines+markers",
        # between two optima only that of more memory is a bound
        line={"shape": "vh", "color": "#1b2330", "width": 1.5},
        marker={"size": 4},
        hovertemplate="%{x:.3f} MB kept, at least %{y:.2f} %<extra></extra>",
        **SHADED,
    )
    drawn = figure(
        [curve, front, named],
        xaxis=axis("kept from forward to backward, MB"),
        yaxis=axis("repeated FLOPs of the forward pass, %"),
    )
    return with_labels_apart(drawn, WHOLE_PX, HIGH_PX)


def plan_table(points: Sequence[Values], plain: Values) -> str:
    """Plans with their figures: a baseline by its name, any other plan by what it does."""

    def figures(label: str, key: str, unit: str) -> Column[Values]:
        return Column(label, "", lambda plan: f"{quantity(plan[key], unit)} ({change(plan[key], plain[key])})")

    columns: tuple[Column[Values], ...] = (
        Column("plan", "", lambda plan: counts(plan["plan"]) if plan["method"] in ("ga", "exact") else plan["method"]),
        Column("peak", "B", lambda plan: plan["memory_peak_bytes"]),
        Column("kept", "B", lambda plan: plan["kept_bytes"]),
        figures("latency", "latency_s", "s"),
        figures("energy", "energy_j", "J"),
        figures("DRAM traffic", "dram_bytes", "B"),
        Column("again", "", lambda plan: f"{again(plan):.2f} %"),
        Column("peak in", "", lambda plan: plan["peak_operator"]),
    )
    return rows_table(columns, points)


def scheduled_panels(values: Values) -> list[Panel]:
    """Panels of a search through the schedule."""
    plain = values["plain"]
    chosen = {**values, "method": f"chosen ({values['method']})"}
    line = lower_envelope(values["front"], "latency_s")
    return [
        Panel(
            "Memory and latency",
            "Each point is a checkpoint plan through the full schedule; below zero, faster than keeping everything.",
            figure=scheduled_figure(values, "latency_s", "latency"),
            half=True,
        ),
        Panel(
            "Memory and energy",
            "The same plans; those on the line have the least energy for their memory.",
            figure=scheduled_figure(values, "energy_j", "energy"),
            half=True,
        ),
        Panel(
            "Repeated work, and what is proved",
            "Nothing lies in the shaded region: the curve is the least work that the kept bytes are proved to need. "
            "A plan above it repeats more than it must, because on this hardware that is faster than reading "
            "what was kept.",
            figure=work_figure(values),
        ),
        Panel("Chosen and baselines", body=plan_table([chosen, *values["baselines"]], plain)),
        Panel("Front of memory and latency", body=plan_table(line, plain)),
    ]


def scheduled_page(values: Values) -> tuple[str, list[str], list[Panel]]:
    """Title, facts and panels of a search through the schedule."""
    plain = values["plain"]
    facts = [
        f"plain step {seconds(plain['latency_s'])}, {joules(plain['energy_j'])}, activations peak at "
        f"{nbytes(plain['memory_peak_bytes'])} in {plain['peak_operator']}",
        f"{len(values['front'])} plans on the front of {values['evaluated']} tried",
        free_line(values),
        *(line.strip().replace("\n", "; ") for line in (shortage(values), static_line(values)) if line),
    ]
    return f"Checkpointing {values['model']} on {values['hardware']}", facts, scheduled_panels(values)


# --- repeated work only -----------------------------------------------------------------------------------------------


def static_page(values: Values) -> tuple[str, list[str], list[Panel]]:
    """Title, facts and panels of a search by repeated work, against kept bytes or the peak over time."""
    over_time = values.get("memory") == "peak"
    memory = "peak of activations and their gradients" if over_time else "kept from forward to backward"

    def placed(plan: Values) -> dict[str, Any]:
        return {**plan, "memory_bytes": plan["peak"]["bytes"] if over_time else plan["kept_bytes"]}

    def least(plan: Values) -> float:
        return 100 * (float(plan["recompute_over_forward"]) - float(plan["gap"]))

    hover = "%{x:.3f} MB, %{y:.2f} % of forward again<br>%{hovertext}<extra></extra>"
    points = sorted(map(placed, values["front"]), key=lambda plan: plan["memory_bytes"])
    data = [
        _marks(points, "memory_bytes", least, "proved least", mode="lines", hoverinfo="skip",
               line={"shape": "vh", "width": 1, "dash": "dot", "color": "#1b2330"}, **SHADED),
        _marks(points, "memory_bytes", again, "front", mode="lines+markers", hovertemplate=hover,
               line={"shape": "hv", "width": 1.5}, marker={"size": 6}),
        _marks([placed(plan) for plan in values["baselines"]], "memory_bytes", again, "baselines",
               mode="markers+text", hovertemplate=hover, marker={"size": 10, "symbol": "diamond"}),
        _marks([placed(values)], "memory_bytes", again, "chosen", mode="markers", hovertemplate=hover,
               marker={"size": 14, "symbol": "star"}),
    ]  # fmt: skip
    drawn = figure(data, xaxis=axis(f"{memory}, MB"), yaxis=axis("repeated work of the forward pass, %"))
    plot = with_labels_apart(drawn, WHOLE_PX, HIGH_PX)
    rows = [
        (plan["method"], nbytes(plan["kept_bytes"]), f"{again(plan):.2f} %",
         "–" if plan["gap"] is None else f"{100 * plan['gap']:.2f}",
         nbytes(plan["peak"]["bytes"]), plan["peak"]["operator"])
        for plan in (values, *values["baselines"])
    ]  # fmt: skip
    heads = ("plan", "kept", "again", "points above the proved least", "peak", "peak in")
    facts = [f"keeps {nbytes(values['keep_all_bytes'])} without a plan", values["counting"]]
    if over_time:
        facts.append(f"proved: {values['timeline']['proved_means']}")
    panels = [
        Panel("Memory and repeated work", "Hover shows the plan; nothing lies in the shaded region.", figure=plot),
        Panel("Chosen and baselines", body=table(heads, rows)),
    ]
    return f"Checkpointing {values['model']}", facts, panels
