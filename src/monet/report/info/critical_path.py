"""The chain of tiles and transfers that sets the makespan."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from monet.report.quantities import percent, seconds
from monet.schedule.result import Result

ROUNDING = 1e-12  # of sums of seconds
LEAST, MOST = 8, 18  # operators shown: as many as there are rows of cores beside them


def shares(result: Result) -> dict[str, float]:
    """Seconds of the critical path by what happens, longest first: compute, read, write, move, evict, and ``gap`` for
    waiting."""
    totals: dict[str, float] = defaultdict(float)
    for step in result.critical_path:
        totals[step.kind] += step.seconds
    covered = sum(totals.values())
    if result.latency_s * (1 - ROUNDING) > covered > 0:
        totals["gap"] += result.latency_s - covered
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def by_operator(result: Result) -> dict[str, float]:
    """Operators by their seconds on the critical path, longest first."""
    totals: dict[str, float] = defaultdict(float)
    for step in result.critical_path:
        totals[step.operator] += step.seconds
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def info(result: Result) -> dict[str, Any]:
    """Shares by kind, and the operators that hold most of the path, as bars."""
    whole = result.latency_s or 1.0
    phases = {row.name: row.phase for row in result.operators}

    def bars(parts: dict[str, float]) -> list[dict[str, Any]]:
        return [
            {"name": name, "value": value, "text": seconds(value), "note": percent(value / whole)}
            for name, value in parts.items()
        ]

    shown = max(LEAST, min(MOST, len(result.cores) + 3))
    return {
        "kinds": bars(shares(result)),
        "operators": [bar | {"phase": phases.get(bar["name"], "")} for bar in bars(by_operator(result))[:shown]],
        "steps": len(result.critical_path),
    }
