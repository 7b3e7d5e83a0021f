"""Stream's own ResNet-18 on its own quad-core accelerator: its schedules, costed here. docs/stream.md explains each
difference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from monet.schedule.result import Result
from monet.validation.figure import Figure, NotComputable, Rule

TOPIC = "stream"
SOURCE = "Stream (KULeuven-MICAS/stream, 303f9dc1), its ResNet-18 on its tpu_like_quad_core, run by us"
AS_STREAM = {
    (False, True): "the parts of a layer one after another",
    (True, True): "parts of single layers in turn, no prefetching, a quarter of every link between cores",
    (True, False): "no prefetching, a quarter of every link between cores",
}
ENERGY = "dynamic energy, results of every stack through DRAM"
# (two fused stacks, split in K over four cores): cycles, picojoules
RUNS = {(False, True): (6_199_585, 4.607e9), (True, True): (6_308_574, 3.050e9), (True, False): (6_696_091, 2.620e9)}
NAMES = {
    (False, True): "layer by layer, K split",
    (True, True): "two stacks, K split",
    (True, False): "two stacks, a core per layer",
}


@lru_cache
def _result(fused: bool, split: bool, as_stream: bool) -> Result:
    from monet.hardware import load_hardware
    from monet.schedule import evaluate
    from monet.schedule.silicon import STREAM_LANES, stream_plan, stream_resnet18, stream_rules

    graph = stream_resnet18(activations=True)
    plan, links = stream_plan(graph, fused, split), dict[str, Any]()
    if as_stream:
        plan, links = stream_rules(graph, plan)
    result = evaluate(graph, load_hardware("tpu-like-quad", STREAM_LANES | links), plan)
    if not result.feasible:
        raise NotComputable(result.reason.message if result.reason else "does not fit")
    return result


def _cycles(fused: bool, split: bool, as_stream: bool) -> float:
    return float(_result(fused, split, as_stream).cycles)


def _picojoules(fused: bool, split: bool) -> float:
    return 1e12 * float(_result(fused, split, False).energy_breakdown["dynamic"])


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    for run, (cycles, picojoules) in RUNS.items():
        name, ours = f"tpu-like-quad, ResNet-18, {NAMES[run]}", partial(_cycles, *run)
        yield Figure(TOPIC, f"{name}: energy", "pJ", picojoules, 0.15, SOURCE, partial(_picojoules, *run), note=ENERGY)
        yield Figure(TOPIC, f"{name}: latency", "cycles", cycles, 0.0, SOURCE, partial(ours, False), Rule.AT_MOST)
        by_its_rules = f"{name}, by Stream's rules: latency"
        yield Figure(TOPIC, by_its_rules, "cycles", cycles, 0.2, SOURCE, partial(ours, True), note=AS_STREAM[run])
