"""A training step as a short line of nodes: forward chains with one reader folded, backward operators as they are.

Memory over time is decided on it. Each node makes items, buffers with a size; backward's items live from their maker to
their last reader whatever the plan, so that they form a fixed profile. Forward nodes may run once more.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from monet.graph.graph import Graph
from monet.graph.kind import kind_named
from monet.graph.op import Op, Phase
from monet.search.checkpoint.liveness import counted_storages
from monet.transforms.checkpoint_problem import CheckpointProblem, flops_cost, problem_of
from monet.transforms.recompute import Replay


@dataclass(frozen=True, slots=True)
class Item:
    """A buffer that a forward node leaves. ``readers`` are node numbers; ``value`` indexes the problem's ``values``."""

    value: int
    maker: int
    bytes: int
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimelineNode:
    """Operators that run one after the other. ``workspace`` is what they hold beside their items while they run."""

    names: tuple[str, ...]
    cost: int
    workspace: int
    repeatable: bool


@dataclass(frozen=True)
class Timeline:
    """Nodes in order, the first ``forward`` of them forward. ``fixed``: bytes, first, last node of backward's own."""

    nodes: tuple[TimelineNode, ...]
    forward: int
    items: tuple[Item, ...]
    fixed: tuple[tuple[int, int, int], ...]
    step_cost: int
    forward_cost: int

    @property
    def unit(self) -> int:
        """A common divisor of all sizes, in bytes."""
        sizes = [item.bytes for item in self.items] + [node.workspace for node in self.nodes]
        return math.gcd(*sizes, *(size for size, _, _ in self.fixed)) or 1

    @cached_property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        """Node → the items it reads."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for number, item in enumerate(self.items):
            for reader in item.readers:
                found[reader].append(number)
        return tuple(map(tuple, found))

    @cached_property
    def base(self) -> tuple[int, ...]:
        """Node → bytes that are held while it runs whatever the plan: its workspace and backward's own buffers."""
        held = [node.workspace for node in self.nodes]
        for size, first, last in self.fixed:
            for number in range(first, last + 1):
                held[number] += size
        return tuple(held)

    @property
    def plain(self) -> tuple[int, ...]:
        """Node → bytes held while it runs when nothing is recomputed."""
        held = list(self.base)
        for item in self.items:
            for number in range(item.maker, max((item.maker, *item.readers)) + 1):
                held[number] += item.bytes
        return tuple(held)

    @property
    def floors(self) -> tuple[int, ...]:
        """Node → bytes without which it cannot run: its operands and results."""
        held = list(self.base)
        for item in self.items:
            held[item.maker] += item.bytes
            for reader in item.readers:
                held[reader] += item.bytes
        return tuple(held)


def timeline_of(
    graph: Graph, cost: Callable[[Graph, Op], int] = flops_cost, fold: bool = True
) -> tuple[Timeline, CheckpointProblem]:
    """The timeline of one pass of a training step, and the problem whose values its items are.

    What computes in place is always folded with what it overwrites; ``fold`` folds every forward chain with one
    reader. That is on the safe side: a folded node holds its operands and its results together, so that a plan that
    fits the folded line fits the step, though a budget just below may fit the step alone.
    """
    problem, replay = problem_of(graph, cost), Replay(graph)
    merged = _folded(problem, fold)
    chains = _chains(problem, merged)
    number = {operator: node for node, chain in enumerate(chains) for operator in chain}
    nodes = [_forward_node(problem, chain) for chain in chains]
    plain = (op for op in graph.ops if op.phase is Phase.BACKWARD and op.micro_batch == 0 and not op.recompute)
    backward = [op for op in plain if not replay.is_view(op)]
    nodes += [TimelineNode((op.name,), cost(graph, op), 0, False) for op in backward]
    readers = _readers(replay, problem, backward, number, len(chains))
    items = tuple(
        Item(i, number[value.maker], graph.tensors[value.storage].bytes, tuple(sorted(readers[i])))
        for i, value in enumerate(problem.values)
        if readers[i] - {number[value.maker]}
    )
    fixed, cost_of_all = _fixed(graph, backward, len(chains)), sum(node.cost for node in nodes)
    return Timeline(tuple(nodes), len(chains), items, fixed, cost_of_all, problem.forward_cost), problem


