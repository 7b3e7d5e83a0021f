"""Table look-ups: embeddings and gathers, with their scatter-add gradients."""

from __future__ import annotations

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.graph.backward import Backward
from monet.graph.kind import BACKWARD, Array, Call, Family, OpKind, Output, of_given_shape, pointwise, reduces, register
from monet.graph.loop_nest import Index, LoopNest, Picks
from monet.graph.op import Attributes
from monet.graph.operators.nests import axes_of, axis_names, axis_size, over
from monet.graph.operators.reduction import normalise_axes
from monet.graph.tensor import Tensor


def _infer_embedding(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    table, rows = inputs
    if len(table.shape) != 2 or not FORMATS[rows.dtype].may_index:
        raise ModelError(f"an embedding needs a table of two axes and integer rows, got {table} and {rows}")
    return (Output((*rows.shape, table.shape[1]), table.dtype),)


def _nest_gather(call: Call, backward: bool = False) -> LoopNest:
    """One point per element moved; the looked-up position is data, so the table's axis is indexed by nothing. Of the
    table only rows that are looked up are read; its gradient is written as a whole, zeros included."""
    moved, table = (call.inputs[0], call.out) if backward else (call.out, call.inputs[0])
    span, every = len(call.inputs[1].shape), axes_of(range(len(moved.shape)))
    (axis,) = normalise_axes((call.attrs.get("axis", 0),), len(table.shape))
    looked_up, where = (*every[:axis], Index(()), *every[axis + span :]), every[axis : axis + span]
    if backward:
        return over(moved.shape, call, [every, where, looked_up])
    picks = Picks(axis, axis_names(len(moved.shape))[axis : axis + span])
    return over(moved.shape, call, [looked_up, where, every], {0: picks})


def _embedding_rule(b: Backward) -> tuple[str | None, ...]:
    if not b.needs[0]:
        return None, None
    return b.emit("embedding_gradient", b.gradient, b.inputs[1], rows=b.shape(0)[0], **b.attrs), None


def _infer_embedding_gradient(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    g, _ = inputs
    return (Output((attrs["rows"], g.shape[-1]), g.dtype),)


def _evaluate_embedding_gradient(attrs: Attributes, g: Array, rows: Array) -> Array:
    out = np.zeros((attrs["rows"], g.shape[-1]), g.dtype)
    np.add.at(out, rows.ravel(), g.reshape(-1, g.shape[-1]))
    if "padding" in attrs:  # the row that pads sequences is not trained
        out[attrs["padding"]] = 0
    return out


# --- gather along an axis -------------------------------------------------------------------------------------------


def _infer_gather(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, positions = inputs
    (axis,) = normalise_axes((attrs["axis"],), len(x.shape))
    return (Output((*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :]), x.dtype),)


def _gather_rule(b: Backward) -> tuple[str | None, ...]:
    if not b.needs[0]:
        return None, None
    (axis,) = normalise_axes((b.attrs["axis"],), len(b.shape(0)))
    return b.emit("gather_gradient", b.gradient, b.inputs[1], axis=axis, shape=b.shape(0)), None


def _evaluate_gather_gradient(attrs: Attributes, g: Array, positions: Array) -> Array:
    axis, shape = attrs["axis"], attrs["shape"]
    out = np.zeros((shape[axis], *shape[:axis], *shape[axis + 1 :]), g.dtype)
    lead = tuple(range(axis, axis + positions.ndim))
    moved = np.moveaxis(g, lead, tuple(range(positions.ndim)))
    np.add.at(out, positions.ravel(), moved.reshape(positions.size, *out.shape[1:]))
    return np.moveaxis(out, 0, axis)


# --- gather_elements: out[i, j] = x[i, positions[i, j]] ---------------------------------------------------------------


def _infer_gather_elements(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, positions = inputs
    normalise_axes((attrs["axis"],), len(x.shape))
    return (Output(positions.shape, x.dtype),)


def _nest_by_position(call: Call) -> LoopNest:
    positions = call.inputs[1]
    every = axes_of(range(len(positions.shape)))
    (axis,) = normalise_axes((call.attrs["axis"],), len(every))
    looked_up = (*every[:axis], Index(()), *every[axis + 1 :])
    gradient = call.out.shape != positions.shape or call.inputs[0].shape == positions.shape
    maps = [every, every, looked_up] if gradient else [looked_up, every, every]
    kept = [None] * (len(call.inputs) - 2)  # what the framework holds on to, unread
    picks = {} if gradient else {0: Picks(axis, (f"A{axis}",))}
    return over(positions.shape, call, [*maps[:2], *kept, maps[2]], picks)


def _gather_elements_rule(b: Backward) -> tuple[str | None, ...]:
    """``keeps_input``: the framework's own gather holds on to its input; a maximum by position does not."""
    if not b.needs[0]:
        return None, None
    kept = b.inputs[:1] if b.attrs.get("keeps_input") else ()
    attrs = {"axis": b.attrs["axis"], "shape": b.shape(0)}
    return b.emit("gather_elements_gradient", b.gradient, b.inputs[1], *kept, **attrs), None


def elements_at(positions: Array, axis: int) -> tuple[Array, ...]:
    """Index of single elements: their own place, but for ``axis``."""
    grid: list[Array] = list(np.indices(positions.shape))
    grid[axis] = positions
    return tuple(grid)


def _evaluate_gather_elements_gradient(attrs: Attributes, g: Array, positions: Array, *_: Array) -> Array:
    out = np.zeros(attrs["shape"], g.dtype)
    np.add.at(out, elements_at(positions, attrs["axis"]), g)
    return out


def _adds(call: Call) -> dict[str, int]:
    return {"add": call.inputs[0].elements}


register(
    OpKind(
        "embedding", Family.MOVE, _infer_embedding, lambda _, table, rows: table[rows], _nest_gather, pointwise,
        gradient=_embedding_rule, onnx=("Gather",), positions=lambda call: call.inputs[0].shape[0],
    ),
    OpKind(
        "embedding_gradient", Family.VECTOR, _infer_embedding_gradient, _evaluate_embedding_gradient,
        lambda call: _nest_gather(call, True), reduces, _adds, no_onnx=BACKWARD,
    ),
    OpKind(
        "gather", Family.MOVE, _infer_gather, lambda attrs, x, positions: np.take(x, positions, axis=attrs["axis"]),
        _nest_gather, pointwise, gradient=_gather_rule, onnx=("Gather",), positions=axis_size,
    ),
    OpKind(
        "gather_gradient", Family.VECTOR, of_given_shape, _evaluate_gather_gradient,
        lambda call: _nest_gather(call, True), reduces, _adds, no_onnx=BACKWARD,
    ),
    OpKind(
        "gather_elements", Family.MOVE, _infer_gather_elements,
        lambda attrs, x, positions: np.take_along_axis(x, positions, axis=attrs["axis"]), _nest_by_position, pointwise,
        gradient=_gather_elements_rule, onnx=("GatherElements",), positions=axis_size,
    ),
    OpKind(
        "gather_elements_gradient", Family.VECTOR, of_given_shape, _evaluate_gather_elements_gradient,
        _nest_by_position, reduces, _adds, no_onnx=BACKWARD, retained=(2,),
    ),
)  # fmt: skip
