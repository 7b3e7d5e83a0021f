"""Where the joules go: by level, by phase, by core, by kind of operator."""

from __future__ import annotations

from collections import Counter
from typing import Any

from monet.schedule.result import Result

LARGEST = 12


def _rows(parts: dict[str, float]) -> list[dict[str, Any]]:
    """Largest first; what does not fit on a screen is one row ``others``; nothing that is nought."""
    ordered = sorted(((name, value) for name, value in parts.items() if value), key=lambda one: (-one[1], one[0]))
    shown, rest = ordered[:LARGEST], ordered[LARGEST:]
    rows = [{"name": name, "joules": value} for name, value in shown]
    if rest:
        rows.append({"name": f"{len(rest)} others", "joules": sum(value for _, value in rest)})
    return rows


def by_kind(result: Result) -> dict[str, float]:
    """Energy by kind of operator, static energy apart."""
    totals: Counter[str] = Counter()
    energies = result.energy_breakdown.get("by_operator", {})
    kinds = {row["name"]: row["kind"] for row in result.operators}
    for name, value in energies.items():
        totals[kinds.get(name, name)] += value
    return dict(totals)


def info(result: Result) -> dict[str, Any]:
    """Four views of the same total; each adds up to ``total``."""
    breakdown = result.energy_breakdown
    views = {
        "level": dict(breakdown.get("by_level", {})),
        "phase": dict(breakdown.get("by_phase", {})),
        "operator kind": by_kind(result),
        "core": dict(breakdown.get("by_core", {})),
    }
    return {
        "total": result.energy_j,
        "static": breakdown.get("static", 0.0),
        "dynamic": breakdown.get("dynamic", 0.0),
        "views": [{"by": name, "rows": _rows(parts)} for name, parts in views.items() if parts],
    }
