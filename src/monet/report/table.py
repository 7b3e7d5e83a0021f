"""The operators of a result as CSV: fixed column names, units in the names, exact values."""

from __future__ import annotations

import csv
import io
from typing import Any

from monet.report.files import write_text
from monet.schedule.result import Result

COLUMNS = (
    "name", "kind", "family", "phase", "layer", "group", "cores", "tiles", "start_s", "end_s", "latency_s", "busy_s",
    "cycles", "macs", "work", "utilisation", "energy_j", "dram_read_bytes", "dram_write_bytes", "link_bytes",
    "input_bytes", "output_bytes", "bound_by", "recompute",
)  # fmt: skip


def info(result: Result) -> list[dict[str, Any]]:
    """One row per operator, every column a word or a number; several cores are joined by spaces."""
    rows = []
    for row in result.operators:
        plain = {key: row[key] for key in COLUMNS if key in row}
        plain["cores"] = " ".join(row["cores"])
        plain["recompute"] = int(row["recompute"])
        if isinstance(row["work"], dict):
            plain["work"] = sum(row["work"].values())
        rows.append(plain)
    return rows


def csv_text(result: Result) -> str:
    """The table as CSV text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(info(result))
    return text.getvalue()


def write_csv(result: Result, path: str) -> None:
    """Write the table to a file, whole or not at all, or to standard output for ``-``."""
    write_text(path, csv_text(result))
