"""Writes at looked-up positions: whole slices (index_*) or single elements (scatter*), stored or added."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.graph.backward import Backward
from monet.graph.kind import Array, Call, Family, OpKind, Output, displaced, no_work, register
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Attributes
from monet.graph.operators.nests import axes_of, axis_size, over
from monet.graph.operators.reduction import normalise_axes
from monet.graph.tensor import Tensor


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


def _slices(attrs: Attributes, positions: Array, rank: int) -> Any:
    return (*([slice(None)] * _axis(attrs, rank)), positions)


def _elements(attrs: Attributes, positions: Array, rank: int) -> Any:
    grid: list[Array] = list(np.indices(positions.shape))
    grid[_axis(attrs, rank)] = positions
    return tuple(grid)


def _evaluate_index_copy(attrs: Attributes, x: Array, positions: Array, source: Array) -> Array:
    out = x.copy()
    out[_slices(attrs, positions, x.ndim)] = source
    return out


def _evaluate_index_add(attrs: Attributes, x: Array, positions: Array, source: Array) -> Array:
    out = x.copy()
    np.add.at(out, _slices(attrs, positions, x.ndim), source)
    return out


def _evaluate_scatter(attrs: Attributes, x: Array, positions: Array, source: Array) -> Array:
    out = x.copy()
    out[_elements(attrs, positions, x.ndim)] = source
    return out


def _evaluate_scatter_add(attrs: Attributes, x: Array, positions: Array, source: Array) -> Array:
    out = x.copy()
    np.add.at(out, _elements(attrs, positions, x.ndim), source)
    return out


def _nest(call: Call) -> LoopNest:
    """All of ``x`` and of the source pass once, whichever is longer; where each element lands is data."""
    x, positions, source = call.inputs
    shape = tuple(max(sizes) for sizes in zip(x.shape, source.shape, strict=True))
    every = axes_of(range(len(shape)))
    where = every if len(positions.shape) == len(shape) else (every[_axis(call.attrs, len(shape))],)
    return over(shape, call, [every, where, every, every])


def _read_back(b: Backward, by_element: bool) -> str:
    """What the output's gradient holds where the source was written."""
    axis, (_, positions, _) = _axis(b.attrs, len(b.shape(0))), b.inputs
    if not by_element:
        return b.emit("gather", b.gradient, positions, axis=axis)
    g, shape = b.gradient, b.shape(1)
    cut = tuple(a for a, size in enumerate(b.shape(0)) if a != axis and shape[a] < size)
    if cut:
        stops = tuple(shape[a] for a in cut)
        g = b.emit("slice", g, axes=cut, starts=(0,) * len(cut), stops=stops, steps=(1,) * len(cut))
    return b.emit("gather_elements", g, positions, axis=axis)


def _store_rule(b: Backward) -> tuple[str | None, ...]:
    """What is overwritten gets no gradient: zeros are stored there."""
    by_element, kept = b.op.kind == "scatter", None
    if b.needs[0]:
        zero = b.emit("fill", shape=(), value=0.0, dtype=b.tensor(b.gradient).dtype)
        zeros = b.emit("expand", zero, shape=b.shape(2))
        kept = b.emit(b.op.kind, b.gradient, b.inputs[1], zeros, axis=b.attrs["axis"])
    return kept, None, _read_back(b, by_element) if b.needs[2] else None


def _add_rule(b: Backward) -> tuple[str | None, ...]:
    kept = b.gradient if b.needs[0] else None
    return kept, None, _read_back(b, b.op.kind == "scatter_add") if b.needs[2] else None


for _kind, _infer, _evaluate, _onnx, _why in (
    ("index_copy", _infer_index, _evaluate_index_copy, (), "files write whole slices element by element"),
    ("index_add", _infer_index, _evaluate_index_add, (), "files add whole slices element by element"),
    ("scatter", _infer_scatter, _evaluate_scatter, ("ScatterElements", "Scatter"), ""),
    ("scatter_add", _infer_scatter, _evaluate_scatter_add, ("ScatterElements",), ""),
):
    _stores = _kind in ("index_copy", "scatter")
    register(
        OpKind(
            _kind, Family.MOVE if _stores else Family.VECTOR, _infer, _evaluate, _nest, displaced,
            no_work if _stores else lambda call: {"add": call.inputs[2].elements},
            _store_rule if _stores else _add_rule, _onnx, _why, positions=axis_size,
        )
    )  # fmt: skip
