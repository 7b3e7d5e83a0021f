"""Chrome trace of a result: opens in ui.perfetto.dev or chrome://tracing, from the file alone.

One process each for cores, links, DRAM and memories; one track per core, link and DRAM; one counter per memory, stacked
by category. Times are microseconds, as the format wants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from monet.report.files import write_bytes
from monet.report.info.gantt import resource_kinds
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES, EVENT_KINDS

PROCESSES = {"core": (1, "cores"), "link": (2, "links"), "dram": (3, "DRAM"), "memory": (4, "memories")}
MICROSECONDS = 1e6
# Reserved colour names of the trace viewer, so that phases look the same in every trace.
COLOURS = {
    "forward": "thread_state_running",
    "loss": "thread_state_unknown",
    "backward": "thread_state_iowait",
    "update": "good",
}


def _names(result: Result) -> Iterator[dict[str, Any]]:
    """Names and order of processes and tracks."""
    for order, (process, name) in enumerate(PROCESSES.values()):
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": order}}
    for index, (name, kind) in enumerate(zip(result.timeline.resources, resource_kinds(result), strict=True)):
        place = {"pid": PROCESSES[kind][0], "tid": index + 1}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": index}}


def _events(result: Result) -> Iterator[dict[str, Any]]:
    timeline, kinds = result.timeline, resource_kinds(result)
    scale = MICROSECONDS / timeline.ticks_per_second
    rows = {row.name: row for row in result.operators}
    columns = (timeline.start, timeline.end, timeline.resource, timeline.operator, timeline.kind)
    for start, end, resource, operator, kind in zip(*(column.tolist() for column in columns), strict=True):
        name = timeline.operators[operator] if operator >= 0 else EVENT_KINDS[kind]
        row = rows.get(name)
        event: dict[str, Any] = {
            "ph": "X",
            "pid": PROCESSES[kinds[resource]][0],
            "tid": resource + 1,
            "ts": start * scale,
            "dur": (end - start) * scale,
            "name": name,
            "cat": EVENT_KINDS[kind],
            "args": {"event": EVENT_KINDS[kind], "phase": row.phase if row else "", "kind": row.kind if row else ""},
        }
        if row:
            event["cname"] = COLOURS[row.phase]
        yield event


def _counters(result: Result) -> Iterator[dict[str, Any]]:
    process = PROCESSES["memory"][0]
    for trace in result.memory:
        scale = MICROSECONDS / result.ticks_per_second
        for time, column in zip(trace.time.tolist(), trace.bytes.T.tolist(), strict=True):
            values = dict(zip(CATEGORIES, column, strict=True))
            yield {"ph": "C", "pid": process, "ts": time * scale, "name": f"{trace.name} (bytes)", "args": values}


def _phases(result: Result) -> Iterator[dict[str, Any]]:
    """Phases as a track of their own, above the cores."""
    process = PROCESSES["core"][0]
    yield {"ph": "M", "pid": process, "tid": 0, "name": "thread_name", "args": {"name": "phase"}}
    yield {"ph": "M", "pid": process, "tid": 0, "name": "thread_sort_index", "args": {"sort_index": -1}}
    for name, row in result.phases.items():
        start, end = row.start_s * MICROSECONDS, row.end_s * MICROSECONDS
        # phases overlap where schedules do, so they are asynchronous slices
        for mark, time in (("b", start), ("e", end)):
            yield {"ph": mark, "pid": process, "tid": 0, "id": name, "cat": "phase", "name": name, "ts": time}


def info(result: Result) -> dict[str, Any]:
    """The trace as plain values."""
    return {
        "displayTimeUnit": "ns",
        "otherData": {"model": result.model, "hardware": result.hardware, "monet": result.version},
        "traceEvents": [*_names(result), *_phases(result), *_events(result), *_counters(result)],
    }


def write_trace(result: Result, path: str | Path) -> None:
    """Write the trace to ``path``, whole or not at all."""
    write_bytes(path, json.dumps(info(result), separators=(",", ":")).encode())