def _folded(problem: CheckpointProblem, chains: bool) -> dict[int, int]:
    """Operator → the one operator that reads what it makes, if backward does not read that; in place, or any."""
    readers: dict[int, set[int]] = defaultdict(set)
    for number, operator in enumerate(problem.operators):
        for value in operator.reads:
            readers[value].add(number)
    found: dict[int, int] = {}
    for number, operator in enumerate(problem.operators):
        passed = [value for value in operator.writes if readers[value]]
        into = {reader for value in passed for reader in readers[value]}
        if len(into) != 1 or any(problem.values[value].needed for value in passed) or not operator.repeatable:
            continue
        (reader,) = into
        if chains or not all(problem.values[value].keepable for value in passed):
            found[number] = reader
    return found


def _chains(problem: CheckpointProblem, merged: dict[int, int]) -> list[list[int]]:
    """Operators by folded node, nodes in the order of their last operator."""
    last: dict[int, list[int]] = defaultdict(list)
    for number in range(len(problem.operators)):
        end = number
        while end in merged:
            end = merged[end]
        last[end].append(number)
    return [last[end] for end in sorted(last)]


def _forward_node(problem: CheckpointProblem, chain: list[int]) -> TimelineNode:
    inside = set(chain)
    made = {value for number in chain for value in problem.operators[number].writes}
    passed = {value for number in chain for value in problem.operators[number].reads if value in made}
    held, most = 0, 0
    size = {value: max(0, problem.values[value].bytes) for value in made}
    for number in chain:
        operator = problem.operators[number]
        consumed = [value for value in operator.reads if value in passed]
        consumed_storages = {problem.values[value].storage for value in consumed}
        for value in operator.writes:
            # an in-place result takes over its input's buffer
            if problem.values[value].storage not in consumed_storages:
                held += _bytes(problem, value, size)
        most = max(most, held)
        for value in consumed:
            if problem.values[value].storage not in {problem.values[written].storage for written in operator.writes}:
                held -= _bytes(problem, value, size)
    left = sum(_bytes(problem, value, size) for value in made - passed)
    return TimelineNode(
        tuple(problem.operators[number].name for number in sorted(inside)),
        sum(problem.operators[number].cost for number in chain),
        max(0, most - left),
        all(problem.operators[number].repeatable for number in chain),
    )


def _bytes(problem: CheckpointProblem, value: int, size: dict[int, int]) -> int:
    """Bytes of a value's storage, also of one that is overwritten later."""
    storage = problem.values[value].storage
    return size[value] or max(problem.values[i].bytes for i in size if problem.values[i].storage == storage)


def _readers(
    replay: Replay, problem: CheckpointProblem, backward: list[Op], number: dict[int, int], first: int
) -> dict[int, set[int]]:
    """Value → nodes that read it, its own left out."""
    found: dict[int, set[int]] = defaultdict(set)
    for at, operator in enumerate(problem.operators):
        for value in operator.reads:
            if number[problem.values[value].maker] != number[at]:
                found[value].add(number[at])
    for position, op in enumerate(backward):
        retained = kind_named(op.kind).retained
        for slot, name in enumerate(op.inputs):
            if name in problem.value_of_tensor and slot not in retained:
                found[problem.value_of_tensor[name]].add(first + position)
    return found


def _fixed(graph: Graph, backward: list[Op], first: int) -> tuple[tuple[int, int, int], ...]:
    """Backward's own buffers: gradients of activations, from their maker to their last reader."""
    counted, lives = counted_storages(graph), dict[str, tuple[int, int]]()
    for position, op in enumerate(backward):
        for name in op.outputs:
            storage = graph.tensors[name].storage
            if storage in counted:
                lives.setdefault(storage, (first + position, first + position))
        for name in (*op.inputs, *op.outputs):
            storage = graph.tensors[name].storage
            if storage in lives:
                lives[storage] = (lives[storage][0], first + position)
    return tuple((graph.tensors[name].bytes, start, end) for name, (start, end) in lives.items())
