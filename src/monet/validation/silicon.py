"""Chips: latency measured on silicon against the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from monet.graph.graph import Graph
from monet.schedule.plan import Plan
from monet.validation.figure import Figure, NotComputable

TOPIC = "silicon"
DEPFIN = "DepFiN chip, as measured in Stream's validation (KULeuven-MICAS/stream, branch validation, 34853444)"
AIMC = "Jia et al. 4×4 analog in-memory chip, as measured in Stream's validation (same source)"
NOTE = "cycles from the first weight fetched to the last result written"


def _cycles(graph: Graph, plan: Plan, preset: str) -> float:
    from monet.hardware import load_hardware
    from monet.schedule import evaluate

    result = evaluate(graph, load_hardware(preset), plan)
    if not result.feasible:
        raise NotComputable(result.reason.message if result.reason else f"does not fit {preset}")
    return float(result.cycles)


def _depfin() -> float:
    from monet.schedule.silicon import depfin_fsrcnn

    return _cycles(*depfin_fsrcnn(), "depfin")


def _aimc() -> float:
    from monet.schedule.silicon import aimc_segment

    return _cycles(*aimc_segment(), "aimc-4x4")


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    yield Figure(TOPIC, "depfin, FSRCNN 540×960: latency", "cycles", 6.18e6, 0.04, DEPFIN, _depfin, note=NOTE)
    # not a prediction: the cycles of an array step in the preset were fitted to this very figure
    name = "aimc-4x4, ResNet-50 segment: latency (step time FITTED to it)"
    yield Figure(TOPIC, name, "cycles", 66_302, 0.05, AIMC, _aimc, note=NOTE)
