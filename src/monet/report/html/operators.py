"""The per-operator table, for sorting and filtering."""

from __future__ import annotations

from typing import Any

from monet.report.html.roofline import operations
from monet.report.spans import Span, operator_spans
from monet.schedule.result import Result

# key, heading, unit ("" for words, "n" for plain counts, "%" for shares), what it means
COLUMNS = (
    ("name", "operator", "", "name in the training graph"),
    ("kind", "kind", "", "operator kind"),
    ("phase", "phase", "", "part of the training step"),
    ("core", "core", "", "where it runs"),
    ("group", "group", "", "fusion group"),
    ("span_s", "time", "s", "its tiles and the transfers right before and after them"),
    ("share", "share", "%", "its time over the time of the step; operators may overlap"),
    ("busy_s", "core time", "s", "time in which cores compute it, summed over them"),
    ("operations", "work", "op", "two per multiply-accumulate, otherwise scalar operations"),
    ("utilisation", "used", "%", "of the arrays it runs on"),
    ("energy_j", "energy", "J", "dynamic energy"),
    ("dram_bytes", "off-chip", "B", "read from and written to DRAM"),
    ("link_bytes", "links", "B", "moved over on-chip links"),
    ("tiles", "tiles", "n", "tiles it was cut into"),
    ("bound_by", "bound by", "", "what limits it"),
)


def _cores(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} + {len(names) - 1}" if names else ""


def row_of(result: Result, row: Any, span: Span) -> dict[str, Any]:
    """One operator with the columns of the table."""
    return {
        **{key: row[key] for key, *_ in COLUMNS if key in row},
        "name": f"{row['name']} (again)" if row.get("recompute") else row["name"],
        "core": _cores(list(row["cores"])),
        "group": str(row["group"]),
        "span_s": span.seconds,
        "utilisation": min(1.0, row["utilisation"]),
        "share": span.seconds / result.latency_s if result.latency_s else 0.0,
        "operations": operations(row),
        "dram_bytes": row["dram_read_bytes"] + row["dram_write_bytes"],
    }


def info(result: Result) -> dict[str, Any]:
    """Column descriptions and rows of plain values in that order."""
    keys = [key for key, *_ in COLUMNS]
    spans = operator_spans(result)
    rows = [row_of(result, row, spans[row["name"]]) for row in result.operators]
    return {
        "columns": [{"key": key, "label": label, "unit": unit, "about": about} for key, label, unit, about in COLUMNS],
        "rows": [[row[key] for key in keys] for row in rows],
    }
