"""Chips: latency measured on silicon against the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from monet.frontends import load_model
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Group, Placement, Plan
from monet.validation.figure import Figure, NotComputable

TOPIC = "silicon"
DEPFIN = "DepFiN chip, as measured in Stream's validation (KULeuven-MICAS/stream, branch validation, 34853444)"
AIMC = "Jia et al. 4×4 analog in-memory chip, as measured in Stream's validation (same source)"
STREAM = "Stream's own model of the same chip, that one width changed (same source)"
NOTE = "cycles from the first weight fetched to the last result written"


def depfin_fsrcnn() -> tuple[Graph, Plan]:
    """FSRCNN at 540×960 on ``depfin``: all eight layers fused, one output row at a time; its link serves reads and
    writes strictly in order (an output row is queued before the next input row)."""
    graph = load_model("fsrcnn")
    group = Group(tuple(op.name for op in graph.ops), (("OY", 1),))
    return graph, Plan((group,), {}, boundary="keep", prefetch=0)


def aimc_segment() -> tuple[Graph, Plan]:
    """Five layers of ResNet-50 at 56×56 on ``aimc-4x4``: one layer per core, tiles of two pixels of a row."""
    graph = load_model("resnet50-segment")
    group = Group(tuple(op.name for op in graph.ops), (("OY", 1), ("OX", 2)))
    cores = {op.name: Placement((f"cimu_{number}",)) for number, op in enumerate(graph.ops)}
    return graph, Plan((group,), cores, boundary="keep", prefetch=1)


def _cycles(graph: Graph, plan: Plan, preset: str, overrides: dict[str, int] | None = None) -> float:
    result = evaluate(graph, load_hardware(preset, overrides), plan)
    if not result.feasible:
        raise NotComputable(result.reason.message if result.reason else f"does not fit {preset}")
    return float(result.cycles)


def _depfin() -> float:
    return _cycles(*depfin_fsrcnn(), "depfin")


def _aimc() -> float:
    return _cycles(*aimc_segment(), "aimc-4x4")


def _aimc_narrow() -> float:
    width = "memories.weights.ports.read.bandwidth_bits_per_cycle"
    return _cycles(*aimc_segment(), "aimc-4x4", {f"cores.{core}.{width}": 4096 for core in ("cimu_1", "cimu_4")})


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    yield Figure(TOPIC, "depfin, FSRCNN 540×960: latency", "cycles", 6.18e6, 0.04, DEPFIN, _depfin, note=NOTE)
    # tile times follow from the weight buffers' widths in the source, which does not say where it has these from
    yield Figure(TOPIC, "aimc-4x4, ResNet-50 segment: latency", "cycles", 66_302, 0.05, AIMC, _aimc, note=NOTE)
    name = "aimc-4x4, the same with 4096-bit weight buffers throughout"
    yield Figure(TOPIC, name, "cycles", 121_348, 0.05, STREAM, _aimc_narrow, note=NOTE)
