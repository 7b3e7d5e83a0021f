"""Bytes that a chunk of layers takes on a device: what stays, what a micro-batch leaves behind, what a pass works with.

Counted per storage, in the order of the graph. A storage lives from the operator that writes it first to the one that
touches it last; parameters, states and gradients that the update reads live through the step. What is left with the
host (``offloading.py``) is counted by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from monet.arrays import F64
from monet.distributed.transform.offloading import at_the_host
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.graph.tensor import Role

STAYS = {
    Role.PARAMETER: "weights",
    Role.BUFFER: "weights",
    Role.CONSTANT: "weights",
    Role.STATE: "optimizer_state",
    Role.GRADIENT: "gradients",
}


@dataclass(frozen=True)
class ChunkMemory:
    """Bytes of one chunk. ``saved``: from the forward pass of a micro-batch to its backward pass. The others are what
    a pass has at its fullest moment beyond what stays and what is saved; ``last``: with synchronisation and update.
    ``host_stays`` and ``host_saved`` are at the host; ``leaving``: what waits for the port there during forward."""

    stays: Mapping[str, float] = field(default_factory=dict)  # weights, gradients, optimizer_state
    saved: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    last: float = 0.0
    host_stays: float = 0.0
    host_saved: float = 0.0
    leaving: float = 0.0

    def grown(self, larger: ChunkMemory, times: float) -> ChunkMemory:
        """What ``larger``, which has a block more, has with ``times`` further ones: a pass works as before."""
        stays = {
            name: larger.stays.get(name, 0.0) + times * (larger.stays.get(name, 0.0) - self.stays.get(name, 0.0))
            for name in {**self.stays, **larger.stays}
        }

        def more(name: str) -> float:
            before, after = getattr(self, name), getattr(larger, name)
            return float(after + times * (after - before))

        return ChunkMemory(
            stays, more("saved"), larger.forward, larger.backward, larger.last, more("host_stays"), more("host_saved"),
            max(0.0, more("leaving")),
        )  # fmt: skip


def chunk_memory(micro: Graph, update: Graph, last: Graph) -> ChunkMemory:
    """Memory of a chunk from its graphs: of a micro-batch, of the update, and of the last micro-batch with it."""
    stays = {"weights": 0.0, "gradients": 0.0, "optimizer_state": 0.0}
    held: dict[str, float] = {}
    away = at_the_host(update)
    host_stays = 0.0
    for graph in (micro, update):
        for name in dict.fromkeys(
            graph.tensors[name].storage for op in graph.ops for name in (*op.inputs, *op.outputs)
        ):
            tensor = graph.tensors[name]
            if name in graph.producer or tensor.role not in STAYS or name in held:
                continue
            held[name] = float(tensor.bytes)
            if name in away:
                host_stays += held[name]
            else:
                stays[STAYS[tensor.role]] += held[name]
    kept = frozenset(held)
    saved, forward, backward = _live(micro, kept)
    final = max(backward, _live(last, kept)[2])
    first, middle, end = (max(0.0, most - saved) for most in (forward, backward, final))
    return ChunkMemory(stays, saved, first, middle, end, host_stays, _paged_bytes(micro))


def _paged_bytes(micro: Graph) -> float:
    """Bytes of a micro-batch that wait for backward at the host."""
    pages = at_the_host(micro)
    return float(sum(micro.tensors[name].bytes for name in pages))


def saved_bytes(micro: Graph) -> float:
    """Bytes that a micro-batch holds from forward to backward."""
    return _live(micro, frozenset())[0]


def _live(graph: Graph, kept: frozenset[str]) -> tuple[float, float, float]:
    """Bytes between forward and backward, at the fullest moment of forward, and at that of what follows; ``kept`` is
    counted elsewhere."""
    count = len(graph.ops)
    border = next((at for at, op in enumerate(graph.ops) if op.phase in (Phase.BACKWARD, Phase.UPDATE)), count)
    first: dict[str, int] = {}
    final: dict[str, int] = {}
    for at, op in enumerate(graph.ops):
        for name in (*op.inputs, *op.outputs):
            storage = graph.tensors[name].storage
            made = storage in graph.producer
            first.setdefault(storage, at if made else 0)
            final[storage] = at
    change: F64 = np.zeros(count + 1)
    saved = 0.0
    away = at_the_host(graph)
    for storage, begins in first.items():
        if storage in kept or storage in away:
            continue
        tensor = graph.tensors[storage]
        if storage not in graph.producer and tensor.role in STAYS:
            continue
        size = float(tensor.bytes)
        change[begins] += size
        change[final[storage] + 1] -= size
        if begins < border <= final[storage]:
            saved += size
    live = np.cumsum(change)
    return saved, float(live[:border].max(initial=0.0)), float(live[border:].max(initial=0.0))
