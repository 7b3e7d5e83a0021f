"""Writes at looked-up positions: scatters, index_add and its kin, assignment to indexed elements."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.operators.indexing import joined
from monet.frontends.torch.translation import RULES, Ref, Translation, Unsupported, aten


def _source(t: Translation, a: Any, source: Any) -> Ref:
    """What is written, cut to the positions; a number is broadcast."""
    shape = t.shape(a.index)
    if not isinstance(source, Ref):
        return t.expand(t.fill(source, (), t.out_dtype), shape)
    for axis, size in enumerate(shape):
        source = t.slice(source, axis, 0, size)
    return t.cast(source, t.out_dtype)


def _index_of_slices(t: Translation, a: Any, axis: int) -> Ref | None:
    """One position per slice, where the positions are such a list spread over the other axes, as for graphs."""
    spread, shape = t.source(a.index), t.shape(a.index)
    if spread is None or spread.kind != "expand" or spread.outputs[0] != a.index:
        return None
    if any(size != t.shape(a.self)[other] for other, size in enumerate(shape) if other != axis):
        return None
    inner = t.shape(spread.inputs[0])
    inner = (*([1] * (len(shape) - len(inner))), *inner)
    return t.reshape(spread.inputs[0], (shape[axis],)) if math.prod(inner) == inner[axis] == shape[axis] else None


def _scatter(t: Translation, a: Any, kind: str, source: Any, x: str = "") -> Ref:
    axis, written = t.axis(a.self, a.dim), _source(t, a, source)
    index = _index_of_slices(t, a, axis)
    if index is None:
        return t.emit(kind, x or a.self, a.index, written, axis=axis)
    return t.emit("index_add" if kind == "scatter_add" else "index_copy", x or a.self, index, written, axis=axis)


RULES.rows(
    {
        "scatter.src": lambda t, a: _scatter(t, a, "scatter", a.src),
        "scatter.value": lambda t, a: _scatter(t, a, "scatter", a.value),
        "scatter_add.default": lambda t, a: _scatter(t, a, "scatter_add", a.src),
        "index_copy.default": lambda t, a: t.emit("index_copy", a.self, a.index, a.source, axis=t.axis(a.self, a.dim)),
    }
)


@aten("scatter_reduce.two", "scatter.reduce")
def _scatter_reduce(t: Translation, a: Any) -> Ref:
    """Sums; where what was there does not count, it is cleared first."""
    if a.reduce not in ("sum", "add"):
        raise Unsupported(f"reduction {a.reduce}")
    x = a.self if getattr(a, "include_self", True) else _scatter(t, a, "scatter", 0)
    return _scatter(t, a, "scatter_add", a.src, x)


# --- whole slices of one axis ---------------------------------------------------------------------------------------


@aten("index_add.default")
def _index_add(t: Translation, a: Any) -> Ref:
    source = t.scale(t.cast(a.source, t.out_dtype), a.alpha)
    return t.emit("index_add", a.self, a.index, source, axis=t.axis(a.self, a.dim))


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(t: Translation, a: Any) -> Ref:
    axis, shape = t.axis(a.self, a.dim), list(t.shape(a.self))
    shape[axis] = math.prod(t.shape(a.index))
    return t.emit("index_copy", a.self, a.index, t.expand(t.operand(a.value, t.out_dtype), shape), axis=axis)


@aten("index_put.default")
def _index_put(t: Translation, a: Any) -> Ref:
    """``x[rows] = values``; by booleans only where one value is given for all of them."""
    first, values = a.indices[0], t.cast(a.values, t.out_dtype)
    if first is not None and t.tensor(first).dtype == "bool" and len(a.indices) == 1 and not a.accumulate:
        if math.prod(t.shape(values)) != 1:
            raise Unsupported("booleans with more than one value")
        mask = t.reshape(first, (*t.shape(first), *([1] * (t.rank(a.self) - t.rank(first)))))
        return t.emit("where", mask, t.reshape(values, ()), a.self)
    x, index, axis = joined(t, a.self, a.indices)
    shape = t.shape(x)
    written = t.expand(values, (*shape[:axis], *t.shape(index), *shape[axis + 1 :]))
    count = math.prod(t.shape(index))
    written = t.reshape(written, (*shape[:axis], count, *shape[axis + 1 :]))
    kind = "index_add" if a.accumulate else "index_copy"
    return t.reshape(t.emit(kind, x, t.reshape(index, (count,)), written, axis=axis), t.shape(a.self))
