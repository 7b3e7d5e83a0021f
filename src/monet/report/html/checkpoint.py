"""The page of a checkpoint search: the front with baselines and the proven gap, and what the plans drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monet.report.checkpoint import fine_percent, proof
from monet.report.html.study import Panel, figure, table, write_study
from monet.report.quantities import nbytes

SHOWN = 8  # names of a plan in a hover label


def write_checkpoint(path: str | Path, values: Mapping[str, Any]) -> None:
    """Write the page, whole or not at all."""
    write_study(path, f"Checkpointing of {values['model']}", facts_of(values), panels(values))


def facts_of(values: Mapping[str, Any]) -> list[str]:
    """The line under the title."""
    return [
        f"keeps {nbytes(values['keep_all_bytes'])} without a plan",
        f"chosen: {nbytes(values['kept_bytes'])}",
        f"{fine_percent(values['recompute_over_forward'])} of the forward pass again ({proof(values)})",
        f"peak at {values['peak']['operator']}: {nbytes(values['peak']['bytes'])}",
    ]


def panels(values: Mapping[str, Any]) -> list[Panel]:
    """All boxes of the page."""
    return [
        Panel(
            "Memory against repeated work",
            "Least work at each amount of kept memory, with its proven lower bound; baselines marked. "
            "Point at one for its plan.",
            front_figure(values),
            height_px=480,
        ),
        Panel("Plans", "The chosen plan, the front, the baselines.", body=_plans(values)),
        Panel("The chosen plan", "Names as monet run --checkpoint takes them.", body=_names(values)),
    ]


def front_figure(values: Mapping[str, Any]) -> dict[str, Any]:
    """Kept megabytes against repeated work in per cent of the forward pass."""
    front = sorted(values["front"], key=lambda one: one["kept_bytes"])
    bound = [100 * (one["recompute_over_forward"] - one["gap"]) for one in front]
    megabytes = [one["kept_bytes"] / 1e6 for one in front]
    data: list[dict[str, Any]] = [
        {"name": "proven bound", "x": megabytes, "y": bound, "mode": "lines", "line": {"shape": "vh", "dash": "dot"},
         "hoverinfo": "skip"},
        _points("exact", front, mode="lines+markers", line={"shape": "vh"}),
        _points("baselines", values["baselines"], mode="markers+text", textposition="top center",
                marker={"symbol": "diamond", "size": 9}, text=[one["method"] for one in values["baselines"]]),
        _points("chosen", [values], mode="markers", marker={"symbol": "star", "size": 15}),
    ]  # fmt: skip
    axis = {"title": {"text": "kept from forward to backward (MB)"}, "rangemode": "tozero"}
    other = {"title": {"text": "forward work done again (%)"}, "rangemode": "tozero"}
    return figure(data, xaxis=axis, yaxis=other)


def _points(name: str, points: Sequence[Mapping[str, Any]], **style: Any) -> dict[str, Any]:
    return {
        "name": name,
        "x": [one["kept_bytes"] / 1e6 for one in points],
        "y": [100 * one["recompute_over_forward"] for one in points],
        "hovertext": [hover(one) for one in points],
        "hoverinfo": "text",
        **style,
    }


def hover(one: Mapping[str, Any]) -> str:
    """The label of one point: its figures and the beginning of its plan."""
    lines = [
        f"{one['method']}: {nbytes(one['kept_bytes'])}, {fine_percent(one['recompute_over_forward'])} ({proof(one)})",
        f"peak {nbytes(one['peak']['bytes'])} at {one['peak']['operator']}",
    ]
    for choice, names in one["plan"].items():
        rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        lines.append(f"{choice} {len(names)}: {', '.join(names[:SHOWN])}{rest}")
    return "<br>".join(lines)


def _plans(values: Mapping[str, Any]) -> str:
    rows = [_row("chosen", values)]
    rows += [_row("front", one) for one in values["front"]]
    rows += [_row(one["method"], one) for one in values["baselines"]]
    heads = ("plan", "peak at", "kept", "forward work again", "above optimum", "peak")
    return table(heads, rows, names=2)


def _row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        one["peak"]["operator"],
        nbytes(one["kept_bytes"]),
        fine_percent(one["recompute_over_forward"]),
        proof(one),
        nbytes(one["peak"]["bytes"]),
    )


def _names(values: Mapping[str, Any]) -> str:
    return table(
        ("choice", "storage"), [(choice, name) for choice, names in values["plan"].items() for name in names], names=2
    )
