"""Roofline: operations per second against operations per off-chip byte, one point per operator."""

from __future__ import annotations

from typing import Any

from monet.report.info.gantt import PHASES
from monet.report.quantities import quantity
from monet.schedule.result import Result


def roofs(result: Result) -> tuple[list[dict[str, Any]], float]:
    """The flat roofs (operations per second by element type) and the slope (off-chip bytes per second)."""
    names: dict[float, list[str]] = {}  # one line for equal rates, all their names on it
    for dtype, rate in result.hardware_summary.peak_ops_per_s.items():
        if rate:
            names.setdefault(float(rate), []).append(dtype)
    flat = [
        {"name": names[rate][0], "ops_per_s": rate, "text": f"{', '.join(names[rate])}: {quantity(rate, 'op/s')}"}
        for rate in sorted(names, reverse=True)
    ]
    return flat, sum(dram.bandwidth_bytes_per_s for dram in result.hardware_summary.drams)


def info(result: Result) -> dict[str, Any]:
    """Points and roofs. Operators without off-chip traffic stand at the right edge (``x`` is None)."""
    flat, slope = roofs(result)
    points = [
        {
            "operator": index,
            "x": row.operations / row.dram_bytes if row.dram_bytes else None,
            "y": row.operations / row.latency_s,
            "phase": PHASES.index(row.phase),
            "matrix": bool(row.macs),
            "seconds": row.latency_s,
        }
        for index, row in enumerate(result.operators)
        if row.operations and row.latency_s
    ]
    return {"points": points, "roofs": flat, "bytes_per_s": slope, "phases": list(PHASES)}
