"""The compact saving policy: what an accelerator would keep instead of what the framework keeps.

One bit per element instead of a ReLU's output where nothing else needs that output; the winning tap (one byte) instead
of a 64-bit position for max-pooling; one-bit dropout masks; nothing kept that is never read. ``narrow_saved`` does
so for chosen storages, ``compact_saved`` for all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from monet.graph import Attributes, Graph, Op, Phase, Role, Tensor
from monet.graph.counts import saved_for_backward
from monet.graph.formats import FORMATS
from monet.graph.kind import kind_named
from monet.graph.operators.pooling import TAP_INDEX
from monet.graph.tensor import contiguous

TAPS = 256  # that a one-byte index can tell apart


def compact_saved(graph: Graph) -> Graph:
    """A training step with the same gradients that keeps fewer bytes from forward to backward."""
    return narrow_saved(graph, {tensor.storage for tensor in graph.tensors.values()})


def narrow_saved(graph: Graph, storages: Collection[str]) -> Graph:
    """The same for the named storages only; a storage with nothing to narrow stays as it is."""
    return _masks(_narrow_indices(without_unread(graph, storages), storages), storages)


def narrowed_bytes(graph: Graph) -> dict[str, int]:
    """Saved storage → the bytes it has when narrowed, for those that become smaller (of the first pass)."""
    readers, masks = _readers(graph), {graph.tensors[name].storage for name in _mask_sources(graph)}
    indices = {name: op for op in graph.ops for name in op.outputs[1:] if _index_dtype(op)}
    found: dict[str, int] = {}
    for saved in saved_for_backward(graph):
        tensor, storage = saved.tensor, saved.tensor.storage
        if not readers[storage]:
            found[storage] = 0
        elif storage in indices:
            found[storage] = FORMATS[_index_dtype(indices[storage])].bytes_of(tensor.shape)
        elif storage in masks:
            found[storage] = FORMATS["bit"].bytes_of(tensor.shape)
    return {name: size for name, size in found.items() if size < graph.tensors[name].bytes}


def without_unread(graph: Graph, storages: Collection[str]) -> Graph:
    """References to ``storages`` that the framework holds without ever reading an element are let go."""

    def trimmed(op: Op) -> Op:
        retained = kind_named(op.kind).retained
        if not any(i < len(op.inputs) and graph.tensors[op.inputs[i]].storage in storages for i in retained):
            return op
        return replace(
            op,
            inputs=tuple(
                name
                for i, name in enumerate(op.inputs)
                if i not in retained or graph.tensors[name].storage not in storages
            ),
        )

    return replace(graph, ops=tuple(map(trimmed, graph.ops)))


def _readers(graph: Graph) -> dict[str, set[tuple[str, str]]]:
    """Storage → the backward reads of its elements, each as (kind of operator, tensor)."""
    readers: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for op in graph.ops:
        if op.phase is Phase.BACKWARD:
            retained = kind_named(op.kind).retained
            for i, name in enumerate(op.inputs):
                if i not in retained:
                    readers[graph.tensors[name].storage].add((op.kind, name))
    return readers


def _mask_sources(graph: Graph) -> list[str]:
    """Outputs of ReLUs of which backward reads nothing but the sign."""
    readers = _readers(graph)
    return [
        op.outputs[0]
        for op in graph.ops
        if op.kind == "relu"
        and op.phase is not Phase.BACKWARD
        and readers[graph.tensors[op.outputs[0]].storage] == {("relu_gradient", op.outputs[0])}
    ]


def _index_dtype(op: Op) -> str:
    """The narrow type of an operator's second output, if it has one."""
    if op.kind == "dropout":
        return "bit"
    return TAP_INDEX if op.kind == "max_pool" and math.prod(op.attrs["kernel"]) <= TAPS else ""


def _narrow_indices(graph: Graph, storages: Collection[str]) -> Graph:
    tensors, narrow = dict(graph.tensors), set()
    for op in graph.ops:
        if (dtype := _index_dtype(op)) and op.outputs[1] in storages:
            tensors[op.outputs[1]] = replace(tensors[op.outputs[1]], dtype=dtype)
            narrow.add(op.outputs[1])

    def narrowed(op: Op) -> Op:
        if op.kind == "dropout" and op.outputs[1] in narrow:
            return replace(op, attrs=Attributes({**op.attrs, "mask_dtype": "bit"}))
        if (op.kind == "max_pool" and op.outputs[1] in narrow) or (
            op.kind == "max_pool_gradient" and op.inputs[1] in narrow
        ):
            return replace(op, attrs=Attributes({**op.attrs, "index_dtype": TAP_INDEX}))
        return op

    ops = tuple(map(narrowed, graph.ops))
    return replace(graph, ops=ops, tensors=tensors)


def _masks(graph: Graph, storages: Collection[str]) -> Graph:
    """Swap ReLU for its mask-producing form where the mask is all that backward would read of its output."""
    tensors, masked = dict(graph.tensors), {}
    for source in _mask_sources(graph):
        if tensors[source].storage in storages:
            name, shape = f"{source}:mask", tensors[source].shape
            tensors[name] = Tensor(name, shape, "bit", Role.ACTIVATION, name, contiguous(shape))
            masked[source] = name

    def swapped(op: Op) -> Op:
        if op.kind == "relu" and op.outputs[0] in masked:
            return replace(op, kind="relu_masked", outputs=(op.outputs[0], masked[op.outputs[0]]))
        if op.kind == "relu_gradient" and op.inputs[1] in masked:
            inputs = (op.inputs[0], masked[op.inputs[1]])
            return replace(op, kind="mask", inputs=inputs, attrs=Attributes({"keep": True}))
        return op

    return replace(graph, ops=tuple(map(swapped, graph.ops)), tensors=tensors)
