"""Operators right behind what they wait for: gradients leave for other ranks while backward goes on; and parameters
gathered before they are needed.

Reads of one memory are served in the order of the program, so a bucket that stands at the end of a program leaves at
the end of it, however early its gradients are there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from monet.graph.graph import Graph
from monet.graph.kind import Family, kind_named
from monet.graph.op import Op, Phase
from monet.graph.rewrite import is_inplace
from monet.transforms.checkpoint_baselines import block_of


def as_soon_as_ready(graph: Graph, moved: Collection[str]) -> Graph:
    """The graph with the operators called ``moved`` right behind the last one before them that has to do with a storage
    of theirs; in their own order where that is the same."""
    if not moved:
        return graph
    place: dict[str, tuple[int, int]] = {}
    behind: dict[str, int] = {}  # by storage: the place of the last operator so far that has to do with it
    for number, op in enumerate(graph.ops):
        touched = {graph.tensors[name].storage for name in (*op.inputs, *op.outputs)}
        at = number if op.name not in moved else max((behind.get(storage, -1) for storage in touched), default=-1)
        place[op.name] = at, number
        for storage in touched:
            behind[storage] = max(at, behind.get(storage, -1))
    return replace(graph, ops=tuple(sorted(graph.ops, key=lambda op: place[op.name])))


def synchronising(graph: Graph) -> set[str]:
    """Names of the collectives of the update, and of what it does for them before; optimizers run at the end."""
    found, needed = set[str](), set[str]()
    for op in reversed(graph.ops):
        if op.phase is not Phase.UPDATE or is_inplace(graph, op):
            continue
        if kind_named(op.kind).family is Family.COLLECTIVE or not needed.isdisjoint(op.outputs):
            found.add(op.name)
            needed.update(op.inputs)
    return found


def gathered_ahead(graph: Graph) -> Graph:
    """The graph with parameters gathered from other replicas while the block before their readers runs, as the ports
    serve collectives in the order of the program; two blocks' parameters are whole at a time (FSDP's prefetching, Zhao
    et al. 2023). What the first block of a pass reads is gathered as the pass begins."""
    gathers = {op.name for op in graph.ops if _gathers_parameter(graph, op)}
    if not gathers:
        return graph
    place: dict[str, tuple[int, int]] = {}
    starts, run = list[int](), ("", False)
    for number, op in enumerate(graph.ops):
        block = block_of(op), op.phase is Phase.BACKWARD
        if block != run:
            starts = [*starts[-1:], number] if block[1] == run[1] or not starts else [number]
            run = block
        place[op.name] = (starts[0] - 1 if op.name in gathers else number), number
    return replace(graph, ops=tuple(sorted(graph.ops, key=lambda op: place[op.name])))


def _gathers_parameter(graph: Graph, op: Op) -> bool:
    return op.kind == "all_gather" and op.attrs["group"] == "data" and op.inputs[0] not in graph.producer
