"""Chips: latency measured on silicon against the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
NARROW = {f"cores.{core}.memories.weights.ports.read.bandwidth_bits_per_cycle": 4096 for core in ("cimu_1", "cimu_4")}


def depfin_fsrcnn() -> tuple[Graph, Plan]:
    """FSRCNN at 540×960 on ``depfin``: all eight layers fused, one output row at a time."""
    graph = load_model("fsrcnn")
    group = Group(tuple(op.name for op in graph.ops), (("OY", 1),))
    return graph, Plan((group,), {}, boundary="keep")


def aimc_segment() -> tuple[Graph, Plan]:
    """Five layers of ResNet-50 at 56×56 on ``aimc-4x4``: one layer per core, tiles of two pixels of a row."""
    graph = load_model("resnet50-segment")
    group = Group(tuple(op.name for op in graph.ops), (("OY", 1), ("OX", 2)))
    cores = {op.name: Placement((f"cimu_{number}",)) for number, op in enumerate(graph.ops)}
    return graph, Plan((group,), cores, boundary="keep")


def _cycles(graph: Graph, plan: Plan, preset: str, overrides: Mapping[str, Any] | None = None) -> float:
    result = evaluate(graph, load_hardware(preset, overrides), plan)
    if not result.feasible:
        raise NotComputable(result.reason.message if result.reason else f"does not fit {preset}")
    return float(result.cycles)


def _depfin() -> float:
    return _cycles(*depfin_fsrcnn(), "depfin")


def _aimc() -> float:
    return _cycles(*aimc_segment(), "aimc-4x4")


def _aimc_narrow() -> float:
    return _cycles(*aimc_segment(), "aimc-4x4", NARROW)


@dataclass(frozen=True, slots=True)
class OpenChoice:
    """Something that the sources leave open, decided in another way: in the chip, in the plan, or both."""

    words: str
    chip: Mapping[str, Any] = field(default_factory=dict)  # overrides of the preset
    plan: Callable[[Plan], Plan] = lambda plan: plan


def _tiles(*tile: tuple[str, int]) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, groups=(plan.groups[0]._replace(tile=tile),))


def _recomputed(plan: Plan) -> Plan:
    return replace(plan, groups=(plan.groups[0]._replace(halo="recomputed"),))


def _buffers(cores: Sequence[str], counts: Sequence[int | None]) -> Iterator[OpenChoice]:
    for count in counts:
        words = (
            "as many tile buffers as there is room for" if count is None else f"{count} tile buffer{'s' * (count > 1)}"
        )
        yield OpenChoice(words, {f"cores.{core}.tile_buffers": count for core in cores})


CIMUS = tuple(f"cimu_{number}" for number in range(5))
OPEN_CHOICES = {
    "depfin": (
        OpenChoice("as in the preset: 1 tile buffer"),
        *_buffers(("array",), (2, 3, None)),
        OpenChoice("a cycle of latency on the link", {"network.off_chip.latency_cycles": 1}),
        OpenChoice("ten cycles", {"network.off_chip.latency_cycles": 10}),
        OpenChoice("two rows a tile", plan=_tiles(("OY", 2))),
        OpenChoice("halo recomputed", plan=_recomputed),
    ),
    "aimc-4x4": (
        OpenChoice("as in the preset: 2 tile buffers"),
        *_buffers(CIMUS, (1, 3, None)),
        OpenChoice("weights stay in the array between tiles", {f"cores.{core}.refill": "operator" for core in CIMUS}),
        OpenChoice("4096-bit weight buffers in all cores", NARROW),
        OpenChoice("no latency on the links between cores", {"network.pipeline.latency_cycles": 0}),
        OpenChoice("four pixels a tile", plan=_tiles(("OY", 1), ("OX", 4))),
        OpenChoice("halo recomputed", plan=_recomputed),
    ),
}  # fmt: skip
CASES = {"depfin": (depfin_fsrcnn, 6.18e6), "aimc-4x4": (aimc_segment, 66_302.0)}


def sensitivity() -> Iterator[tuple[str, str, float, float]]:
    """(chip, choice, cycles, accuracy) of every open choice, one at a time: what the agreement rests on."""
    for chip, choices in OPEN_CHOICES.items():
        case, measured = CASES[chip]
        graph, plan = case()
        for choice in choices:
            cycles = _cycles(graph, choice.plan(plan), chip, choice.chip)
            yield chip, choice.words, cycles, 1 - abs(1 - cycles / measured)


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    yield Figure(TOPIC, "depfin, FSRCNN 540×960: latency", "cycles", 6.18e6, 0.02, DEPFIN, _depfin, note=NOTE)
    # tile times follow from the weight buffers' widths in the source, which does not say where it has these from
    yield Figure(TOPIC, "aimc-4x4, ResNet-50 segment: latency", "cycles", 66_302, 0.04, AIMC, _aimc, note=NOTE)
    name = "aimc-4x4, the same with 4096-bit weight buffers throughout"
    yield Figure(TOPIC, name, "cycles", 121_348, 0.05, STREAM, _aimc_narrow, note=NOTE)
