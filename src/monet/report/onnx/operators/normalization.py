"""Normalisation and its gradients. Statistics are computed and kept in fp32 or wider."""

from __future__ import annotations

import math
from collections.abc import Sequence

from monet.report.onnx.body import Body, Value
from monet.report.onnx.table import writes


def _per_channel(values: Value, rank: int) -> Value:
    return values.reshape((1, -1, *([1] * (rank - 2)))) if rank > 2 else values


def _all_but_channels(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank))


def _inverse_deviation(b: Body, variance: Value) -> Value:
    return b.node("Reciprocal", b.node("Sqrt", variance + b.call.attrs["epsilon"]))


def _variance(x: Value, mean: Value, axes: Sequence[int], keepdims: bool) -> Value:
    centred = x - mean
    return (centred * centred).mean(axes, keepdims)


def _wanted(b: Body, **values: Value) -> tuple[Value, ...]:
    return tuple(values[label] for label in b.call.attrs["wanted"])


# --- batch norm -------------------------------------------------------------------------------------------------------


@writes("batch_norm")
def _batch_norm(b: Body) -> tuple[Value, ...]:
    x, weight, bias, *running = b.inputs
    rank, axes, momentum = len(b.shape(0)), _all_but_channels(len(b.shape(0))), b.call.attrs["momentum"]
    mean = x.mean(axes)
    variance = _variance(x, _per_channel(mean, rank), axes, keepdims=False)
    inverse = _inverse_deviation(b, variance)
    y = (x - _per_channel(mean, rank)) * _per_channel(weight * inverse, rank) + _per_channel(bias, rank)
    if not running:
        return y, mean, inverse
    count = b.call.inputs[0].elements // b.shape(0)[1]
    kept_mean = (1 - momentum) * running[0] + momentum * mean
    kept_variance = (1 - momentum) * running[1] + (momentum * count / (count - 1)) * variance
    return y, mean, inverse, kept_mean, kept_variance


@writes("batch_norm_gradient")
def _batch_norm_gradient(b: Body) -> tuple[Value, ...]:
    g, x, mean, inverse, weight = b.inputs
    rank, axes = len(b.shape(1)), _all_but_channels(len(b.shape(1)))
    normal = (x - _per_channel(mean, rank)) * _per_channel(inverse, rank)
    along = g * normal
    centred = g - g.mean(axes, keepdims=True) - normal * along.mean(axes, keepdims=True)
    return _wanted(
        b, input=centred * _per_channel(weight * inverse, rank), weight=along.sum(axes), bias=g.sum(axes)
    )  # fmt: skip


@writes("batch_norm_fixed")
def _batch_norm_fixed(b: Body) -> Value:
    return b.node("BatchNormalization", *b.native("BatchNormalization"), epsilon=b.call.attrs["epsilon"])


@writes("batch_norm_fixed_gradient")
def _batch_norm_fixed_gradient(b: Body) -> tuple[Value, ...]:
    g, x, mean, variance, weight = b.inputs
    rank, axes = len(b.shape(1)), _all_but_channels(len(b.shape(1)))
    inverse = _inverse_deviation(b, variance)
    normal = (x - _per_channel(mean, rank)) * _per_channel(inverse, rank)
    dx = g * _per_channel(weight * inverse, rank)
    return _wanted(b, input=dx, weight=(g * normal).sum(axes), bias=g.sum(axes))


# --- layer norm and root-mean-square norm, over the trailing axes -----------------------------------------------------


