"""The page of a training step over a system: the pipeline over stages, memory of stages, the network, the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from monet.distributed.result import TASKS, DistributedResult
from monet.report.columns import rows_table
from monet.report.distributed import COMMUNICATION, STAGES, headline, parts_of, plan_words, time_table, title_of
from monet.report.html.study import Panel, axis, figure, scatter, table_panel, words_panel, write_study

WAITING = "#d5dae1"  # a stage that does nothing
COLOURS = ("#3f7fc1", "#d9703a", "#8a6fb5", "#3a9a77")
MOST_BARS = 24000


def write_distributed(result: DistributedResult, path: str | Path) -> None:
    """Write the page, whole or not at all."""
    facts = [plan_words(result), f"monet {result.version}"]
    write_study(path, title_of(result), facts, panels(result))


def panels(result: DistributedResult) -> list[Panel]:
    """All boxes of the page."""
    found = [words_panel("Does not fit", [result.reason.message])] if result.reason else []
    if not result.stages:
        return found
    found += [table_panel(headline(result), half=True), table_panel(time_table(result), half=True)]
    if result.chart is not None:
        about = "Every pass of every stage. Drag to zoom, double-click to see all; hover for the micro-batch."
        height = min(900, 180 + 34 * len(result.stages))
        found.append(Panel("Pipeline", about, pipeline_figure(result), height_px=height))
    found.append(Panel("Where time goes, by stage", "", time_figure(result), half=True))
    found.append(
        Panel("Memory at its peak, by stage", "The line is what a device has.", memory_figure(result), half=True)
    )
    if result.memory:
        about = "On a device of the first, the middle and the last stage: what stays, and activations of micro-batches."
        found.append(Panel("Memory over time", about, memory_over_time(result)))
    if len(result.matrix) > 1:
        about = "Bytes in a step from the devices of one stage to those of another; inside a stage on the diagonal."
        found.append(Panel("Communication between stages", about, matrix_figure(result), half=True))
    found.append(table_panel(rows_table("Stages, a device of each", STAGES, result.stages)))
    if result.communication:
        found.append(table_panel(rows_table("Network", COMMUNICATION, result.communication)))
    return found


def pipeline_figure(result: DistributedResult) -> dict[str, Any]:
    """Bars by stage; the first stage on top. Of very long steps the beginning and the end are drawn."""
    chart = result.chart
    assert chart is not None
    chosen = np.arange(len(chart.start))
    if len(chosen) > MOST_BARS:  # the earliest and the latest passes: what lies between repeats
        order = np.argsort(chart.start, kind="stable")
        chosen = np.concatenate((order[: MOST_BARS // 2], order[-MOST_BARS // 2 :]))
    traces = []
    for kind, name in enumerate(TASKS):
        mine = chosen[chart.kind[chosen] == kind]
        if not len(mine):
            continue
        texts = [
            f"{name} of micro-batch {micro}, chunk {chunk}" if micro >= 0 else name
            for micro, chunk in zip(chart.micro_batch[mine].tolist(), chart.chunk[mine].tolist(), strict=True)
        ]
        traces.append({
            "type": "bar", "orientation": "h", "name": name,
            "marker": {"color": COLOURS[kind], "line": {"width": 0.4, "color": "#ffffff"}},
            "base": (chart.start[mine] * 1e-6).tolist(), "x": ((chart.end[mine] - chart.start[mine]) * 1e-6).tolist(),
            "y": chart.stage[mine].tolist(), "text": texts, "textposition": "none",
            "hovertemplate": "%{text}<br>%{base:.6g} ms, for %{x:.6g} ms<extra>stage %{y}</extra>",
        })  # fmt: skip
    y = _stages("stage", result, autorange="reversed", fixedrange=True)
    return figure(traces, barmode="overlay", bargap=0.15, dragmode="zoom", xaxis=axis("ms"), yaxis=y)


def _stages(title: str, result: DistributedResult, **more: Any) -> dict[str, Any]:
    """An axis of stages: whole numbers, about sixteen of them."""
    return axis(title, dtick=max(1, len(result.stages) // 16), **more)


def time_figure(result: DistributedResult) -> dict[str, Any]:
    """Stacked: where each stage's time goes."""
    names = list(dict.fromkeys(name for row in result.stages for name, _ in parts_of(row.time)))
    numbers = [row.number for row in result.stages]
    traces = [
        {"type": "bar", "name": name, "x": numbers,
         "y": [dict(parts_of(row.time)).get(name, 0.0) for row in result.stages],
         **({"marker": {"color": WAITING}} if name == "bubble" else {})}
        for name in names
    ]  # fmt: skip
    used = [trace for trace in traces if any(trace["y"])]
    return figure(used, barmode="stack", xaxis=_stages("stage", result), yaxis=axis("s"))


def memory_figure(result: DistributedResult) -> dict[str, Any]:
    """Stacked: memory of a device of each stage, and what it has."""
    numbers = [row.number for row in result.stages]
    traces: list[dict[str, Any]] = [
        {"type": "bar", "name": name.replace("_", " "), "x": numbers,
         "y": [getattr(row.peak_memory_bytes, name) / 1e9 for row in result.stages]}
        for name in ("weights", "gradients", "optimizer_state", "activations", "workspace")
    ]  # fmt: skip
    capacity = [row.capacity_bytes / 1e9 for row in result.stages]
    traces.append(scatter("capacity", numbers, capacity, "lines+markers", line={"color": "#1b2330", "dash": "dot"}))
    return figure(traces, barmode="stack", xaxis=_stages("stage", result), yaxis=axis("GB"))


def memory_over_time(result: DistributedResult) -> dict[str, Any]:
    """Bytes over time of some stages."""
    traces = []
    for number in sorted({0, len(result.memory) // 2, len(result.memory) - 1}):
        memory = result.memory[number]
        whole = (memory.stays + memory.activations + memory.workspace) / 1e9
        line = {"shape": "hv"}
        traces.append(
            scatter(f"stage {memory.stage}", (memory.time * 1e-6).tolist(), whole.tolist(), "lines", line=line)
        )
    return figure(traces, xaxis=axis("ms"), yaxis=axis("GB", rangemode="tozero"))


def matrix_figure(result: DistributedResult) -> dict[str, Any]:
    """Bytes from stage to stage, by their logarithm."""
    table = np.array(result.matrix)
    shown = np.where(table > 0, np.log10(np.maximum(table, 1.0)), np.nan)
    values = [[None if np.isnan(cell) else float(cell) for cell in line] for line in shown]
    texts = [[f"{cell / 1e9:,.4g} GB" for cell in line] for line in result.matrix]
    trace = {
        "type": "heatmap", "z": values, "text": texts, "colorscale": "Blues", "reversescale": True,
        "colorbar": {"title": {"text": "log₁₀ bytes"}},
        "hovertemplate": "stage %{y} to %{x}: %{text}<extra></extra>",
    }  # fmt: skip
    return figure([trace], xaxis=_stages("to stage", result), yaxis=_stages("from stage", result, autorange="reversed"))
