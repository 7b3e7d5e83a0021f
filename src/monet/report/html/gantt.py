"""The timeline: one row per core, link and DRAM, every tile and transfer on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.report.spans import phase_spans
from monet.schedule.result import EVENT_KINDS, Result

PHASES = ("forward", "loss", "backward", "update")


def resource_kinds(result: Result) -> list[str]:
    """core, dram or link, for every resource of the timeline."""
    cores = {row["name"] for row in result.cores}
    drams = {str(dram["name"]) for dram in result.hardware_summary.get("drams", ())}
    return [
        "core" if name in cores else "dram" if name.partition("[")[0] in drams else "link"  # channels: dram[0]
        for name in result.timeline.resources
    ]


def info(result: Result) -> dict[str, Any]:
    """Rows in the order of drawing, and per row the starts (as differences), lengths, operators and kinds of its
    events: about eight characters of JSON an event and column."""
    timeline, kinds, second = result.timeline, resource_kinds(result), result.ticks_per_second
    busy = {row["name"]: float(row["utilisation"]) for row in result.links}
    busy |= {row["name"]: float(row["busy_s"]) / (result.latency_s or 1.0) for row in result.cores}
    rows = []
    for wanted in ("core", "dram", "link"):  # DRAM before links: there may be many of these
        for index, name in enumerate(timeline.resources):
            if kinds[index] == wanted:
                events = np.flatnonzero(timeline.resource == index)
                if wanted == "link" and not len(events):
                    continue  # a mesh has many wires that nothing uses; the drawing of the hardware shows them
                rows.append({"name": name, "kind": wanted, "busy": busy.get(name, 0.0)} | _events(result, events))
    phase_of = {row["name"]: row["phase"] for row in result.operators}
    return {
        "ticks_per_second": timeline.ticks_per_second,
        "end": int(result.ticks),
        "rows": rows,
        "operators": list(timeline.operators),
        "operator_phase": [_phase(phase_of.get(name, "")) for name in timeline.operators],
        "kinds": list(EVENT_KINDS),
        "phases": list(PHASES),
        "events": len(timeline),
        "bands": [
            {"phase": name, "begin": span.start_s * second, "end": span.end_s * second}
            for name, span in phase_spans(result).items()
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


def _phase(name: str) -> int:
    return PHASES.index(name) if name in PHASES else -1
