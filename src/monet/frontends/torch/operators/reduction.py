"""Reductions, softmax, cumulative sums and norms over axes."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.operators.elementwise import truth
from monet.frontends.torch.translation import RULES, Ref, Translation, Unsupported, aten

RULES.rows(
    {
        "sum.default sum.dim_IntList": lambda t, a: _reduced(t, "reduce_sum", t.cast(a.self, t.out_dtype), a),
        "mean.default mean.dim": lambda t, a: _reduced(t, "reduce_mean", t.cast(a.self, t.out_dtype), a),
        "amax.default max.default": lambda t, a: _reduced(t, "reduce_max", a.self, a),
        "amin.default min.default": lambda t, a: _reduced(t, "reduce_min", a.self, a),
        "any.default any.dim": lambda t, a: _reduced(t, "reduce_max", truth(t, a.self), a),
        "all.default all.dim": lambda t, a: _reduced(t, "reduce_min", truth(t, a.self), a),
        "argmax.default": lambda t, a: _place_of_largest(t, a, a.self),
        "argmin.default": lambda t, a: _place_of_largest(t, a, t.emit("neg", a.self)),
        "max.dim": lambda t, a: _with_indices(t, a, a.self),
        "min.dim": lambda t, a: _with_indices(t, a, t.emit("neg", a.self)),
        "topk.default": lambda t, a: _ordered(t, a, int(a.k), bool(a.largest)),
        "sort.default sort.stable": lambda t, a: _sorted(t, a),
        "argsort.default argsort.stable": lambda t, a: _sorted(t, a)[1],
        "var.correction var.default var.dim": lambda t, a: _variance(t, a)[0],
        "std.correction std.default std.dim": lambda t, a: t.emit("sqrt", _variance(t, a)[0]),
        "var_mean.correction var_mean.dim var_mean.default": lambda t, a: _variance(t, a),
        "softmax.int _softmax.default special_softmax.int": lambda t, a: _along_axis(t, "softmax", a),
        "log_softmax.int _log_softmax.default special_log_softmax.int": lambda t, a: _along_axis(t, "log_softmax", a),
        "cumsum.default": lambda t, a: _along_axis(t, "cumsum", a, reverse=False),
    }
)


def _dims(a: Any) -> Any:
    return getattr(a, "dim", None)


def _reduced(t: Translation, kind: str, x: str, a: Any) -> Ref:
    return t.reduce(kind, x, t.axes(x, _dims(a)), getattr(a, "keepdim", False))


def _along_axis(t: Translation, kind: str, a: Any, **attrs: Any) -> Ref:
    return t.emit(kind, t.cast(a.self, t.out_dtype), axis=t.axis(a.self, a.dim), **attrs)


def _place_of_largest(t: Translation, a: Any, x: str) -> Ref:
    if a.dim is None:
        flat = t.reshape(x, (math.prod(t.shape(x)),))
        return t.reshape(t.emit("argmax", flat, axes=(0,), keepdims=False), t.out_shape)
    return t.emit("argmax", x, axes=(t.axis(x, a.dim),), keepdims=a.keepdim)


def _with_indices(t: Translation, a: Any, x: str) -> tuple[Ref, Ref]:
    """Values and places of an extreme along one axis: the gradient needs the places only, as in the framework."""
    axis = t.axis(a.self, a.dim)
    place = t.emit("argmax", x, axes=(axis,), keepdims=True)
    value = t.emit("gather_elements", a.self, place, axis=axis)
    return t.reshape(value, t.out_shape), t.reshape(place, t.out_shape)


def _ordered(t: Translation, a: Any, count: int, largest: bool) -> tuple[Ref, ...]:
    return t.emit_all("topk", a.self, axis=t.axis(a.self, a.dim), k=count, largest=largest)


def _sorted(t: Translation, a: Any) -> tuple[Ref, ...]:
    return _ordered(t, a, t.shape(a.self)[t.axis(a.self, a.dim)], bool(a.descending))


def _variance(t: Translation, a: Any) -> tuple[Ref, Ref]:
    axes, keepdim = t.axes(a.self, _dims(a)), getattr(a, "keepdim", False)
    correction = getattr(a, "correction", None)
    if correction is None:
        correction = int(getattr(a, "unbiased", True))
    count = math.prod(t.shape(a.self)[axis] for axis in axes)
    mean = t.emit("reduce_mean", a.self, axes=axes, keepdims=True)
    squares = t.emit("pow_scalar", t.emit("sub", a.self, mean), exponent=2.0)
    average = t.emit("reduce_mean", squares, axes=axes, keepdims=keepdim)
    return t.scale(average, count / max(count - correction, 1)), t.reshape(mean, t.shape(average))


@aten("norm.Scalar", "norm.ScalarOpt_dim", "linalg_vector_norm.default", "frobenius_norm.dim", "linalg_norm.default")
def _norm(t: Translation, a: Any) -> Ref:
    """Norms of order 1, 2 and infinity over axes."""
    order = getattr(a, "p", getattr(a, "ord", 2))
    order = 2 if order is None else order
    if order == 2:
        return t.emit("sqrt", _reduced(t, "reduce_sum", t.emit("pow_scalar", a.self, exponent=2.0), a))
    if order == 1:
        return _reduced(t, "reduce_sum", t.emit("abs", a.self), a)
    if order == math.inf:
        return _reduced(t, "reduce_max", t.emit("abs", a.self), a)
    raise Unsupported(f"order {order}")


@aten("logsumexp.default")
def _logsumexp(t: Translation, a: Any) -> Ref:
    """Shifted by the maximum, through which no gradient flows: its share cancels."""
    axes = t.axes(a.self, a.dim)
    top = t.emit("detach", t.emit("reduce_max", a.self, axes=axes, keepdims=True))
    total = t.emit("reduce_sum", t.emit("exp", t.emit("sub", a.self, top)), axes=axes, keepdims=a.keepdim)
    return t.emit("add", t.emit("log", total), t.reshape(top, t.shape(total)))


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
