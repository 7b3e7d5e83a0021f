"""Memory of a step over time: activations and their gradients, operator by operator, in the order of the graph.

A storage is there from its first writer to its last reader, both included. Parameters, their gradients, states and
inputs last through the step whatever the plan, and are left out: a checkpoint plan moves none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from monet.graph.counts import KEPT_ANYWAY
from monet.graph.graph import Graph
from monet.graph.kind import kind_named
from monet.graph.op import Phase
from monet.graph.tensor import Role


@dataclass(frozen=True, slots=True)
class Peak:
    """The operator during which most is held, and how many bytes that is."""

    operator: str
    bytes: int


def counted_storages(graph: Graph) -> frozenset[str]:
    """Storages whose life a checkpoint plan can change: activations, and gradients of activations."""
    lasting = {graph.tensors[name].storage for name in graph.gradients.values()}
    return frozenset(
        tensor.storage
        for name, tensor in graph.tensors.items()
        if name in graph.producer
        and graph.storage_of(name).role not in KEPT_ANYWAY
        and tensor.storage not in lasting
        and not _of_parameter(graph, tensor.gradient_of)
    )


def _of_parameter(graph: Graph, name: str) -> bool:
    return bool(name) and graph.storage_of(name).role is Role.PARAMETER


def lifetimes(graph: Graph) -> dict[str, tuple[int, int]]:
    """Counted storage → index of the first operator that writes it and of the last that touches it."""
    counted, lives = counted_storages(graph), dict[str, tuple[int, int]]()
    for index, op in enumerate(graph.ops):
        retained = kind_named(op.kind).retained if op.phase is Phase.BACKWARD else ()
        reads = [name for slot, name in enumerate(op.inputs) if slot not in retained]
        for name in (*reads, *op.outputs):
            storage = graph.tensors[name].storage
            if storage in counted:
                lives[storage] = (lives.get(storage, (index, index))[0], index)
    return lives


def memory_over_time(graph: Graph) -> list[int]:
    """Bytes held while each operator runs."""
    change = [0] * (len(graph.ops) + 1)
    for storage, (start, end) in lifetimes(graph).items():
        change[start] += graph.tensors[storage].bytes
        change[end + 1] -= graph.tensors[storage].bytes
    held, found = 0, []
    for step in change[:-1]:
        held += step
        found.append(held)
    return found


def peak_of(graph: Graph) -> Peak:
    """The peak of a step."""
    held = memory_over_time(graph)
    at = max(range(len(held)), key=lambda index: held[index])
    return Peak(graph.ops[at].name, held[at])
