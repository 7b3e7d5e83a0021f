"""How far a search is: what it does, plans tried, share of what it may spend, best so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from monet.schedule.measurement.figures import Figures


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """One report. ``share`` is of the most that the search may spend, 0 to 1; it may end before it is spent."""

    stage: str
    tried: int
    share: float
    best: Figures | None = None


Watch = Callable[[SearchProgress], None]


def part_of(watch: Watch | None, begins: float, ends: float, tried: int = 0) -> Watch | None:
    """Reports of a search that is the part of another from one share of it to another, after ``tried`` plans."""
    if watch is None:
        return None
    return lambda now: watch(
        replace(now, share=begins + (ends - begins) * min(1.0, now.share), tried=tried + now.tried)
    )
