"""The per-operator table, for sorting and filtering."""

from __future__ import annotations

from typing import Any

from monet.report.columns import Column
from monet.schedule.result import Result
from monet.schedule.result_rows import OperatorRow


def _core(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} + {len(names) - 1}" if names else ""


def columns(result: Result) -> tuple[Column[OperatorRow], ...]:
    """What is shown of an operator."""
    whole = result.latency_s or 1.0
    return (
        Column("operator", "", lambda row: row.name + " (again)" * row.recompute, "name", "name in the training graph"),
        Column("kind", "", lambda row: row.kind, "kind", "operator kind"),
        Column("phase", "", lambda row: row.phase, "phase", "part of the training step", "words"),
        Column("core", "", lambda row: _core(row.cores), "core", "where it runs", "words"),
        Column("group", "", lambda row: str(row.group), "group", "fusion group"),
        Column("time", "s", lambda row: row.latency_s, "span_s", "its tiles and the transfers right beside them"),
        Column("share", "%", lambda row: row.latency_s / whole, "share", "of the step; operators may overlap"),
        Column("core time", "s", lambda row: row.busy_s, "busy_s", "time in which cores compute it, summed over them"),
        Column("work", "op", lambda row: row.operations, "operations", "two per multiply-accumulate, or scalar ones"),
        Column("used", "%", lambda row: min(1.0, row.utilisation), "utilisation", "of the arrays it runs on"),
        Column("energy", "J", lambda row: row.energy_j, "energy_j", "dynamic energy"),
        Column("off-chip", "B", lambda row: row.dram_bytes, "dram_bytes", "read from and written to DRAM"),
        Column("links", "B", lambda row: row.link_bytes, "link_bytes", "moved over on-chip links"),
        Column("tiles", "n", lambda row: row.tiles, "tiles", "tiles it was cut into"),
        Column("bound by", "", lambda row: row.bound_by, "bound_by", "what limits it", "words"),
    )


def slowest(result: Result, most: int) -> list[OperatorRow]:
    """Operators that take longest."""
    return sorted(result.operators, key=lambda row: (-row.latency_s, row.name))[:most]


def info(result: Result) -> dict[str, Any]:
    """Column descriptions and rows of plain values in that order."""
    shown = columns(result)
    return {
        "columns": [
            {"key": column.key, "label": column.label, "unit": column.unit, "about": column.about} for column in shown
        ],
        "rows": [[column.value(row) for column in shown] for row in result.operators],
    }
