"""Normalisation layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.frontends.torch.translation import Ref, Translation, aten


def _affine(t: Translation, x: str, weight: str | None, bias: str | None) -> list[str]:
    """Weight and bias of a batch norm; one without them scales by one, which is part of the program."""
    channels, dtype = (t.shape(x)[1],), t.tensor(x).dtype
    scale = weight or t.builder.constant("unit_weight", np.ones(channels, np.float32), dtype)
    return [scale, bias or t.builder.constant("zero_bias", np.zeros(channels, np.float32), dtype)]


@aten("batch_norm.default")
def _batch_norm(t: Translation, a: Any) -> Ref:
    affine = _affine(t, a.input, a.weight, a.bias)
    running = [t.builder.current(name) for name in (a.running_mean, a.running_var) if name is not None]
    if a.training:
        return t.emit("batch_norm", a.input, *affine, *running, epsilon=a.eps, momentum=a.momentum)
    return t.emit("batch_norm_fixed", a.input, *affine, *running, epsilon=a.eps)


def _parameters(weight: str | None, bias: str | None) -> list[str]:
    return [name for name in (weight, bias) if name is not None]


@aten("layer_norm.default", "native_layer_norm.default")
def _layer_norm(t: Translation, a: Any) -> Ref:
    """A bias without weight, which the kind has no form for, is added afterwards."""
    if a.weight is None and a.bias is not None:
        plain = t.emit("layer_norm", a.input, axes=len(a.normalized_shape), epsilon=a.eps)
        return t.emit("add", plain, a.bias)
    return t.emit("layer_norm", a.input, *_parameters(a.weight, a.bias), axes=len(a.normalized_shape), epsilon=a.eps)


@aten("rms_norm.default")
def _rms_norm(t: Translation, a: Any) -> Ref:
    """Without an epsilon the framework takes the smallest step of the input's type. The scale is a product of its own,
    as the framework composes it (ATen/native/layer_norm.cpp), and keeps the normalised values for its gradient."""
    epsilon = a.eps if a.eps is not None else float(np.finfo(np.float64 if t.out_dtype == "fp64" else np.float32).eps)
    plain = t.emit("rms_norm", a.input, axes=len(a.normalized_shape), epsilon=epsilon)
    return plain if a.weight is None else t.emit("mul", plain, a.weight)


@aten("group_norm.default")
def _group_norm(t: Translation, a: Any) -> Ref:
    return t.emit("group_norm", a.input, *_parameters(a.weight, a.bias), groups=a.num_groups, epsilon=a.eps)


@aten("instance_norm.default")
def _instance_norm(t: Translation, a: Any) -> Ref:
    """One channel per group. Running statistics, if any, are not updated: training does not read them."""
    channels = t.shape(a.input)[1]
    return t.emit("group_norm", a.input, *_parameters(a.weight, a.bias), groups=channels, epsilon=a.eps)


@aten("_weight_norm.default")
def _weight_norm(t: Translation, a: Any) -> Ref:
    """v · g / |v|, the length taken over all axes but one."""
    axis = t.axis(a.v, a.dim)
    axes = tuple(other for other in range(t.rank(a.v)) if other != axis)
    squares = t.emit("pow_scalar", a.v, exponent=2.0)
    length = t.emit("sqrt", t.emit("reduce_sum", squares, axes=axes, keepdims=True))
    return t.emit("mul", a.v, t.emit("div", a.g, length))
