"""Losses that a module computes itself."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.translation import Ref, Translation, Unsupported, aten

_NONE, _MEAN, _SUM = 0, 1, 2  # the framework's numbers for reductions


def _reduced(t: Translation, x: str, reduction: int) -> Ref:
    if reduction == _NONE:
        return Ref(x)
    return t.reduce("reduce_mean" if reduction == _MEAN else "reduce_sum", x, t.axes(x, None))


def _class_axis(t: Translation, x: str) -> int:
    return 1 if t.rank(x) > 1 else 0


def _likelihood(t: Translation, scores: str, target: str, reduction: int) -> Ref:
    """Negative log-likelihood of the labelled classes, reduced."""
    axis = _class_axis(t, scores)
    if reduction == _NONE:
        shape = t.shape(target)
        index = t.reshape(target, (*shape[:axis], 1, *shape[axis:]))
        picked = t.emit("gather_elements", scores, index, axis=axis)
        return t.emit("neg", t.reshape(picked, shape))
    mean = t.emit("nll_loss", scores, target, axis=axis)
    return t.scale(mean, float(math.prod(t.shape(target)))) if reduction == _SUM else mean


@aten("cross_entropy_loss.default")
def _cross_entropy(t: Translation, a: Any) -> Ref:
    """With label smoothing s: (1 - s) times the likelihood term plus s times the mean over all classes."""
    if a.weight is not None:
        raise Unsupported("class weights")
    axis = _class_axis(t, a.self)
    scores = t.emit("log_softmax", a.self, axis=axis)
    if t.is_float(a.target):
        product = t.emit("mul", scores, a.target)
        total = t.emit("neg", t.emit("reduce_sum", product, axes=(axis,), keepdims=False))
        return _reduced(t, total, a.reduction)
    loss = _likelihood(t, scores, a.target, a.reduction)
    if not a.label_smoothing:
        return loss
    every = t.emit("neg", t.emit("reduce_mean", scores, axes=(axis,), keepdims=False))
    smooth = t.scale(_reduced(t, every, a.reduction), a.label_smoothing)
    return t.emit("add", t.scale(loss, 1 - a.label_smoothing), smooth)


@aten("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default")
def _nll(t: Translation, a: Any) -> Ref:
    if a.weight is not None:
        raise Unsupported("class weights")
    return _likelihood(t, a.self, a.target, a.reduction)


@aten("mse_loss.default")
def _mse(t: Translation, a: Any) -> Ref:
    root = t.source(a.target) is None and not t.tensor(a.target).trainable
    if a.reduction == _MEAN and root and t.shape(a.self) == t.shape(a.target):
        return t.emit("mse_loss", a.self, a.target)
    return _reduced(t, t.emit("pow_scalar", t.emit("sub", a.self, a.target), exponent=2.0), a.reduction)


@aten("l1_loss.default")
def _l1(t: Translation, a: Any) -> Ref:
    return _reduced(t, t.emit("abs", t.emit("sub", a.self, a.target)), a.reduction)


@aten("smooth_l1_loss.default", "huber_loss.default")
def _smooth_l1(t: Translation, a: Any) -> Ref:
    """Quadratic below a bound, linear above; Huber's form is the same times the bound."""
    huber = hasattr(a, "delta")
    bound = a.delta if huber else a.beta
    size = t.emit("abs", t.emit("sub", a.self, a.target))
    square = t.scale(t.emit("pow_scalar", size, exponent=2.0), 0.5 / bound)
    straight = t.emit("shift", size, offset=-0.5 * bound)
    near = t.emit("less", size, t.fill(bound, (), t.tensor(size).dtype))
    return t.scale(_reduced(t, t.emit("where", near, square, straight), a.reduction), bound if huber else 1)


@aten("binary_cross_entropy_with_logits.default")
def _bce_with_logits(t: Translation, a: Any) -> Ref:
    """softplus(x) - x·y, which never overflows."""
    if a.weight is not None or a.pos_weight is not None:
        raise Unsupported("weights")
    loss = t.emit("sub", t.emit("softplus", a.self), t.emit("mul", a.self, a.target))
    return _reduced(t, loss, a.reduction)


@aten("binary_cross_entropy.default")
def _bce(t: Translation, a: Any) -> Ref:
    """-(y·log p + (1 - y)·log(1 - p))."""
    if a.weight is not None:
        raise Unsupported("weights")
    hit = t.emit("mul", t.emit("log", a.self), a.target)
    one_minus = [t.emit("shift", t.emit("neg", x), offset=1.0) for x in (a.self, a.target)]
    miss = t.emit("mul", t.emit("log", one_minus[0]), one_minus[1])
    return _reduced(t, t.emit("neg", t.emit("add", hit, miss)), a.reduction)


@aten("kl_div.default")
def _kl_div(t: Translation, a: Any) -> Ref:
    if a.log_target:
        loss = t.emit("mul", t.emit("exp", a.target), t.emit("sub", a.target, a.self))
    else:
        loss = t.emit("mul", a.target, t.emit("sub", t.emit("log", a.target), a.self))
    return _reduced(t, loss, a.reduction)
