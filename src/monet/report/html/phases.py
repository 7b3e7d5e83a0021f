"""Forward against loss, backward and update: time, energy, traffic, work."""

from __future__ import annotations

from typing import Any

from monet.report.spans import phase_spans
from monet.schedule.result import Result

# key, heading, unit
MEASURES = (
    ("span_s", "time span", "s"),
    ("busy_s", "core time", "s"),
    ("energy_j", "energy", "J"),
    ("dram_bytes", "off-chip traffic", "B"),
    ("macs", "work on arrays", "MAC"),
    ("operators", "operators", ""),
)


def info(result: Result) -> dict[str, Any]:
    """One bar per measure, split by phase."""
    spans = phase_spans(result)
    table = {name: {**row, "span_s": spans[name].seconds} for name, row in result.phases.items()}
    return {
        "phases": list(table),
        "measures": [
            {"key": key, "label": label, "unit": unit, "values": [table[name].get(key, 0) for name in table]}
            for key, label, unit in MEASURES
        ],
    }
