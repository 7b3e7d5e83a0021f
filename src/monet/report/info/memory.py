"""Bytes in every memory over time, by category, with the capacity and the step at the peak."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES, MemoryTrace

POINTS = 1500  # more steps than a screen has pixels are merged, each into the largest total of its interval


def thinned(time: np.ndarray[Any, Any], amounts: np.ndarray[Any, Any], points: int = POINTS) -> np.ndarray[Any, Any]:
    """Indices of at most ``points`` steps: in every interval of time the one with the largest total. The first step,
    the last and the overall peak are always among them."""
    if len(time) <= points:
        return np.arange(len(time))
    total = amounts.sum(axis=0)
    edges = np.linspace(float(time[0]), float(time[-1]) + 1, points - 2)
    interval = np.searchsorted(edges, time, side="right")
    order = np.lexsort((-total, interval))
    first = np.concatenate(([True], np.diff(interval[order]) != 0))
    chosen = {0, len(time) - 1, int(total.argmax()), *order[first].tolist()}
    return np.array(sorted(chosen))


def by_fullness(result: Result) -> list[MemoryTrace]:
    """DRAM first, then what is outside of the chip, then the memories by how full they get."""
    drams = {dram.name for dram in result.hardware_summary.drams}
    outside = {endpoint.name for endpoint in result.hardware_summary.endpoints}
    return sorted(result.memory, key=lambda trace: (trace.name not in drams, trace.name not in outside, -trace.full))


def _memory(trace: MemoryTrace, ticks_per_second: float) -> dict[str, Any]:
    keep = thinned(trace.time, trace.bytes)
    return {
        "name": trace.name,
        "capacity": trace.capacity_bytes,
        "time": trace.time[keep].tolist(),
        "bytes": [row[keep].tolist() for row in trace.bytes],
        "peak_bytes": trace.peak_bytes,
        "peak_time": trace.peak_time_s * ticks_per_second,
        "peak_time_s": trace.peak_time_s,
        "peak_operator": trace.peak_operator,
        "at_peak": [*trace.at_peak.values()],
        "steps": len(trace.time),
        "merged": len(trace.time) - len(keep),
    }


def info(result: Result) -> dict[str, Any]:
    """Every memory, in the order of ``by_fullness``."""
    return {
        "categories": CATEGORIES,
        "ticks_per_second": result.ticks_per_second,
        "end": result.ticks,
        "memories": [_memory(trace, result.ticks_per_second) for trace in by_fullness(result)],
    }
