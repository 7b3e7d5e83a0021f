"""The plans everybody knows, as baselines: each is a ``CheckpointPlan`` like any other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from monet.errors import nearest
from monet.graph.graph import Graph
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.graph.op import Op
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan
from monet.transforms.checkpoint_problem import CheckpointProblem


@dataclass(frozen=True, slots=True)
class Baseline:
    """A well-known way to choose: ``choose`` gives the values of the problem that survive."""

    name: str
    about: str
    choose: Callable[[Graph, CheckpointProblem], frozenset[int]]

    def plan(self, graph: Graph, problem: CheckpointProblem) -> CheckpointPlan:
        """The baseline's plan for a training step."""
        return problem.plan(self.choose(graph, problem))


def baseline_named(name: str) -> Baseline:
    """The baseline called ``name``."""
    for baseline in BASELINES:
        if baseline.name == name:
            return baseline
    raise CheckpointError(f"unknown baseline {name!r}; {nearest(name, [baseline.name for baseline in BASELINES])}")


def _saved(problem: CheckpointProblem) -> frozenset[int]:
    return frozenset(problem.value_of_storage[name] for name in problem.saved)


def _nothing(_: Graph, problem: CheckpointProblem) -> frozenset[int]:
    """Only what cannot be repeated survives."""
    return frozenset(i for i in _saved(problem) if not problem.operators[problem.values[i].maker].repeatable)


# --- segments: keep what crosses a cut of the forward pass ----------------------------------------------------------


def _crossing(problem: CheckpointProblem) -> list[frozenset[int]]:
    """For every operator: the values made before it that it or a later one reads."""
    last = {i: number for number, operator in enumerate(problem.operators) for i in operator.reads}
    live: set[int] = set()
    found = []
    for number, operator in enumerate(problem.operators):
        live = {i for i in live if last.get(i, -1) >= number}
        found.append(frozenset(live))
        live.update(operator.writes)
    return found


def _is_cut(problem: CheckpointProblem, values: frozenset[int]) -> bool:
    return all(problem.values[i].keepable for i in values)


def _square_root(_: Graph, problem: CheckpointProblem) -> frozenset[int]:
    """About √n segments of equally many operators, each cut where the least bytes cross nearby."""
    count = len(problem.operators)
    segments = max(1, round(math.sqrt(count)))
    length, crossing, kept = count / segments, _crossing(problem), frozenset[int]()
    for segment in range(1, segments):
        centre, reach = round(segment * length), max(1, int(length / 2))
        near = [
            at for at in range(max(1, centre - reach), min(count, centre + reach)) if _is_cut(problem, crossing[at])
        ]
        if near:
            kept |= crossing[min(near, key=lambda at: (problem.bytes(crossing[at]), abs(at - centre)))]
    return kept


def block_of(op: Op) -> str:
    """The repeated unit an operator belongs to: its layer's name up to the first number (``layer1.0``, ``h.11``)."""
    parts = op.layer.split(".")
    for position, part in enumerate(parts):
        if position and part.isdigit():
            return ".".join(parts[: position + 1])
    return parts[0]


def _per_block(graph: Graph, problem: CheckpointProblem) -> frozenset[int]:
    """The inputs of every block, as ``torch.utils.checkpoint`` around each block would keep."""
    by_name = {op.name: op for op in graph.ops}
    blocks = [block_of(by_name[operator.name]) for operator in problem.operators]
    crossing, kept = _crossing(problem), frozenset[int]()
    for number in range(1, len(blocks)):
        if blocks[number] != blocks[number - 1] and _is_cut(problem, crossing[number]):
            kept |= crossing[number]
    return kept


# --- by operator -----------------------------------------------------------------------------------------------


def _multiplies(graph: Graph, problem: CheckpointProblem) -> list[bool]:
    by_name = {op.name: op for op in graph.ops}
    return [kind_named(by_name[operator.name].kind).family in MAC_FAMILIES for operator in problem.operators]


def _selective_attention(graph: Graph, problem: CheckpointProblem) -> frozenset[int]:
    """Everything but what lies between the two products of attention: scores, mask, softmax, dropout.

    Korthikanti et al. 2022 ("Reducing activation recomputation in large transformer models").
    """
    by_name = {op.name: op for op in graph.ops}
    heavy, between = _multiplies(graph, problem), set[int]()
    for operator in problem.operators:
        if by_name[operator.name].kind != "softmax":
            continue
        ahead, waiting = set(operator.writes), list(operator.writes)
        while waiting:  # towards the product with the values
            value = waiting.pop()
            for reader, heavy_one in zip(problem.operators, heavy, strict=True):
                if value in reader.reads and not heavy_one and not set(reader.writes) <= ahead:
                    ahead.update(reader.writes)
                    waiting += reader.writes
        behind, waiting = set[int](), list(operator.reads)
        while waiting:  # back to the product of query and key
            value = waiting.pop()
            maker = problem.values[value].maker
            if value not in behind and not heavy[maker]:
                behind.add(value)
                waiting += problem.operators[maker].reads
        between |= ahead | behind
    return frozenset(i for i in _saved(problem) if i not in between)


def _cheap_only(graph: Graph, problem: CheckpointProblem) -> frozenset[int]:
    """Recompute whatever needs no matrix product or convolution."""
    heavy, saved, cheap = _multiplies(graph, problem), _saved(problem), set[int]()
    for number, operator in enumerate(problem.operators):
        if operator.repeatable and not heavy[number] and all(i in cheap or i in saved for i in operator.reads):
            cheap.update(operator.writes)
    return frozenset(i for i in saved if i not in cheap)


BASELINES = (
    Baseline("keep-all", "nothing is recomputed", lambda _, problem: _saved(problem)),
    Baseline("recompute-all", "everything is recomputed from the inputs", _nothing),
    Baseline("sqrt-segments", "about √n segments, their borders kept (Chen et al. 2016)", _square_root),
    Baseline("per-block", "the inputs of every block are kept", _per_block),
    Baseline("selective-attention", "scores, softmax and dropout of attention are recomputed", _selective_attention),
    Baseline("cheap-operators", "everything that takes no matrix product or convolution is recomputed", _cheap_only),
)
