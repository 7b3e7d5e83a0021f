"""Where every core's time goes: an exact partition of the makespan by cause."""

from __future__ import annotations

from collections import Counter
from typing import Any

from monet.schedule.result import TIME_PARTS, Result


def words(part: str) -> str:
    """A cause as people say it."""
    return part.replace("_", " ").replace("under use", "under-use")


def total(result: Result) -> dict[str, int]:
    """Ticks by cause over all cores that ran anything (over all cores when none did)."""
    totals: Counter[str] = Counter()
    rows = [row for row in result.cores if row["tiles"]] or list(result.cores)
    for row in rows:
        totals.update(row["time_ticks"])
    return {part: totals[part] for part in TIME_PARTS}


def info(result: Result) -> dict[str, Any]:
    """One stacked bar per core, in ticks, and the mean over the cores that worked."""
    working = sum(1 for row in result.cores if row["tiles"])
    return {
        "causes": [words(part) for part in TIME_PARTS],
        "end": int(result.ticks),
        "ticks_per_second": result.ticks_per_second,
        "rows": [
            {"name": row["name"], "ticks": [int(row["time_ticks"].get(part, 0)) for part in TIME_PARTS]}
            for row in result.cores
        ],
        "mean": {
            "name": f"mean of {working} cores" if working != 1 else "the one core at work",
            "ticks": [value / max(1, working) for value in total(result).values()],
        },
    }
