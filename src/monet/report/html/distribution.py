"""The page of a search over parallel plans: every plan as a line, the front, why the best is best, and its own page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from monet.distributed.plan import OFFLOADING, PIPELINE_SCHEDULES, RECOMPUTATION, SHARDING
from monet.distributed.result import DistributedResult
from monet.report.columns import rows_table
from monet.report.distribution import PLANS, counts_line, headline, why
from monet.report.html.distributed import panels as plan_panels
from monet.report.html.study import Panel, axis, figure, scatter, table_panel, write_study
from monet.search.distribution.search import Distribution, Tried

MOST_ROWS = 200


def write_distribution(found: Distribution, path: str | Path, best: DistributedResult | None) -> None:
    """Write the page; ``best`` is the best plan's result with its chart."""
    made = [
        Panel(
            "Plans", "Every line is a plan that was costed. Drag along an axis to keep some.", lines_figure(found.tried)
        )
    ]
    made.append(
        Panel("Time and memory", "Plans that fit; those on the front are joined.", front_figure(found), half=True)
    )
    table = why(found)
    made += [table_panel(table, half=True)] if table else []
    made.append(table_panel(rows_table("Best plans", PLANS, found.tried[:MOST_ROWS])))
    made += plan_panels(best) if best is not None else []
    write_study(path, headline(found), [counts_line(found)], made)


NAMED = {
    "pipeline_schedule": PIPELINE_SCHEDULES, "shard": SHARDING, "recompute": RECOMPUTATION, "offload": OFFLOADING,
}  # fmt: skip


def lines_figure(tried: Sequence[Tried]) -> dict[str, Any]:
    """Parallel coordinates of plans: degrees, what is shared and recomputed, and what comes out."""
    numbers = {
        "data": [one.plan.data for one in tried], "tensor": [one.plan.tensor for one in tried],
        "pipeline": [one.plan.pipeline for one in tried], "chunks": [one.plan.interleave for one in tried],
        "micro-batch": [one.plan.micro_batch for one in tried],
    }  # fmt: skip
    dimensions: list[dict[str, Any]] = []
    for name, values in numbers.items():  # degrees are powers more often than not: evenly spaced
        known = {value: place for place, value in enumerate(sorted(set(values)))}
        ticks = {"tickvals": list(known.values()), "ticktext": [str(value) for value in known]}
        dimensions.append({"label": name, "values": [known[value] for value in values], **ticks})
    for name, allowed in NAMED.items():
        given = [str(getattr(one.plan, name)) for one in tried]
        used = [each for each in allowed if each in given]
        ticks = {"tickvals": list(range(len(used))), "ticktext": used}
        label = name.replace("_", " ")
        dimensions.append({"label": label, "values": [used.index(value) for value in given], **ticks})
    sequence = {"tickvals": [0, 1], "ticktext": ["no", "yes"]}
    dimensions.append({"label": "sequence", "values": [int(one.plan.sequence_parallel) for one in tried], **sequence})
    step = [one.result.latency_s for one in tried]
    dimensions.append({"label": "memory, GB", "values": [one.result.peak_memory_bytes / 1e9 for one in tried]})
    dimensions.append({"label": "energy, J", "values": [one.result.energy_j for one in tried]})
    dimensions.append({"label": "step, s", "values": step})
    line = {"color": step, "colorscale": "Viridis", "showscale": True, "reversescale": True}
    return figure(
        [{"type": "parcoords", "dimensions": dimensions, "line": line}], margin={"l": 60, "r": 60, "t": 70, "b": 30}
    )


def front_figure(found: Distribution) -> dict[str, Any]:
    """Step time against memory of a device."""
    points = [(one.result.peak_memory_bytes / 1e9, one.result.latency_s, _words(one)) for one in found.tried]
    best = sorted((one.result.peak_memory_bytes / 1e9, one.result.latency_s, _words(one)) for one in found.front)
    hover = "%{text}<br>%{y:.4g} s, %{x:.4g} GB<extra></extra>"
    traces = [
        scatter(
            name,
            [point[0] for point in chosen],
            [point[1] for point in chosen],
            mode,
            text=[point[2] for point in chosen],
            hovertemplate=hover,
        )
        for name, chosen, mode in (("plans", points, "markers"), ("front", best, "lines+markers"))
    ]
    return figure(traces, xaxis=axis("memory of a device, GB"), yaxis=axis("step, s"))


def _words(one: Tried) -> str:
    plan = one.plan
    sequence = " + sequence" if plan.sequence_parallel else ""
    return (
        f"data {plan.data}, tensor {plan.tensor}{sequence}, pipeline {plan.pipeline} × {plan.interleave}, "
        f"micro-batch {plan.micro_batch}, shard {plan.shard}, recompute {plan.recompute}"
    )
