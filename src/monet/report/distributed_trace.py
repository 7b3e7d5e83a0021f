"""Chrome trace of a training step over a system, for ui.perfetto.dev: a track per stage, a counter of its memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from monet.distributed.result import TASKS, DistributedResult
from monet.report.files import write_bytes

STAGES, MEMORY = 1, 2  # processes of the trace
COLOURS = ("thread_state_running", "thread_state_iowait", "thread_state_unknown", "good")
PER_MICROSECOND = 1e-3  # of nanoseconds


def info(result: DistributedResult) -> dict[str, Any]:
    """The trace as plain values."""
    about = {"model": result.model, "system": result.system, "monet": result.version}
    events = [*_names(result), *_passes(result), *_memory(result)]
    return {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}


def _names(result: DistributedResult) -> Iterator[dict[str, Any]]:
    for process, name in ((STAGES, "stages"), (MEMORY, "memory of a device")):
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    for row in result.stages:
        place = {"ph": "M", "pid": STAGES, "tid": row.number + 1}
        yield {**place, "name": "thread_name", "args": {"name": f"stage {row.number} ({row.devices} × {row.device})"}}
        yield {**place, "name": "thread_sort_index", "args": {"sort_index": row.number}}


def _passes(result: DistributedResult) -> Iterator[dict[str, Any]]:
    chart = result.chart
    if chart is None:
        return
    columns = (chart.stage, chart.chunk, chart.micro_batch, chart.kind, chart.start, chart.end)
    for stage, chunk, micro_batch, kind, start, end in zip(*(column.tolist() for column in columns), strict=True):
        name = f"{TASKS[kind]} {micro_batch}" if micro_batch >= 0 else TASKS[kind]
        yield {
            "ph": "X", "pid": STAGES, "tid": stage + 1, "ts": start * PER_MICROSECOND,
            "dur": (end - start) * PER_MICROSECOND, "name": name, "cat": TASKS[kind], "cname": COLOURS[kind],
            "args": {"chunk": chunk, "micro-batch": micro_batch},
        }  # fmt: skip


def _memory(result: DistributedResult) -> Iterator[dict[str, Any]]:
    for memory in result.memory:
        rows = zip(memory.time.tolist(), memory.activations.tolist(), memory.workspace.tolist(), strict=True)
        for time, activations, workspace in rows:
            values = {"stays": memory.stays, "activations": activations, "workspace": workspace}
            name = f"stage {memory.stage} (bytes)"
            yield {"ph": "C", "pid": MEMORY, "ts": time * PER_MICROSECOND, "name": name, "args": values}


def write_distributed_trace(result: DistributedResult, path: str | Path) -> None:
    """Write the trace, whole or not at all."""
    write_bytes(path, json.dumps(info(result), separators=(",", ":")).encode())
