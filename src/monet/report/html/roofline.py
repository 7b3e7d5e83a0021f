"""Roofline: operations per second against operations per off-chip byte, one point per operator."""

from __future__ import annotations

from typing import Any

from monet.report.html.gantt import PHASES
from monet.report.quantities import quantity
from monet.schedule.result import Result


def roofs(result: Result) -> tuple[list[dict[str, Any]], float]:
    """The flat roofs (operations per second by element type) and the slope (off-chip bytes per second)."""
    summary = result.hardware_summary
    flat = [
        {"name": dtype, "ops_per_s": float(rate), "text": f"{dtype} {quantity(float(rate), 'op/s')}"}
        for dtype, rate in summary.get("peak_ops_per_s", {}).items()
        if rate
    ]
    slope = sum(float(dram.get("bandwidth_bytes_per_s", 0)) for dram in summary.get("drams", ()))
    distinct = {row["ops_per_s"]: row for row in reversed(flat)}  # one line for equal rates, all their names on it
    for rate, row in distinct.items():
        names = ", ".join(one["name"] for one in flat if one["ops_per_s"] == rate)
        row["text"] = f"{names}: {quantity(rate, 'op/s')}"
    return sorted(distinct.values(), key=lambda one: -one["ops_per_s"]), slope


def operations(row: Any) -> float:
    """Operations of an operator: two per multiply-accumulate, otherwise its scalar operations."""
    work = row.get("work", 0)
    scalar = sum(work.values()) if isinstance(work, dict) else work
    return 2.0 * row["macs"] if row["macs"] else float(scalar)


def info(result: Result) -> dict[str, Any]:
    """Points and roofs. Operators without off-chip traffic stand at the right edge (``x`` is None)."""
    flat, slope = roofs(result)
    points = []
    for index, row in enumerate(result.operators):
        moved = row["dram_read_bytes"] + row["dram_write_bytes"]
        done, took = operations(row), row["latency_s"]
        if not done or not took:
            continue
        points.append(
            {
                "operator": index,
                "x": done / moved if moved else None,
                "y": done / took,
                "phase": PHASES.index(row["phase"]) if row["phase"] in PHASES else 0,
                "matrix": bool(row["macs"]),
                "seconds": took,
            }
        )
    return {"points": points, "roofs": flat, "bytes_per_s": slope, "phases": list(PHASES)}
