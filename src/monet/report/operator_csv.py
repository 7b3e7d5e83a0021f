"""The operators of a result as CSV: fixed column names, units in the names, exact values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from monet.report.files import write_text
from monet.schedule.result import Result
from monet.schedule.result_rows import OperatorRow

COLUMNS = tuple(field.name for field in fields(OperatorRow))


def _word(value: Any) -> Any:
    """A word or a number: several cores are joined by spaces, work is added up, yes is 1."""
    if isinstance(value, tuple):
        return " ".join(value)
    if isinstance(value, Mapping):
        return sum(value.values())
    return int(value) if isinstance(value, bool) else value


def csv_text(result: Result) -> str:
    """The table as CSV text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_word(getattr(row, name)) for name in COLUMNS] for row in result.operators)
    return text.getvalue()


def write_csv(result: Result, path: str) -> None:
    """Write the table to a file, whole or not at all, or to standard output for ``-``."""
    write_text(path, csv_text(result))
