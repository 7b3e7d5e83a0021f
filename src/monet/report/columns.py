"""Columns of tables: what a heading shows of a row, and in which unit. Terminal and HTML render the same ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from monet.report.quantities import percent, quantity

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """``unit``: that of a quantity, ``n`` for counts in full, ``%`` for shares; words have none. ``key`` names it in
    files."""

    label: str
    unit: str
    value: Callable[[Row], Any]
    key: str = ""
    about: str = ""

    def text(self, row: Row) -> str:
        """What a table shows of a row."""
        return shown(self.value(row), self.unit)


def shown(value: Any, unit: str) -> str:
    """A value as people read it; nothing for None."""
    if value is None or isinstance(value, str):
        return value or ""
    if unit == "%":
        return percent(value)
    return f"{value:,}" if unit == "n" else quantity(value, unit)