def _trailing(b: Body) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(leading axes, normalised axes)."""
    rank, count = len(b.shape(0)), b.call.attrs["axes"]
    return tuple(range(rank - count)), tuple(range(rank - count, rank))


@writes("layer_norm")
def _layer_norm(b: Body) -> tuple[Value, ...]:
    """The standard operator, which also returns its statistics; but always in fp32, and its weight is not optional."""
    epsilon, axes = b.call.attrs["epsilon"], _trailing(b)[1]
    dtypes = {value.dtype for value in b.raw}
    if len(b.raw) > 1 and len(dtypes) == 1 and dtypes <= {"fp32", "bf16", "fp16"}:
        outputs = (b.raw[0].dtype, "fp32", "fp32")
        return b.node_all("LayerNormalization", *b.raw, dtypes=outputs, axis=-len(axes), epsilon=epsilon)
    x, *affine = b.inputs
    mean = x.mean(axes, keepdims=True)
    inverse = _inverse_deviation(b, _variance(x, mean, axes, keepdims=True))
    y = (x - mean) * inverse
    if affine:
        y = y * affine[0]
    return (y + affine[1] if len(affine) > 1 else y), mean, inverse


@writes("layer_norm_gradient")
def _layer_norm_gradient(b: Body) -> tuple[Value, ...]:
    g, x, mean, inverse, *weight = b.inputs
    lead, axes = _trailing(b)
    normal = (x - mean) * inverse
    scaled = g * weight[0] if weight else g
    shift = scaled.mean(axes, keepdims=True)
    inner = scaled - shift - normal * (scaled * normal).mean(axes, keepdims=True)
    return _wanted(b, input=inner * inverse, weight=(g * normal).sum(lead), bias=g.sum(lead))


@writes("rms_norm")
def _rms_norm(b: Body) -> tuple[Value, ...]:
    x, *weight = b.inputs
    inverse = _inverse_deviation(b, (x * x).mean(_trailing(b)[1], keepdims=True))
    y = x * inverse
    return (y * weight[0] if weight else y), inverse


@writes("rms_norm_gradient")
def _rms_norm_gradient(b: Body) -> tuple[Value, ...]:
    g, x, inverse, *weight = b.inputs
    lead, axes = _trailing(b)
    normal = x * inverse
    scaled = g * weight[0] if weight else g
    inner = (scaled - normal * (scaled * normal).mean(axes, keepdims=True)) * inverse
    return _wanted(b, input=inner, weight=(g * normal).sum(lead))


# --- group norm -------------------------------------------------------------------------------------------------------


def _grouped(b: Body, x: Value, slot: int) -> Value:
    batch, groups = b.shape(slot)[0], b.call.attrs["groups"]
    return x.reshape((batch, groups, math.prod(b.shape(slot)[1:]) // groups))


@writes("group_norm")
def _group_norm(b: Body) -> tuple[Value, ...]:
    x, *affine = b.inputs
    rank, rows = len(b.shape(0)), _grouped(b, x, 0)
    mean = rows.mean((2,), keepdims=True)
    inverse = _inverse_deviation(b, _variance(rows, mean, (2,), keepdims=True))
    y = ((rows - mean) * inverse).reshape(b.shape(0))
    if affine:
        y = y * _per_channel(affine[0], rank)
    if len(affine) > 1:
        y = y + _per_channel(affine[1], rank)
    statistics = b.call.outputs[1].shape
    return y, mean.reshape(statistics), inverse.reshape(statistics)


@writes("group_norm_gradient")
def _group_norm_gradient(b: Body) -> tuple[Value, ...]:
    g, x, mean, inverse, *weight = b.inputs
    shape, rank = b.shape(1), len(b.shape(1))
    axes, deviation = _all_but_channels(rank), inverse.unsqueeze(2)
    normal = (_grouped(b, x, 1) - mean.unsqueeze(2)) * deviation
    scaled = _grouped(b, g * _per_channel(weight[0], rank) if weight else g, 0)
    inner = scaled - scaled.mean((2,), True) - normal * (scaled * normal).mean((2,), True)
    weight_gradient, bias_gradient = (g * normal.reshape(shape)).sum(axes), g.sum(axes)
    return _wanted(b, input=(inner * deviation).reshape(shape), weight=weight_gradient, bias=bias_gradient)
