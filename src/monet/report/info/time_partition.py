"""Where every core's time goes: an exact partition of the makespan by cause."""

from __future__ import annotations

from typing import Any

from monet.schedule.result import Result
from monet.schedule.result_rows import TIME_PARTS, CoreRow


def words(part: str) -> str:
    """A cause as people say it."""
    return part.replace("_", " ").replace("under use", "under-use")


def _working(result: Result) -> list[CoreRow]:
    """The cores that ran anything; all where none did."""
    return [row for row in result.cores if row.tiles] or list(result.cores)


def _ticks(row: CoreRow) -> list[int]:
    """By cause; an older result does not know all of them."""
    return [row.time_ticks.get(part, 0) for part in TIME_PARTS]


def shares(result: Result) -> dict[str, float]:
    """Share of the time of the cores that worked, by cause."""
    rows = [_ticks(row) for row in _working(result)]
    totals = {part: sum(row[number] for row in rows) for number, part in enumerate(TIME_PARTS)}
    whole = sum(totals.values()) or 1
    return {part: ticks / whole for part, ticks in totals.items()}


def meaning(result: Result) -> str:
    """What the shares are of, and why useful compute is another figure than utilisation."""
    working = len(_working(result))
    return (
        f"Shares of time are of {f'the {working} cores' if working != 1 else 'the core'} that worked, vector cores "
        "too; compute is useful while every multiplier or lane is busy. Utilisation is of all arrays, idle ones too."
    )


def info(result: Result) -> dict[str, Any]:
    """One stacked bar per core, in ticks, and the mean over the cores that worked."""
    working = len(_working(result))
    return {
        "causes": [words(part) for part in TIME_PARTS],
        "end": result.ticks,
        "ticks_per_second": result.ticks_per_second,
        "rows": [{"name": row.name, "ticks": _ticks(row)} for row in result.cores],
        "mean": {
            "name": f"mean of {working} cores" if working != 1 else "the one core at work",
            "ticks": [share * result.ticks for share in shares(result).values()],
        },
    }
