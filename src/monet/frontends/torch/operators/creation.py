"""Tensors made at run time: filled, counted, masked. Emitted, since the framework makes them anew each step."""

from __future__ import annotations

import math
from typing import Any

from monet.formats import FORMATS
from monet.frontends.torch.translation import RULES, Ref, Translation, aten

RULES.rows(
    {
        "zeros.default zeros_like.default new_zeros.default": lambda t, a: t.fill(0, t.out_shape, t.out_dtype),
        "ones.default ones_like.default new_ones.default": lambda t, a: t.fill(1, t.out_shape, t.out_dtype),
        # whatever is in an empty tensor is overwritten; zeros are as good as anything
        "empty.memory_format empty_like.default new_empty.default": lambda t, a: t.fill(0, t.out_shape, t.out_dtype),
        "scalar_tensor.default": lambda t, a: t.fill(a.s, (), t.out_dtype),
        "copy.default": lambda t, a: t.emit("copy", t.expand(t.cast(a.src, t.out_dtype), t.out_shape)),
        "tril.default": lambda t, a: _triangle(t, a, lower=True),
        "triu.default": lambda t, a: _triangle(t, a, lower=False),
        # random: the values differ from the framework's, the work and the bytes do not
        "randn.default randn_like.default": lambda t, a: _random(t, "normal"),
        "rand.default rand_like.default": lambda t, a: _random(t, "uniform"),
        "bernoulli.p bernoulli.float": lambda t, a: _random(t, "bernoulli", a.p),
    }
)


@aten("full.default", "full_like.default", "new_full.default")
def _full(t: Translation, a: Any) -> Ref:
    if isinstance(a.fill_value, Ref):
        return t.expand(t.cast(a.fill_value, t.out_dtype), t.out_shape)
    return t.fill(a.fill_value, t.out_shape, t.out_dtype)


@aten("fill.Scalar", "fill.Tensor", "zero.default")
def _fill(t: Translation, a: Any) -> Ref:
    value = getattr(a, "value", 0)
    if isinstance(value, Ref):
        return t.emit("copy", t.expand(t.cast(value, t.out_dtype), t.out_shape))
    return t.fill(value, t.out_shape, t.out_dtype)


@aten("arange.default", "arange.start", "arange.start_step")
def _arange(t: Translation, a: Any) -> Ref:
    start, step = getattr(a, "start", 0), getattr(a, "step", 1)
    return t.emit("iota", size=t.out_shape[0], dtype=t.out_dtype, start=start, step=step)


@aten("linspace.default")
def _linspace(t: Translation, a: Any) -> Ref:
    step = (a.end - a.start) / max(1, a.steps - 1)
    return t.emit("iota", size=a.steps, dtype=t.out_dtype, start=a.start, step=step)


@aten("eye.default", "eye.m")
def _eye(t: Translation, a: Any) -> Ref:
    rows, columns = t.out_shape
    row, column = _row_and_column(t, rows, columns)
    return t.cast(t.emit("equal", row, column), t.out_dtype)


def _row_and_column(t: Translation, rows: int, columns: int) -> tuple[Ref, Ref]:
    row = t.reshape(t.emit("iota", size=rows, dtype="int64"), (rows, 1))
    return row, t.emit("iota", size=columns, dtype="int64")


def beyond_diagonal(t: Translation, rows: int, columns: int, diagonal: int, above: bool) -> Ref:
    """Booleans, true strictly above (or below) a diagonal of a matrix."""
    if above and diagonal == columns - rows:
        return t.emit("causal_mask", rows=rows, columns=columns)
    row, column = _row_and_column(t, rows, columns)
    edge = t.emit("shift", row, offset=diagonal) if diagonal else row
    return t.emit("greater", column, edge) if above else t.emit("less", column, edge)


def _triangle(t: Translation, a: Any, lower: bool) -> Ref:
    rows, columns = t.out_shape[-2:]
    mask = beyond_diagonal(t, rows, columns, a.diagonal, above=lower)
    if t.out_dtype == "bool":
        return t.emit("logical_and", a.self, t.emit("logical_not", mask))
    value: float = 0.0 if FORMATS[t.out_dtype].is_float else 0
    return t.emit("masked_fill", a.self, mask, value=value)


@aten("meshgrid.default", "meshgrid.indexing")
def _meshgrid(t: Translation, a: Any) -> tuple[Ref, ...]:
    swapped = getattr(a, "indexing", "ij") == "xy" and len(a.tensors) > 1
    count, result = len(a.tensors), []
    for position, x in enumerate(a.tensors):
        axis = {0: 1, 1: 0}.get(position, position) if swapped else position
        shape = [1] * count
        shape[axis] = math.prod(t.shape(x))
        result.append(t.expand(t.reshape(x, shape), t.out_shape))
    return tuple(result)


def _random(t: Translation, distribution: str, probability: float = 0.5) -> Ref:
    return t.emit(
        "random", shape=t.out_shape, dtype=t.out_dtype, distribution=distribution, probability=float(probability),
        seed=len(t.builder.ops),
    )  # fmt: skip
