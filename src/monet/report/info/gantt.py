"""The timeline: one row per core, link and DRAM, every tile and transfer on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.schedule.result import Result
from monet.schedule.result_rows import EVENT_KINDS

PHASES = ("forward", "loss", "backward", "update")


def resource_kinds(result: Result) -> list[str]:
    """core, dram or link, for every resource of the timeline."""
    cores = {row.name for row in result.cores}
    drams = {dram.name for dram in result.hardware_summary.drams}
    return [
        "core" if name in cores else "dram" if name.partition("[")[0] in drams else "link"  # channels: dram[0]
        for name in result.timeline.resources
    ]


def info(result: Result) -> dict[str, Any]:
    """Rows in the order of drawing, and per row the starts (as differences), lengths, operators and kinds of its
    events: about eight characters of JSON an event and column."""
    timeline, kinds, second = result.timeline, resource_kinds(result), result.ticks_per_second
    busy = {row.name: row.utilisation for row in result.links}
    busy |= {row.name: row.busy_s / (result.latency_s or 1.0) for row in result.cores}
    rows = []
    for wanted in ("core", "dram", "link"):  # DRAM before links: there may be many of these
        for index, name in enumerate(timeline.resources):
            if kinds[index] == wanted:
                events = np.flatnonzero(timeline.resource == index)
                if wanted == "link" and not len(events):
                    continue  # a mesh has many wires that nothing uses; the drawing of the hardware shows them
                rows.append({"name": name, "kind": wanted, "busy": busy.get(name, 0.0)} | _events(result, events))
    phase_of = {row.name: PHASES.index(row.phase) for row in result.operators}
    return {
        "ticks_per_second": timeline.ticks_per_second,
        "end": result.ticks,
        "rows": rows,
        "operators": list(timeline.operators),
        "operator_phase": [phase_of.get(name, -1) for name in timeline.operators],
        "kinds": list(EVENT_KINDS),
        "phases": list(PHASES),
        "events": len(timeline),
        "bands": [
            {"phase": name, "begin": row.start_s * second, "end": row.end_s * second}
            for name, row in result.phases.items()
        ],
    }


def _events(result: Result, chosen: np.ndarray[Any, Any]) -> dict[str, list[int]]:
    timeline = result.timeline
    chosen = chosen[np.argsort(timeline.start[chosen], kind="stable")]
    start, end = timeline.start[chosen], timeline.end[chosen]
    return {
        "start": np.diff(start, prepend=0).tolist(),
        "length": (end - start).tolist(),
        "operator": timeline.operator[chosen].tolist(),
        "event": timeline.kind[chosen].tolist(),
    }
