"""Reductions, softmax, cumulative sums and norms over axes."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.operators.elementwise import truth
from monet.frontends.torch.translation import Ref, Translation, Unsupported, aten


def _count(t: Translation, x: str, axes: tuple[int, ...]) -> int:
    return math.prod(t.shape(x)[axis] for axis in axes)


def _dims(a: Any) -> Any:
    return getattr(a, "dim", None)


@aten("sum.default", "sum.dim_IntList")
def _sum(t: Translation, a: Any) -> Ref:
    x = t.cast(a.self, t.out_dtype)
    return t.reduce("reduce_sum", x, t.axes(x, _dims(a)), getattr(a, "keepdim", False))


@aten("mean.default", "mean.dim")
def _mean(t: Translation, a: Any) -> Ref:
    x = t.cast(a.self, t.out_dtype)
    return t.reduce("reduce_mean", x, t.axes(x, _dims(a)), getattr(a, "keepdim", False))


@aten("amax.default", "max.default")
def _amax(t: Translation, a: Any) -> Ref:
    return t.reduce("reduce_max", a.self, t.axes(a.self, _dims(a)), getattr(a, "keepdim", False))


@aten("amin.default", "min.default")
def _amin(t: Translation, a: Any) -> Ref:
    return t.reduce("reduce_min", a.self, t.axes(a.self, _dims(a)), getattr(a, "keepdim", False))


@aten("any.default", "any.dim")
def _any(t: Translation, a: Any) -> Ref:
    return t.reduce("reduce_max", truth(t, a.self), t.axes(a.self, _dims(a)), getattr(a, "keepdim", False))


@aten("all.default", "all.dim")
def _all(t: Translation, a: Any) -> Ref:
    return t.reduce("reduce_min", truth(t, a.self), t.axes(a.self, _dims(a)), getattr(a, "keepdim", False))


def _place_of_largest(t: Translation, a: Any, x: str) -> Ref:
    if a.dim is None:
        flat = t.reshape(x, (math.prod(t.shape(x)),))
        return t.reshape(t.emit("argmax", flat, axes=(0,), keepdims=False), t.out_shape)
    return t.emit("argmax", x, axes=(t.axis(x, a.dim),), keepdims=a.keepdim)


@aten("argmax.default")
def _argmax(t: Translation, a: Any) -> Ref:
    return _place_of_largest(t, a, a.self)


@aten("argmin.default")
def _argmin(t: Translation, a: Any) -> Ref:
    return _place_of_largest(t, a, t.emit("neg", a.self))


def _with_indices(t: Translation, a: Any, x: str) -> tuple[Ref, Ref]:
    """Values and places of an extreme along one axis: the gradient needs the places only, as in the framework."""
    axis = t.axis(a.self, a.dim)
    place = t.emit("argmax", x, axes=(axis,), keepdims=True)
    value = t.emit("gather_elements", a.self, place, axis=axis)
    return t.reshape(value, t.out_shape), t.reshape(place, t.out_shape)


@aten("max.dim")
def _max_dim(t: Translation, a: Any) -> tuple[Ref, Ref]:
    return _with_indices(t, a, a.self)


@aten("min.dim")
def _min_dim(t: Translation, a: Any) -> tuple[Ref, Ref]:
    return _with_indices(t, a, t.emit("neg", a.self))


@aten("topk.default")
def _topk(t: Translation, a: Any) -> tuple[Ref, ...]:
    return t.emit_all("topk", a.self, axis=t.axis(a.self, a.dim), k=int(a.k), largest=bool(a.largest))


def _ordered(t: Translation, a: Any) -> tuple[Ref, ...]:
    axis = t.axis(a.self, a.dim)
    return t.emit_all("topk", a.self, axis=axis, k=t.shape(a.self)[axis], largest=bool(a.descending))


@aten("sort.default", "sort.stable")
def _sort(t: Translation, a: Any) -> tuple[Ref, ...]:
    return _ordered(t, a)


@aten("argsort.default", "argsort.stable")
def _argsort(t: Translation, a: Any) -> Ref:
    return _ordered(t, a)[1]


@aten("var.correction", "var.default", "var.dim")
def _var(t: Translation, a: Any) -> Ref:
    return _variance(t, a)[0]


@aten("std.correction", "std.default", "std.dim")
def _std(t: Translation, a: Any) -> Ref:
    return t.emit("sqrt", _variance(t, a)[0])


@aten("var_mean.correction", "var_mean.dim", "var_mean.default")
def _var_mean(t: Translation, a: Any) -> tuple[Ref, Ref]:
    return _variance(t, a)


def _variance(t: Translation, a: Any) -> tuple[Ref, Ref]:
    axes, keepdim = t.axes(a.self, _dims(a)), getattr(a, "keepdim", False)
    correction = getattr(a, "correction", None)
    if correction is None:
        correction = int(getattr(a, "unbiased", True))
    count = _count(t, a.self, axes)
    mean = t.emit("reduce_mean", a.self, axes=axes, keepdims=True)
    squares = t.emit("pow_scalar", t.emit("sub", a.self, mean), exponent=2.0)
    average = t.emit("reduce_mean", squares, axes=axes, keepdims=keepdim)
    kept = t.shape(average)
    return t.scale(average, count / max(count - correction, 1)), t.reshape(mean, kept)


@aten("norm.Scalar", "norm.ScalarOpt_dim", "linalg_vector_norm.default", "frobenius_norm.dim", "linalg_norm.default")
def _norm(t: Translation, a: Any) -> Ref:
    """Norms of order 1, 2 and infinity over axes."""
    order = getattr(a, "p", getattr(a, "ord", 2))
    order = 2 if order is None else order
    axes, keepdim = t.axes(a.self, _dims(a)), getattr(a, "keepdim", False)
    if order == 2:
        squares = t.emit("pow_scalar", a.self, exponent=2.0)
        return t.emit("sqrt", t.reduce("reduce_sum", squares, axes, keepdim))
    if order == 1:
        return t.reduce("reduce_sum", t.emit("abs", a.self), axes, keepdim)
    if order == math.inf:
        return t.reduce("reduce_max", t.emit("abs", a.self), axes, keepdim)
    raise Unsupported(f"order {order}")


@aten("softmax.int", "_softmax.default", "special_softmax.int")
def _softmax(t: Translation, a: Any) -> Ref:
    return t.emit("softmax", t.cast(a.self, t.out_dtype), axis=t.axis(a.self, a.dim))


@aten("log_softmax.int", "_log_softmax.default", "special_log_softmax.int")
def _log_softmax(t: Translation, a: Any) -> Ref:
    return t.emit("log_softmax", t.cast(a.self, t.out_dtype), axis=t.axis(a.self, a.dim))


@aten("logsumexp.default")
def _logsumexp(t: Translation, a: Any) -> Ref:
    """Shifted by the maximum, through which no gradient flows: its share cancels."""
    axes = t.axes(a.self, a.dim)
    top = t.emit("detach", t.emit("reduce_max", a.self, axes=axes, keepdims=True))
    total = t.emit("reduce_sum", t.emit("exp", t.emit("sub", a.self, top)), axes=axes, keepdims=a.keepdim)
    return t.emit("add", t.emit("log", total), t.reshape(top, t.shape(total)))


@aten("cumsum.default")
def _cumsum(t: Translation, a: Any) -> Ref:
    return t.emit("cumsum", t.cast(a.self, t.out_dtype), axis=t.axis(a.self, a.dim), reverse=False)


@aten("cosine_similarity.default")
def _cosine_similarity(t: Translation, a: Any) -> Ref:
    """The product of both unit vectors; lengths below epsilon are held at it."""
    axes = (a.dim % (len(t.out_shape) + 1),)
    units = []
    for x in (a.x1, a.x2):
        squares = t.emit("reduce_sum", t.emit("pow_scalar", x, exponent=2.0), axes=axes, keepdims=True)
        length = t.emit("clip", t.emit("sqrt", squares), low=float(a.eps), high=math.inf, closed=True)
        units.append(t.emit("div", x, length))
    return t.emit("reduce_sum", t.emit("mul", *units), axes=axes, keepdims=False)
