"""Look-ups: embeddings, gathers and indexing by tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from monet.frontends.torch.translation import Ref, Translation, Unsupported, aten


@aten("embedding.default")
def _embedding(t: Translation, a: Any) -> Ref:
    if a.scale_grad_by_freq:
        raise Unsupported("gradients scaled by frequency")
    padding = {"padding": a.padding_idx % t.shape(a.weight)[0]} if a.padding_idx >= 0 else {}
    return t.emit("embedding", a.weight, a.indices, **padding)


_BAG_REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max")


@aten("embedding_bag.padding_idx", "embedding_bag.default")
def _embedding_bag(t: Translation, a: Any) -> tuple[Ref | None, ...]:
    """Bags of one size each: rows looked up, weighted and reduced. The other results are for the framework's use."""
    rows, bags = t.shape(a.indices)[0], t.out_shape[0]
    if a.scale_grad_by_freq or getattr(a, "padding_idx", None) is not None:
        raise Unsupported("padding, or gradients scaled by frequency")
    if rows % bags or not _counts_by(t, a.offsets, rows // bags):
        raise Unsupported("bags that may differ in size")
    looked_up = t.reshape(t.emit("embedding", a.weight, a.indices), (bags, rows // bags, t.out_shape[1]))
    if a.per_sample_weights is not None:
        looked_up = t.emit("mul", looked_up, t.reshape(a.per_sample_weights, (bags, rows // bags, 1)))
    return t.emit(_BAG_REDUCTIONS[a.mode], looked_up, axes=(1,), keepdims=False), None, None, None


def _counts_by(t: Translation, x: str, step: int) -> bool:
    """Whether ``x`` is 0, step, 2·step, …, known without running the model."""
    source, value = t.source(x), t.builder.values.get(x)
    if source is not None and source.kind == "iota":
        return source.attrs.get("start", 0) == 0 and (source.attrs.get("step", 1) == step or t.shape(x) == (1,))
    return value is not None and value.tolist() == [step * place for place in range(value.size)]


@aten("index_select.default")
def _index_select(t: Translation, a: Any) -> Ref:
    return t.emit("gather", a.self, a.index, axis=t.axis(a.self, a.dim))


@aten("gather.default", "take_along_dim.default")
def _gather(t: Translation, a: Any) -> Ref:
    index = a.index if hasattr(a, "index") else a.indices
    axis = t.axis(a.self, a.dim)
    x = a.self
    for other, (size, wanted) in enumerate(zip(t.shape(x), t.shape(index), strict=True)):
        if other != axis and wanted < size:
            x = t.slice(x, other, 0, wanted)
    return t.emit("gather_elements", x, index, axis=axis, keeps_input=True)


@aten("index.Tensor")
def _index(t: Translation, a: Any) -> Ref:
    """Indexing by integer tensors; booleans change shapes with data."""
    x, index, axis = joined(t, a.self, a.indices)
    return t.emit("gather", x, index, axis=axis)


def joined(t: Translation, x: str, indices: Sequence[Any]) -> tuple[Ref, Ref, int]:
    """``x`` with the indexed axes, which have to be neighbours, joined into one; the positions on it; that axis."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if any(t.tensor(index).dtype == "bool" for _, index in given):
        raise Unsupported("booleans, whose result has no fixed shape")
    axes = [axis for axis, _ in given]
    if axes != list(range(axes[0], axes[-1] + 1)):
        raise Unsupported("index tensors on axes that are not neighbours")
    shape, first = t.shape(x), axes[0]
    joint = _positive(t, given[0][1], shape[first])
    for axis, index in given[1:]:
        joint = t.emit("add", t.emit("scale", joint, factor=shape[axis]), _positive(t, index, shape[axis]))
    merged = math.prod(shape[axis] for axis in axes)
    return t.reshape(x, (*shape[:first], merged, *shape[axes[-1] + 1 :])), joint, first


def _positive(t: Translation, index: str, size: int) -> Ref:
    """Constant indices counted from the back are counted from the front; others are taken as they are."""
    value = t.builder.values.get(index)
    if value is None or (value >= 0).all():
        return t.cast(index, "int64")
    return Ref(t.builder.constant("rows", value % size, "int64"))


@aten("one_hot.default")
def _one_hot(t: Translation, a: Any) -> Ref:
    classes = t.out_shape[-1]
    rows = t.reshape(a.self, (*t.shape(a.self), 1))
    return t.cast(t.emit("equal", rows, t.emit("iota", size=classes, dtype="int64")), t.out_dtype)
