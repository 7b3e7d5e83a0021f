"""Loss curves: drawn in a terminal and on a page, one against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from monet.numerics.learning import LossCurve
from monet.report.html.study import Panel, axis, figure, scatter, table_panel
from monet.report.table import Heading, TextTable

ROWS, COLUMNS = 12, 64
MARKS = "*·"  # of what is asked for, and of what it is compared with
SHOWN = 8  # steps in the table


def info(curves: Sequence[LossCurve]) -> list[dict[str, Any]]:
    """Plain values for JSON; a loss that is no number is written as such."""
    return [
        {
            "precision": curve.precision,
            "losses": [loss if math.isfinite(loss) else str(loss) for loss in curve.losses],
            "diverged": curve.diverged,
            "last": None if curve.diverged else curve.last(),
        }
        for curve in curves
    ]


def drawing(curves: Sequence[LossCurve]) -> str:
    """The curves in characters, loss upwards on a logarithmic scale; the first is drawn over the others."""
    usable = [[loss for loss in curve.losses if math.isfinite(loss) and loss > 0] for curve in curves]
    every = [loss for losses in usable for loss in losses]
    if not every:
        return "no loss is a positive number"
    low, high = math.log(min(every)), math.log(max(every))
    span = (high - low) or 1.0
    longest = max(len(curve.losses) for curve in curves)
    grid = [[" "] * COLUMNS for _ in range(ROWS)]
    for curve, mark in reversed(list(zip(curves, MARKS, strict=False))):
        for column in range(COLUMNS):
            first, last = column * longest // COLUMNS, (column + 1) * longest // COLUMNS
            part = [loss for loss in curve.losses[first : max(last, first + 1)] if math.isfinite(loss) and loss > 0]
            if part:
                row = round((high - float(np.mean(np.log(part)))) / span * (ROWS - 1))
                grid[row][column] = mark
    labels = [f"{math.exp(high - span * row / (ROWS - 1)):9.3g}" for row in range(ROWS)]
    lines = [f"{label} │{''.join(row)}".rstrip() for label, row in zip(labels, grid, strict=True)]
    legend = "   ".join(f"{mark} {curve.precision}" for curve, mark in zip(curves, MARKS, strict=False))
    return "\n".join([*lines, f"{'':9} └{'─' * COLUMNS}", f"{'loss':>9}  steps 1 to {longest}   {legend}"])


def table(curves: Sequence[LossCurve]) -> TextTable:
    """Losses at some steps, and how the last ones compare: those of one step are noisy, so means of ten."""
    longest = max(len(curve.losses) for curve in curves)
    steps = sorted({round(step) for step in np.linspace(1, longest, SHOWN)})
    rows = [
        [str(step), *(f"{curve.losses[step - 1]:.4g}" if step <= len(curve.losses) else "–" for curve in curves)]
        for step in steps
    ]
    rows.append(["mean of last 10", *("diverged" if curve.diverged else f"{curve.last():.4g}" for curve in curves)])
    compared = ""
    if len(curves) > 1 and not any(curve.diverged for curve in curves):
        compared = (
            f"{curves[0].precision} ends at {curves[0].last() / curves[1].last():.3g} times {curves[1].precision}'s"
        )
    return TextTable(
        "Loss by step", [Heading("step", "words"), *(curve.precision for curve in curves)], rows, more=compared
    )


def panels(curves: Sequence[LossCurve]) -> tuple[Panel, ...]:
    """What the page shows."""
    traces = [
        scatter(curve.precision, range(1, len(curve.losses) + 1), [_drawn(loss) for loss in curve.losses], "lines")
        for curve in curves
    ]
    plot = figure(traces, xaxis=axis("step"), yaxis=axis("loss", type="log"))
    return (
        Panel("Loss", "Of every step, before its update, on the batch it is trained on.", figure=plot),
        table_panel(table(curves)),
    )


def _drawn(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None
