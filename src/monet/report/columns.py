"""Columns of tables: what a heading shows of a row, and in which unit. Terminal and HTML render the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from monet.report.quantities import percent, quantity
from monet.report.table import Heading, Holds, TextTable

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
    holds: Holds = "figure"  # or words, in a terminal; the first column of a table is always words

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


def rows_table(
    title: str,
    columns: Sequence[Column[Row]],
    rows: Iterable[Row],
    style: Callable[[Row], str] = lambda row: "",
    more: str = "",
) -> TextTable:
    """A table of rows, each perhaps in a style of its own; ``more`` is a line below."""
    shown_rows = list(rows)
    headings = [Heading(column.label, column.holds if index else "words") for index, column in enumerate(columns)]
    cells = [[column.text(row) for column in columns] for row in shown_rows]
    return TextTable(title, headings, cells, [style(row) for row in shown_rows], more)
