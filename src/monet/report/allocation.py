"""Plans of an allocation search as a table, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

from monet.report.columns import Column
from monet.search.allocation.comparison import ComparedPlan


def plan_columns(compared: Sequence[ComparedPlan], clock_hz: float) -> tuple[Column[ComparedPlan], ...]:
    """Figures of every plan, and how they compare to the one that was found; last what the plan is."""
    best = next(row for row in compared if row.name == "found")
    return (
        Column("plan", "", lambda row: row.name),
        Column("latency", "s", lambda row: row.latency_s),
        Column("cycles", "n", lambda row: round(row.latency_s * clock_hz)),
        Column("energy", "J", lambda row: row.energy_j),
        Column("EDP", "", lambda row: f"{row.edp:.3e} J·s"),
        Column("off-chip", "B", lambda row: row.dram_bytes),
        Column("latency ×", "", lambda row: f"{row.latency_s / best.latency_s:.3f}×"),
        Column("EDP ×", "", lambda row: f"{row.edp / best.edp:.3f}×"),
        Column("", "", lambda row: row.about, holds="prose"),
    )
