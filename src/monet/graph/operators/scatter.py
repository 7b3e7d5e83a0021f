"""Writes at looked-up positions: whole slices (index_*) or single elements (scatter*), stored or added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.graph.backward import Backward
from monet.graph.kind import Array, Call, Family, OpKind, Output, displaced, no_work, register
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Attributes
from monet.graph.operators.gather import elements_at
from monet.graph.operators.nests import axes_of, axis_size, over
from monet.graph.operators.reduction import normalise_axes
from monet.graph.tensor import Tensor

STORES = ("index_copy", "scatter")
BY_ELEMENT = ("scatter", "scatter_add")


def _axis(attrs: Attributes, rank: int) -> int:
    return normalise_axes((attrs["axis"],), rank)[0]


def _infer_index(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, positions, source = inputs
    axis = _axis(attrs, len(x.shape))
    wanted = (*x.shape[:axis], positions.elements, *x.shape[axis + 1 :])
    if len(positions.shape) != 1 or not FORMATS[positions.dtype].may_index or source.shape != wanted:
        raise ModelError(f"cannot write {source} at positions {positions} on axis {axis} of {x}")
    return (Output(x.shape, x.dtype),)


def _infer_scatter(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, positions, source = inputs
    axis, fits = _axis(attrs, len(x.shape)), len(x.shape) == len(positions.shape)
    fits = fits and all(p <= n for a, (p, n) in enumerate(zip(positions.shape, x.shape, strict=True)) if a != axis)
    if not fits or not FORMATS[positions.dtype].may_index or source.shape != positions.shape:
        raise ModelError(f"cannot scatter {source} to positions {positions} on axis {axis} of {x}")
    return (Output(x.shape, x.dtype),)


def _writer(kind: str) -> Callable[..., Array]:
    def evaluate(attrs: Attributes, x: Array, positions: Array, source: Array) -> Array:
        out, axis = x.copy(), _axis(attrs, x.ndim)
        where: Any = elements_at(positions, axis) if kind in BY_ELEMENT else (*([slice(None)] * axis), positions)
        if kind in STORES:
            out[where] = source
        else:
            np.add.at(out, where, source)
        return out

    return evaluate


def _nest(call: Call) -> LoopNest:
    """All of ``x`` and of the source pass once, whichever is longer; where each element lands is data."""
    x, positions, source = call.inputs
    shape = tuple(max(sizes) for sizes in zip(x.shape, source.shape, strict=True))
    every = axes_of(range(len(shape)))
    where = every if len(positions.shape) == len(shape) else (every[_axis(call.attrs, len(shape))],)
    return over(shape, call, [every, where, every, every])


def _read_back(b: Backward) -> str:
    """What the output's gradient holds where the source was written."""
    axis, (_, positions, _) = _axis(b.attrs, len(b.shape(0))), b.inputs
    if b.op.kind not in BY_ELEMENT:
        return b.emit("gather", b.gradient, positions, axis=axis)
    g, shape = b.gradient, b.shape(1)
    cut = tuple(a for a, size in enumerate(b.shape(0)) if a != axis and shape[a] < size)
    if cut:
        stops = tuple(shape[a] for a in cut)
        g = b.emit("slice", g, axes=cut, starts=(0,) * len(cut), stops=stops, steps=(1,) * len(cut))
    return b.emit("gather_elements", g, positions, axis=axis)


def _rule(b: Backward) -> tuple[str | None, ...]:
    """What is overwritten gets no gradient: zeros are stored there."""
    kept = b.gradient if b.needs[0] else None
    if kept and b.op.kind in STORES:
        zero = b.emit("fill", shape=(), value=0.0, dtype=b.tensor(b.gradient).dtype)
        zeros = b.emit("expand", zero, shape=b.shape(2))
        kept = b.emit(b.op.kind, b.gradient, b.inputs[1], zeros, axis=b.attrs["axis"])
    return kept, None, _read_back(b) if b.needs[2] else None


for _kind, _infer, _onnx, _why in (
    ("index_copy", _infer_index, (), "files write whole slices element by element"),
    ("index_add", _infer_index, (), "files add whole slices element by element"),
    ("scatter", _infer_scatter, ("ScatterElements", "Scatter"), ""),
    ("scatter_add", _infer_scatter, ("ScatterElements",), ""),
):
    _stores = _kind in STORES
    register(
        OpKind(
            _kind, Family.MOVE if _stores else Family.VECTOR, _infer, _writer(_kind), _nest, displaced,
            no_work if _stores else lambda call: {"add": call.inputs[2].elements}, _rule, _onnx, _why,
            positions=axis_size,
        )
    )  # fmt: skip
