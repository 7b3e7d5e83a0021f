"""Stream's own ResNet-18 on its own quad-core accelerator: its schedules, costed here. docs/stream.md explains each
difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from monet.frontends import load_model
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.mapping.cost_store import Section, default_store
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.result import Result
from monet.validation.figure import Figure, NotComputable, Rule

TOPIC = "stream"
SOURCE = "Stream (KULeuven-MICAS/stream, 303f9dc1), its ResNet-18 on its tpu_like_quad_core, run by us"
ENERGY = "dynamic energy, results of every stack through DRAM"
LINKS = "no prefetching, a quarter of every link between cores"


class StreamRun(NamedTuple):
    """A run of Stream's, and what of its own rules it takes to cost it as Stream does."""

    name: str
    cycles: int
    picojoules: float
    rules: str


# (two fused stacks, split in K over four cores) → run
RUNS = {
    (False, True): StreamRun("layer by layer, K split", 6_199_585, 4.607e9, "the parts of a layer one after another"),
    (True, True): StreamRun("two stacks, K split", 6_308_574, 3.050e9, f"parts of single layers in turn, {LINKS}"),
    (True, False): StreamRun("two stacks, a core per layer", 6_696_091, 2.620e9, LINKS),
}


# Stream costs a rectifier on the array of the core that made its input: a channel a column, one of 32 rows in use.
_LANES = {"lanes": 32, "only": ["max", "compare", "select", "copy"], "dtypes": {"int8": {"energy_j": 0.04e-12}}}
STREAM_LANES: dict[str, Any] = {"cores.tensor.vector": _LANES}
# Stream gives every transfer of a split layer a fixed share of a link, one over the cores it is split over.
NETWORK = ("ring", "to_pooling", "to_simd")
STREAM_LINKS: dict[str, Any] = {f"network.{name}.bandwidth_bits_per_cycle": 8 for name in NETWORK}


def stream_plan(graph: Graph, fused: bool, split: bool) -> Plan:
    """Stream's schedules of it: two stacks fused row by row (layers 0-10 and 11-21 of its file) or layer by layer;
    convolutions and rectifiers split in K over the four cores, or each whole on the first of them, which is what Stream
    gives a layer that is not split; nothing stays on chip between stacks. Its 1,118 tiles with one core per layer, and
    3,863 split, follow from these stacks alone."""
    names = [op.name for op in graph.ops]
    cores = tuple(f"tensor[{number}]" for number in range(4))
    first, second = names.index("layer1.1.add"), names.index("layer2.1.add")
    groups = (Group(tuple(names[:first]), (("OY", 1),)), Group(tuple(names[first:second]), (("OY", 1),)))
    axes = {"conv": "K", "relu": "A1"} if split else {}
    others = {"add": "simd", "max_pool": "pooling", "reduce_mean": "pooling"}
    placements = {
        op.name: Placement(cores, axes[op.kind]) if op.kind in axes else Placement((others.get(op.kind, cores[0]),))
        for op in graph.ops
    }
    return Plan(groups if fused else (), placements, boundary="dram")


def parts_in_turn(graph: Graph, plan: Plan) -> Plan:
    """A plan as Stream runs layers that are a stack of their own: a part holds the way to DRAM while it runs, so the
    parts of a split convolution come one after another, as they do on one core."""
    inside = {name for group in plan.groups for name in group.operators}
    unfused = [op for op in graph.ops if op.name not in inside and len(plan.placements[op.name].cores) > 1]
    parts = tuple(
        Group((op.name,), (("K", graph.tensors[op.outputs[0]].shape[1] // 4),)) for op in unfused if op.kind == "conv"
    )
    first = {op.name: Placement(plan.placements[op.name].cores[:1]) for op in unfused}
    return replace(plan, groups=(*plan.groups, *parts), placements={**plan.placements, **first})


def stream_rules(graph: Graph, plan: Plan) -> tuple[Plan, dict[str, Any]]:
    """A plan of Stream, and changes of the hardware, by the rules of its scheduler."""
    ruled = parts_in_turn(graph, plan)
    if not plan.groups:
        return ruled, {}  # every layer is a stack of its own: nothing goes from core to core
    return replace(ruled, prefetch=0), STREAM_LINKS


RESULTS = Section[Result]("results for validation", 8)


def _result(fused: bool, split: bool, as_stream: bool) -> Result:
    return default_store()[RESULTS].get_or((fused, split, as_stream), lambda: _evaluated(fused, split, as_stream))


def _evaluated(fused: bool, split: bool, as_stream: bool) -> Result:
    graph = load_model("resnet18-stream:activations=yes")
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
    return 1e12 * float(_result(fused, split, False).energy_breakdown.dynamic)


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    for run, (title, cycles, picojoules, rules) in RUNS.items():
        name, ours = f"tpu-like-quad, ResNet-18, {title}", partial(_cycles, *run)
        yield Figure(TOPIC, f"{name}: energy", "pJ", picojoules, 0.15, SOURCE, partial(_picojoules, *run), note=ENERGY)
        yield Figure(TOPIC, f"{name}: latency", "cycles", cycles, 0.0, SOURCE, partial(ours, False), Rule.AT_MOST)
        by_its_rules = f"{name}, by Stream's rules: latency"
        yield Figure(TOPIC, by_its_rules, "cycles", cycles, 0.2, SOURCE, partial(ours, True), note=rules)
