"""Normalisation: batch, layer, group (and instance) and root-mean-square, each with one fused gradient operator.

What backward keeps is what the framework keeps: the input and the statistics, never the normalised value. Statistics
are in fp32 whatever the activations are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import BACKWARD, Array, Call, Family, OpKind, Output, along, like_first, pointwise, register, sums
from monet.graph.loop_nest import LoopNest, index
from monet.graph.op import Attributes
from monet.graph.operators.nests import axes_of, over
from monet.graph.tensor import Role, Tensor

STATISTICS = "fp32"


def statistics_dtype(x: Tensor) -> str:
    """Statistics are never narrower than fp32."""
    return x.dtype if x.dtype == "fp64" else STATISTICS


def _with_statistics(x: Tensor, rows: tuple[int, ...]) -> tuple[Output, ...]:
    dtype = statistics_dtype(x)
    return Output(x.shape, x.dtype), Output(rows, dtype, "mean"), Output(rows, dtype, "inverse_deviation")


# --- batch norm, training form ----------------------------------------------------------------------------------------
# inputs: x, weight, bias, running mean, running variance; the running statistics are updated in place.


def _infer_batch_norm(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    x, weight = inputs[0], inputs[1]
    if len(x.shape) < 2 or weight.shape != (x.shape[1],):
        raise ModelError(f"batch norm over {list(x.shape)} needs parameters of its channels, got {list(weight.shape)}")
    if x.elements == x.shape[1]:
        raise ModelError("batch norm in training needs more than one value per channel; raise --batch or --image")
    running = zip((3, 4), ("running_mean", "running_variance"), inputs[3:], strict=False)
    updated = (Output(old.shape, old.dtype, label, slot, role=Role.BUFFER) for slot, label, old in running)
    return (*_with_statistics(x, weight.shape), *updated)


def _per_channel(values: Array, rank: int) -> Array:
    return values.reshape(1, -1, *([1] * (rank - 2)))


def normalised(x: Array, mean: Array, inverse: Array, weight: Array, bias: Array) -> Array:
    """Channels with their statistics taken out, scaled and shifted."""
    scale = _per_channel(weight * inverse, x.ndim)
    return np.asarray((x - _per_channel(mean, x.ndim)) * scale + _per_channel(bias, x.ndim))


def normalised_gradient(g: Array, x: Array, mean: Array, inverse: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Gradients of input, weight and bias, the statistics taken as given."""
    axes = (0, *range(2, x.ndim))
    normal = (x - _per_channel(mean, x.ndim)) * _per_channel(inverse, x.ndim)
    return g * _per_channel(weight * inverse, x.ndim), (g * normal).sum(axis=axes), g.sum(axis=axes)


def _evaluate_batch_norm(attrs: Attributes, x: Array, weight: Array, bias: Array, *running: Array) -> tuple[Array, ...]:
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axis=axes), x.var(axis=axes)
    inverse = 1 / np.sqrt(variance + attrs["epsilon"])
    y = normalised(x, mean, inverse, weight, bias)
    if not running:
        return y, mean, inverse
    momentum, count = attrs["momentum"], x.size // x.shape[1]
    unbiased = variance * (count / (count - 1))
    batch = zip(running, (mean, unbiased), strict=True)
    return (y, mean, inverse, *((1 - momentum) * old + momentum * new for old, new in batch))


def _nest_batch_norm(call: Call) -> LoopNest:
    rank = len(call.inputs[0].shape)
    every, channel = axes_of(range(rank)), axes_of([1])
    maps = [every if len(tensor.shape) == rank else channel for tensor in (*call.inputs, *call.outputs)]
    return over(call.inputs[0].shape, call, maps)


def _batch_norm_rule(b: Backward) -> tuple[str | None, ...]:
    saved = b.inputs[0], b.op.outputs[1], b.op.outputs[2]
    grads = _norm_gradients(b, "batch_norm_gradient", saved, {})
    return (*grads, *([None] * (len(b.inputs) - 3)))


