"""Roofline: operations per second against operations per off-chip byte, one point per operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monet.report.html.gantt import PHASES
from monet.report.quantities import quantity
from monet.report.spans import operator_spans
from monet.schedule.result import Result


def roofs(result: Result) -> tuple[list[dict[str, Any]], float]:
    """The flat roofs (operations per second by element type) and the slope (off-chip bytes per second)."""
    summary = result.hardware_summary
    flat: list[dict[str, Any]] = [
        {"name": dtype, "ops_per_s": float(rate)} for dtype, rate in _peaks(summary).items() if rate
    ]
    slope = sum(float(dram.get("bandwidth_bytes_per_s", 0)) for dram in summary.get("drams", ()))
    distinct = {row["ops_per_s"]: row for row in reversed(flat)}  # one line for equal rates, all their names on it
    for rate, row in distinct.items():
        names = ", ".join(one["name"] for one in flat if one["ops_per_s"] == rate)
        row["text"] = f"{names}: {quantity(rate, 'op/s')}"
    return sorted(distinct.values(), key=lambda one: -one["ops_per_s"]), slope


def _peaks(summary: Mapping[str, Any]) -> dict[str, float]:
    """Peak by element type; where the summary has none, that of all arrays together."""
    arrays = 2 * sum(float(core.get("peak_macs_per_s", 0.0)) for core in summary.get("cores", ()))
    return dict(summary.get("peak_ops_per_s") or {"all arrays": arrays})


def operations(row: Any) -> float:
    """Operations of an operator: two per multiply-accumulate, otherwise its scalar operations."""
    work = row.get("work", 0)
    scalar = sum(work.values()) if isinstance(work, dict) else work
    return 2.0 * row["macs"] if row["macs"] else float(scalar)


def info(result: Result) -> dict[str, Any]:
    """Points and roofs. Operators without off-chip traffic stand at the right edge (``x`` is None)."""
    flat, slope = roofs(result)
    spans = operator_spans(result)
    points = []
    for index, row in enumerate(result.operators):
        moved = row["dram_read_bytes"] + row["dram_write_bytes"]
        done, took = operations(row), spans[row["name"]].seconds
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
