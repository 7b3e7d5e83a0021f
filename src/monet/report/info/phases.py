"""Forward against loss, backward and update: time, energy, traffic, work."""

from __future__ import annotations

from typing import Any

from monet.report.columns import Column
from monet.schedule.result import Result
from monet.schedule.result_rows import PhaseRow

MEASURES: tuple[Column[PhaseRow], ...] = (
    Column("time span", "s", lambda row: row.span_s, "span_s"),
    Column("core time", "s", lambda row: row.busy_s, "busy_s"),
    Column("energy", "J", lambda row: row.energy_j, "energy_j"),
    Column("off-chip traffic", "B", lambda row: row.dram_bytes, "dram_bytes"),
    Column("work on arrays", "MAC", lambda row: row.macs, "macs"),
    Column("operators", "", lambda row: row.operators, "operators"),
)


def info(result: Result) -> dict[str, Any]:
    """One bar per measure, split by phase."""
    return {
        "phases": list(result.phases),
        "measures": [
            {
                "key": measure.key,
                "label": measure.label,
                "unit": measure.unit,
                "values": [*map(measure.value, result.phases.values())],
            }
            for measure in MEASURES
        ],
    }
