"""The compact saving policy: what an accelerator would keep instead of what the framework keeps.

One bit per element instead of a ReLU's output where nothing else needs that output; the winning tap (one byte) instead
of a 64-bit position for max-pooling; one-bit dropout masks; nothing kept that is never read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

from monet.graph import Attributes, Graph, Op, Phase, Role, Tensor
from monet.graph.kind import kind_named
from monet.graph.operators.pooling import TAP_INDEX
from monet.graph.tensor import contiguous


def compact_saved(graph: Graph) -> Graph:
    """A training step with the same gradients that keeps fewer bytes from forward to backward."""
    return _masks(_narrow_indices(_drop_unread(graph)))


def _drop_unread(graph: Graph) -> Graph:
    def trimmed(op: Op) -> Op:
        retained = kind_named(op.kind).retained
        return replace(op, inputs=tuple(n for i, n in enumerate(op.inputs) if i not in retained)) if retained else op

    return replace(graph, ops=tuple(map(trimmed, graph.ops)))


def _narrow_indices(graph: Graph) -> Graph:
    tensors = dict(graph.tensors)

    def narrowed(op: Op) -> Op:
        if op.kind == "dropout":
            tensors[op.outputs[1]] = replace(tensors[op.outputs[1]], dtype="bit")
            return replace(op, attrs=Attributes({**op.attrs, "mask_dtype": "bit"}))
        if op.kind in ("max_pool", "max_pool_gradient") and math.prod(op.attrs["kernel"]) <= 256:
            if op.kind == "max_pool":
                tensors[op.outputs[1]] = replace(tensors[op.outputs[1]], dtype=TAP_INDEX)
            return replace(op, attrs=Attributes({**op.attrs, "index_dtype": TAP_INDEX}))
        return op

    ops = tuple(map(narrowed, graph.ops))
    return replace(graph, ops=ops, tensors=tensors)


def _masks(graph: Graph) -> Graph:
    """Swap ReLU for its mask-producing form where the mask is all that backward would read of its output."""
    readers: dict[str, set[str]] = defaultdict(set)
    for op in graph.ops:
        if op.phase is Phase.BACKWARD:
            for name in op.inputs:
                readers[graph.tensors[name].storage].add(op.kind)
    tensors, masked = dict(graph.tensors), {}
    for op in graph.ops:
        storage = graph.tensors[op.outputs[0]].storage
        if op.kind == "relu" and readers[storage] == {"relu_gradient"}:
            name = f"{op.outputs[0]}:mask"
            shape = tensors[op.outputs[0]].shape
            tensors[name] = Tensor(name, shape, "bit", Role.ACTIVATION, name, contiguous(shape))
            masked[op.outputs[0]] = name

    def swapped(op: Op) -> Op:
        if op.kind == "relu" and op.outputs[0] in masked:
            return replace(op, kind="relu_masked", outputs=(op.outputs[0], masked[op.outputs[0]]))
        if op.kind == "relu_gradient" and op.inputs[1] in masked:
            inputs = (op.inputs[0], masked[op.inputs[1]])
            return replace(op, kind="mask", inputs=inputs, attrs=Attributes({"keep": True}))
        return op

    return replace(graph, ops=tuple(map(swapped, graph.ops)), tensors=tensors)
