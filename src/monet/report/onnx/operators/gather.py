"""Look-ups and their scatter-add gradients."""

from __future__ import annotations

import math

import numpy as np

from monet.graph.operators.reduction import normalise_axes
from monet.report.onnx.body import Body, Value
from monet.report.onnx.table import WRITERS, writes


def _positions(value: Value) -> Value:
    """Indices in a type that look-ups accept."""
    return value if value.dtype in ("int32", "int64") else value.cast("int64")


def _look_up(b: Body, op_type: str, axis: int) -> Value:
    x, positions = b.raw
    return b.node(op_type, x, _positions(positions), axis=axis)


WRITERS.rows(
    {
        "embedding": lambda b: _look_up(b, "Gather", 0),
        "gather": lambda b: _look_up(b, "Gather", b.call.attrs["axis"]),
        "gather_elements": lambda b: _look_up(b, "GatherElements", b.call.attrs["axis"]),
    }
)


@writes("embedding_gradient")
def _embedding_gradient(b: Body) -> Value:
    g, index = b.inputs
    return b.scatter_rows(b.call.attrs["rows"], index.cast("int64"), g, b.call.out.shape[1:])


@writes("gather_gradient")
def _gather_gradient(b: Body) -> Value:
    """Looked-up axes first, added row by row, the gathered axis put back in its place."""
    g, positions = b.inputs
    shape, rank = b.call.out.shape, len(b.shape(0))
    (axis,), span = normalise_axes((b.call.attrs["axis"],), len(shape)), len(b.shape(1))
    looked_up = tuple(range(axis, axis + span))
    order = (*looked_up, *(other for other in range(rank) if other not in looked_up))
    rest = (*shape[:axis], *shape[axis + 1 :])
    flat = g.transpose(order).reshape((math.prod(b.shape(1)), *rest))
    out = b.scatter_rows(shape[axis], positions.cast("int64").reshape((-1,)), flat, rest)
    back = np.argsort((axis, *(other for other in range(len(shape)) if other != axis)))
    return out.transpose([int(place) for place in back])


@writes("gather_elements_gradient")
def _gather_elements_gradient(b: Body) -> Value:
    g, positions = b.inputs[:2]
    zeros = b.full(b.call.out.shape, 0, g.dtype)
    axis = b.call.attrs["axis"]
    return b.node("ScatterElements", zeros, positions.cast("int64"), g, axis=axis, reduction="add")
