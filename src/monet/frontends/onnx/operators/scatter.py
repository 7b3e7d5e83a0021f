"""Writes at looked-up positions, stored or added."""

from __future__ import annotations

import math

import numpy as np

from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Known
from monet.frontends.onnx.operators.gather import merged
from monet.frontends.onnx.translation import Translation, Unsupported, reads


def _kind(node: Node, store: str, add: str) -> str:
    reduction = node.get("reduction", "none")
    if reduction not in ("none", "add"):
        raise Unsupported(f"reduction {reduction}")
    return add if reduction == "add" else store


@reads("ScatterElements", "Scatter")
def _scatter_elements(t: Translation, node: Node) -> str:
    x, positions, source = t.tensor(node, 0), t.operand(node, 1), t.tensor(node, 2)
    axis = node.get("axis", 0) % len(t.shape(x))
    if isinstance(positions, Known):
        array = np.where(positions.array < 0, positions.array + t.shape(x)[axis], positions.array)
        positions = Known(array.astype(np.int64), positions.name)
    index = t.make(positions) if positions is not None else ""
    return t.emit(node, _kind(node, "scatter", "scatter_add"), x, index, source, axis=axis)


@reads("ScatterND")
def _scatter_nd(t: Translation, node: Node) -> str:
    """The leading axes are addressed together: merge them, and write whole rows of what follows."""
    x, index = merged(t, node)
    count = math.prod(t.shape(index))
    source = t.reshape(node, t.tensor(node, 2), (count, *t.shape(x)[1:]))
    kind = _kind(node, "index_copy", "index_add")
    out = t.emit(node, kind, x, t.reshape(node, index, (count,)), source, axis=0)
    return t.reshape(node, out, t.shape(t.tensor(node, 0)))
