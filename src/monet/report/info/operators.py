"""The per-operator table, for sorting and filtering."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from monet.report.columns import Column
from monet.schedule.result import Result
from monet.schedule.result_rows import OperatorRow


@dataclass(frozen=True, slots=True)
class Placed:
    """An operator, and its share of the time of the step."""

    row: OperatorRow
    share: float


def _core(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} + {len(names) - 1}" if names else ""


COLUMNS: tuple[Column[Placed], ...] = (
    Column("operator", "", lambda one: one.row.name + " (again)" * one.row.recompute, "name", "in the training graph"),
    Column("kind", "", lambda one: one.row.kind, "kind", "operator kind"),
    Column("phase", "", lambda one: one.row.phase, "phase", "part of the training step"),
    Column("core", "", lambda one: _core(one.row.cores), "core", "where it runs"),
    Column("group", "", lambda one: str(one.row.group), "group", "fusion group"),
    Column("time", "s", lambda one: one.row.latency_s, "span_s", "its tiles and the transfers right beside them"),
    Column("share", "%", lambda one: one.share, "share", "its time over that of the step; operators may overlap"),
    Column("core time", "s", lambda one: one.row.busy_s, "busy_s", "time in which cores compute it, summed over them"),
    Column("work", "op", lambda one: one.row.operations, "operations", "two per multiply-accumulate, or scalar ones"),
    Column("used", "%", lambda one: min(1.0, one.row.utilisation), "utilisation", "of the arrays it runs on"),
    Column("energy", "J", lambda one: one.row.energy_j, "energy_j", "dynamic energy"),
    Column("off-chip", "B", lambda one: one.row.dram_bytes, "dram_bytes", "read from and written to DRAM"),
    Column("links", "B", lambda one: one.row.link_bytes, "link_bytes", "moved over on-chip links"),
    Column("tiles", "n", lambda one: one.row.tiles, "tiles", "tiles it was cut into"),
    Column("bound by", "", lambda one: one.row.bound_by, "bound_by", "what limits it"),
)


def _placed(result: Result, rows: Iterable[OperatorRow]) -> list[Placed]:
    return [Placed(row, row.latency_s / (result.latency_s or 1.0)) for row in rows]


def slowest(result: Result, most: int) -> list[Placed]:
    """Operators that take longest."""
    return _placed(result, sorted(result.operators, key=lambda row: (-row.latency_s, row.name))[:most])


def info(result: Result) -> dict[str, Any]:
    """Column descriptions and rows of plain values in that order."""
    return {
        "columns": [{"key": one.key, "label": one.label, "unit": one.unit, "about": one.about} for one in COLUMNS],
        "rows": [[column.value(row) for column in COLUMNS] for row in _placed(result, result.operators)],
    }
