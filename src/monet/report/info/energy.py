"""Where the joules go: by level, by phase, by core, by kind of operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from monet.schedule.result import Result

LARGEST = 12


def largest(parts: Mapping[str, float]) -> dict[str, float]:
    """Largest first; what does not fit on a screen is one entry of others; nothing that is nought."""
    ordered = sorted(((name, value) for name, value in parts.items() if value), key=lambda part: (-part[1], part[0]))
    shown, rest = dict(ordered[:LARGEST]), ordered[LARGEST:]
    return shown | ({f"{len(rest)} others": sum(value for _, value in rest)} if rest else {})


def by_kind(result: Result) -> dict[str, float]:
    """Energy by kind of operator, static energy apart."""
    totals: dict[str, float] = defaultdict(float)
    kinds = {row.name: row.kind for row in result.operators}
    for name, value in result.energy_breakdown.by_operator.items():
        totals[kinds.get(name, name)] += value
    return totals


def info(result: Result) -> dict[str, Any]:
    """Four views of the same total; each adds up to ``total``."""
    breakdown = result.energy_breakdown
    views = {
        "level": breakdown.by_level,
        "phase": breakdown.by_phase,
        "operator kind": by_kind(result),
        "core": breakdown.by_core,
    }
    return {
        "total": result.energy_j,
        "static": breakdown.static,
        "dynamic": breakdown.dynamic,
        "views": [
            {"by": by, "rows": [{"name": name, "joules": value} for name, value in largest(parts).items()]}
            for by, parts in views.items()
            if parts
        ],
    }