def _norm_gradients(b: Backward, kind: str, saved: tuple[str, ...], attrs: dict[str, Any]) -> list[str | None]:
    """Emit the fused gradient with just the outputs that are wanted; order x, weight, bias."""
    wanted = tuple(label for label, needed in zip(("input", "weight", "bias"), b.needs, strict=False) if needed)
    weight = (b.inputs[1],) if len(b.inputs) > 1 else ()
    names = b.emit_all(kind, b.gradient, *saved, *weight, wanted=wanted, **attrs)
    by_label = dict(zip(wanted, names, strict=True))
    return [by_label.get(label) for label in ("input", "weight", "bias")[: min(3, len(b.inputs))]]


def _infer_norm_gradient(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    if not attrs.get("affine", True):
        return like_first(inputs, attrs)
    g, weight = inputs[0], inputs[-1]
    shapes = {"input": (g.shape, g.dtype), "weight": (weight.shape, weight.dtype), "bias": (weight.shape, weight.dtype)}
    return tuple(Output(*shapes[label], "" if i == 0 else label) for i, label in enumerate(attrs["wanted"]))


def _wanted(attrs: Attributes, **values: Array) -> tuple[Array, ...]:
    return tuple(values[label] for label in attrs["wanted"])


def _evaluate_batch_norm_gradient(
    attrs: Attributes, g: Array, x: Array, mean: Array, inverse: Array, weight: Array
) -> tuple[Array, ...]:
    axes, count = (0, *range(2, x.ndim)), x.size // x.shape[1]
    normal = (x - _per_channel(mean, x.ndim)) * _per_channel(inverse, x.ndim)
    dbias, dweight = g.sum(axis=axes), (g * normal).sum(axis=axes)
    centred = g - _per_channel(dbias, x.ndim) / count - normal * _per_channel(dweight, x.ndim) / count
    return _wanted(attrs, input=centred * _per_channel(weight * inverse, x.ndim), weight=dweight, bias=dbias)


# --- layer norm, over the trailing axes -------------------------------------------------------------------------------


def _infer_layer_norm(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, axes = inputs[0], attrs["axes"]
    if not 0 < axes <= len(x.shape) or (len(inputs) > 1 and inputs[1].shape != x.shape[-axes:]):
        raise ModelError(f"layer norm over the last {axes} of {list(x.shape)} does not fit its weight")
    return _with_statistics(x, (*x.shape[:-axes], *([1] * axes)))


def _evaluate_layer_norm(
    attrs: Attributes, x: Array, weight: Array | None = None, bias: Array | None = None
) -> tuple[Array, ...]:
    axes = tuple(range(-attrs["axes"], 0))
    mean = x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(x.var(axis=axes, keepdims=True) + attrs["epsilon"])
    y = (x - mean) * inverse
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias), mean, inverse


def _nest_trailing(call: Call) -> LoopNest:
    """Rows × normalised axes; whatever has the input's rank is broadcast, parameters are indexed by the last axes."""
    return over(call.inputs[0].shape, call)


def _mean_norm_rule(b: Backward) -> tuple[str | None, ...]:
    """Of layer and of group norm."""
    saved = b.inputs[0], b.op.outputs[1], b.op.outputs[2]
    over_what = {key: b.attrs[key] for key in ("axes", "groups") if key in b.attrs}
    return tuple(_norm_gradients(b, f"{b.op.kind}_gradient", saved, {**over_what, "affine": len(b.inputs) > 1}))


def _evaluate_layer_norm_gradient(
    attrs: Attributes, g: Array, x: Array, mean: Array, inverse: Array, weight: Array | None = None
) -> tuple[Array, ...]:
    axes = tuple(range(-attrs["axes"], 0))
    lead = tuple(range(x.ndim - attrs["axes"]))
    normal = (x - mean) * inverse
    scaled = g if weight is None else g * weight
    inner = scaled - scaled.mean(axis=axes, keepdims=True) - normal * (scaled * normal).mean(axis=axes, keepdims=True)
    return _wanted(attrs, input=inner * inverse, weight=(g * normal).sum(axis=lead), bias=g.sum(axis=lead))


# --- root-mean-square norm --------------------------------------------------------------------------------------------


def _infer_rms_norm(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    y, _, inverse = _infer_layer_norm(inputs, attrs)
    return y, Output(inverse.shape, inverse.dtype, "inverse_deviation")


def _evaluate_rms_norm(attrs: Attributes, x: Array, weight: Array | None = None) -> tuple[Array, ...]:
    axes = tuple(range(-attrs["axes"], 0))
    inverse = 1 / np.sqrt((x * x).mean(axis=axes, keepdims=True) + attrs["epsilon"])
    y = x * inverse
    return (y if weight is None else y * weight), inverse


def _rms_norm_rule(b: Backward) -> tuple[str | None, ...]:
    saved = b.inputs[0], b.op.outputs[1]
    affine = len(b.inputs) > 1
    return tuple(_norm_gradients(b, "rms_norm_gradient", saved, {"axes": b.attrs["axes"], "affine": affine}))


def _evaluate_rms_norm_gradient(
    attrs: Attributes, g: Array, x: Array, inverse: Array, weight: Array | None = None
) -> tuple[Array, ...]:
    axes, lead = tuple(range(-attrs["axes"], 0)), tuple(range(x.ndim - attrs["axes"]))
    normal = x * inverse
    scaled = g if weight is None else g * weight
    inner = (scaled - normal * (scaled * normal).mean(axis=axes, keepdims=True)) * inverse
    return _wanted(attrs, input=inner, weight=(g * normal).sum(axis=lead))


# --- group norm (instance norm is one channel per group) --------------------------------------------------------------


def _infer_group_norm(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, groups = inputs[0], attrs["groups"]
    if len(x.shape) < 2 or x.shape[1] % groups or (len(inputs) > 1 and inputs[1].shape != (x.shape[1],)):
        raise ModelError(f"{groups} groups do not divide the channels of {list(x.shape)}, or the weight does not fit")
    return _with_statistics(x, (x.shape[0], groups))


def _grouped(x: Array, groups: int) -> Array:
    return x.reshape(x.shape[0], groups, -1)


def _evaluate_group_norm(
    attrs: Attributes, x: Array, weight: Array | None = None, bias: Array | None = None
) -> tuple[Array, ...]:
    rows = _grouped(x, attrs["groups"])
    mean = rows.mean(axis=2)
    inverse = 1 / np.sqrt(rows.var(axis=2) + attrs["epsilon"])
    y = ((rows - mean[..., None]) * inverse[..., None]).reshape(x.shape)
    y = y if weight is None else y * _per_channel(weight, x.ndim)
    return (y if bias is None else y + _per_channel(bias, x.ndim)), mean, inverse


def _evaluate_group_norm_gradient(
    attrs: Attributes, g: Array, x: Array, mean: Array, inverse: Array, weight: Array | None = None
) -> tuple[Array, ...]:
    groups, axes = attrs["groups"], (0, *range(2, x.ndim))
    normal = (_grouped(x, groups) - mean[..., None]) * inverse[..., None]
    scaled = _grouped(g if weight is None else g * _per_channel(weight, x.ndim), groups)
    inner = scaled - scaled.mean(2, keepdims=True) - normal * (scaled * normal).mean(2, keepdims=True)
    dx = (inner * inverse[..., None]).reshape(x.shape)
    return _wanted(attrs, input=dx, weight=(g * normal.reshape(x.shape)).sum(axis=axes), bias=g.sum(axis=axes))


def _nest_group_norm(call: Call) -> LoopNest:
    """Over samples, groups, channels of a group, and positions."""
    x, groups = call.inputs[0], call.attrs["groups"]
    per_group = x.shape[1] // groups
    channel = index(("A1", per_group), "A2")
    spatial = axes_of(range(3, len(x.shape) + 1))
    by_rank = {1: (channel,), 2: axes_of([0, 1]), len(x.shape): (index("A0"), channel, *spatial)}
    maps = [by_rank[len(tensor.shape)] for tensor in (*call.inputs, *call.outputs)]
    return over((x.shape[0], groups, per_group, *x.shape[2:]), call, maps)


PASSES = 2  # over the input: statistics, then apply; backward sums, then apply


def _passes(forward: bool) -> Any:
    counts = {"add": 4, "mul": 3} if forward else {"add": 5, "mul": 6}
    return lambda call: {
        **{function: n * call.inputs[0].elements for function, n in counts.items()},
        **({"sqrt": call.outputs[-1].elements, "div": call.outputs[-1].elements} if forward else {}),
    }


def _but_channels(call: Call) -> set[str]:
    return {f"A{axis}" for axis in range(len(call.inputs[0].shape)) if axis != 1}


def _trailing(call: Call) -> set[str]:
    rank = len(call.inputs[0].shape)
    return {f"A{axis}" for axis in range(rank - call.attrs["axes"], rank)}


def _inside_group(call: Call) -> set[str]:
    """Channels of a group and positions; samples and groups (A0, A1) each have statistics of their own."""
    return {f"A{axis}" for axis in range(2, len(call.inputs[0].shape) + 1)}


for _name, _infer, _forward, _backward, _nest, _whole, _rule, _onnx in (
    ("batch_norm", _infer_batch_norm, _evaluate_batch_norm, _evaluate_batch_norm_gradient, _nest_batch_norm, _but_channels, _batch_norm_rule, ("BatchNormalization",)),
    ("layer_norm", _infer_layer_norm, _evaluate_layer_norm, _evaluate_layer_norm_gradient, _nest_trailing, _trailing, _mean_norm_rule, ("LayerNormalization",)),
    ("rms_norm", _infer_rms_norm, _evaluate_rms_norm, _evaluate_rms_norm_gradient, _nest_trailing, _trailing, _rms_norm_rule, ("RMSNormalization", "SimplifiedLayerNormalization")),
    ("group_norm", _infer_group_norm, _evaluate_group_norm, _evaluate_group_norm_gradient, _nest_group_norm, _inside_group, _mean_norm_rule, ("GroupNormalization", "InstanceNormalization")),
):  # fmt: skip
    _dimensions, _backward_dimensions = along(_whole, PASSES), along(_whole, PASSES, "add")
    _once = (3, 4) if _name == "batch_norm" else ()
    register(
        OpKind(
            _name, Family.VECTOR, _infer, _forward, _nest, _dimensions, _passes(True), _rule, _onnx, once=_once
        ),
        OpKind(
            f"{_name}_gradient", Family.VECTOR, _infer_norm_gradient, _backward, _nest, _backward_dimensions,
            _passes(False), no_onnx=BACKWARD,
        ),
    )  # fmt: skip


# --- batch norm with fixed statistics (inference form): an affine map per channel ---------------------------------------


def _evaluate_fixed(attrs: Attributes, x: Array, weight: Array, bias: Array, mean: Array, variance: Array) -> Array:
    scale = weight / np.sqrt(variance + attrs["epsilon"])
    return np.asarray(x * _per_channel(scale, x.ndim) + _per_channel(bias - mean * scale, x.ndim))


def _fixed_rule(b: Backward) -> tuple[str | None, ...]:
    grads = _norm_gradients(
        b, "batch_norm_fixed_gradient", (b.inputs[0], *b.inputs[3:]), {"epsilon": b.attrs["epsilon"]}
    )
    return (*grads, None, None)


def _evaluate_fixed_gradient(
    attrs: Attributes, g: Array, x: Array, mean: Array, variance: Array, weight: Array
) -> tuple[Array, ...]:
    dx, dweight, dbias = normalised_gradient(g, x, mean, 1 / np.sqrt(variance + attrs["epsilon"]), weight)
    return _wanted(attrs, input=dx, weight=dweight, bias=dbias)


register(
    OpKind(
        "batch_norm_fixed", Family.VECTOR, like_first, _evaluate_fixed, _nest_batch_norm, pointwise,
        lambda call: {"mul": call.out.elements, "add": call.out.elements}, _fixed_rule,
        no_onnx="files of models to be trained have BatchNormalization, which imports as batch_norm",
    ),
    OpKind(
        "batch_norm_fixed_gradient", Family.VECTOR, _infer_norm_gradient, _evaluate_fixed_gradient, _nest_batch_norm,
        sums, _passes(False), no_onnx=BACKWARD,
    ),
)  # fmt: skip
