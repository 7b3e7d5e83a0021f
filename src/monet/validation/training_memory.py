"""Peak memory of a training step, layer by layer and without a capacity limit, against PyTorch's memory tracker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.graph.tensor import Role
from monet.validation.figure import Figure
from monet.validation.training_graph import step_of

TOPIC = "training memory"
TRACKER = "PyTorch 2.13.0 memory tracker, peak of forward and backward with SGD"

# model, batch, image or sequence (0: the model's own), MB
PEAKS = (
    ("resnet18", 1, 224, 111.5),
    ("resnet18", 8, 224, 257.5),
    ("resnet18", 32, 224, 782.5),
    ("bert-base", 1, 128, 876.3),
    ("bert-base", 8, 128, 1145.2),
    ("gpt2-mini", 1, 256, 397.1),
    ("gpt2-mini", 8, 256, 1740.9),
    ("gpt2-small", 1, 256, 1304.3),
    ("gpt2-small", 1, 1024, 2342.4),
    ("mlp-robot", 4096, 0, 33.4),
)


def live_peak(graph: Graph) -> tuple[int, str]:
    """Most bytes alive at once up to the end of backward, operators in order, and the operator that reaches them.

    A storage lives from the operator that first writes it to the last that touches it; parameters, buffers, inputs and
    the complete gradients stay.
    """
    ops = [op for op in graph.ops if op.phase is not Phase.UPDATE]
    last = {graph.tensors[name].storage: at for at, op in enumerate(ops) for name in (*op.inputs, *op.outputs)}
    roots = {tensor.storage for name, tensor in graph.tensors.items() if name not in graph.producer}
    stays = roots | {graph.tensors[name].storage for name in graph.gradients.values()}
    ends: dict[int, list[str]] = defaultdict(list)
    for storage, position in last.items():
        if storage not in stays:
            ends[position].append(storage)
    alive = {storage for storage in roots if graph.tensors[storage].role is not Role.STATE}
    now = most = sum(graph.tensors[storage].bytes for storage in alive)
    where = ""
    for position, op in enumerate(ops):
        fresh = {graph.tensors[name].storage for name in op.outputs} - alive
        alive |= fresh
        now += sum(graph.tensors[storage].bytes for storage in fresh)
        if now > most:
            most, where = now, op.name
        for storage in ends[position]:
            alive.remove(storage)
            now -= graph.tensors[storage].bytes
    return most, where


def _peak_mb(model: str, batch: int, size: int) -> float:
    return round(live_peak(step_of(model, batch, size))[0] / 1e6, 1)


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    for model, batch, size, peak in PEAKS:
        name = f"{model} b{batch}{f' {size}' if size else ''}: peak"
        yield Figure(TOPIC, name, "MB", peak, 0.002, TRACKER, partial(_peak_mb, model, batch, size))
