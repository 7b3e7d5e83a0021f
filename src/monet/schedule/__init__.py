"""A graph on an accelerator in time: fusion groups, placement, two-pass scheduler, memory, result."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from monet.schedule.result import Result

if TYPE_CHECKING:
    from monet.schedule.engine import Scheduler
    from monet.schedule.evaluation import evaluate
    from monet.schedule.plan import Group, Placement, Plan, load_plan, plan_text

_LATER = {
    "Group": "monet.schedule.plan",
    "Placement": "monet.schedule.plan",
    "Plan": "monet.schedule.plan",
    "Scheduler": "monet.schedule.engine",
    "evaluate": "monet.schedule.evaluation",
    "load_plan": "monet.schedule.plan",
    "plan_text": "monet.schedule.plan",
}

__all__ = ["Group", "Placement", "Plan", "Result", "Scheduler", "evaluate", "load_plan", "plan_text"]


def __getattr__(name: str) -> Any:
    """Import the scheduler when it is first used: reading a result needs no compiled kernels."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'monet.schedule' has no attribute {name!r}")
