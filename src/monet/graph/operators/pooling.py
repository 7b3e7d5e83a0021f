"""Pooling with its gradients, adaptive averages, and resampling (nearest, bilinear)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import (
    BACKWARD,
    Array,
    Call,
    Family,
    Narrow,
    OpKind,
    Output,
    displaced,
    of_given_shape,
    register,
    windows,
)
from monet.graph.loop_nest import LoopNest, Operand, index
from monet.graph.op import Attributes
from monet.graph.operators.convolution import SPATIAL, check_window
from monet.graph.operators.nests import axes_of, elementwise, over
from monet.graph.tensor import Tensor

TAP_INDEX = "uint8"  # index type of the compact form: which tap of the window won, instead of a position in the plane
MOST_TAPS = 256  # that it can tell apart


def _pooled(size: int, attrs: Mapping[str, Any], axis: int) -> int:
    before, after = attrs["padding"][axis]
    span = size + before + after - attrs["dilation"][axis] * (attrs["kernel"][axis] - 1) - 1
    stride = attrs["stride"][axis]
    if not attrs["ceil"]:
        return int(span // stride + 1)
    count = -(-span // stride) + 1
    # the last window must start inside the input or its left padding, as the framework has it
    return int(count - 1 if (count - 1) * stride >= size + before else count)


def _infer_pool(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, rank = inputs[0], len(inputs[0].shape) - 2
    check_window(attrs)
    if rank < 1 or len(attrs["kernel"]) != rank:
        raise ModelError(f"pooling over {len(attrs['kernel'])} axes needs an input of {len(attrs['kernel']) + 2} axes")
    spatial = tuple(_pooled(size, attrs, axis) for axis, size in enumerate(x.shape[2:]))
    if min(spatial) < 1:
        raise ModelError(f"a window of {list(attrs['kernel'])} does not fit the padded input {list(x.shape[2:])}")
    return (Output((*x.shape[:2], *spatial), x.dtype),)


def _infer_max_pool(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (out,) = _infer_pool(inputs, attrs)
    return out, Output(out.shape, attrs["index_dtype"], "indices")


def _nest_pool(call: Call, backward: bool = False) -> LoopNest:
    """The pooled side is indexed plainly, the other by windows, whichever is read or written."""
    wide, pooled = (call.out, call.inputs[0]) if backward else (call.inputs[0], call.out)
    names, attrs = SPATIAL[-(len(wide.shape) - 2) :], call.attrs
    dims = (
        ("N", wide.shape[0]),
        ("K", wide.shape[1]),
        *((f"O{n}", size) for n, size in zip(names, pooled.shape[2:], strict=True)),
        *((f"F{n}", size) for n, size in zip(names, attrs["kernel"], strict=True)),
    )
    plain = (index("N"), index("K"), *(index(f"O{n}") for n in names))
    taps = zip(names, attrs["stride"], attrs["dilation"], attrs["padding"], strict=True)
    window = (
        index("N"),
        index("K"),
        *(index((f"O{n}", stride), (f"F{n}", dilation), offset=-pad[0]) for n, stride, dilation, pad in taps),
    )
    count = len(call.inputs)
    operands = [
        Operand("wide", count if backward else 0, wide.dtype, wide.shape, window, backward),
        Operand("pooled", 0 if backward else count, pooled.dtype, pooled.shape, plain, not backward),
    ]
    if attrs.get("index_dtype"):
        indices = call.inputs[1] if backward else call.outputs[1]
        operands.append(
            Operand("indices", 1 if backward else count + 1, indices.dtype, indices.shape, plain, not backward)
        )
    return LoopNest(dims, tuple(sorted(operands, key=lambda operand: operand.slot)))


def _windows(shape: tuple[int, ...], pooled: tuple[int, ...], attrs: Mapping[str, Any]) -> Any:
    """For every kernel tap: (position of each window's tap per axis, whether it lies inside the input)."""
    for tap in itertools.product(*map(range, attrs["kernel"])):
        coordinates, inside = [], np.ones((1,) * len(pooled), np.bool_)
        for axis, (position, count) in enumerate(zip(tap, pooled, strict=True)):
            place = np.arange(count) * attrs["stride"][axis] + position * attrs["dilation"][axis]
            place = place - attrs["padding"][axis][0]
            view = [1] * len(pooled)
            view[axis] = count
            inside = inside & ((place >= 0) & (place < shape[axis])).reshape(view)
            coordinates.append(np.clip(place, 0, shape[axis] - 1))
        yield np.ix_(*coordinates), inside


def _evaluate_max_pool(attrs: Attributes, x: Array) -> tuple[Array, Array]:
    spatial = x.shape[2:]
    pooled = tuple(_pooled(size, attrs, axis) for axis, size in enumerate(spatial))
    best = np.full((*x.shape[:2], *pooled), -np.inf, x.dtype)
    chosen = np.zeros(best.shape, np.int64)
    flat = np.arange(math.prod(spatial)).reshape(spatial)
    for tap, (place, inside) in enumerate(_windows(spatial, pooled, attrs)):
        value = np.where(inside, x[(slice(None), slice(None), *place)], -np.inf)
        better = value > best
        best = np.where(better, value, best)
        chosen = np.where(better, tap if attrs["index_dtype"] == TAP_INDEX else flat[place], chosen)
    return best.astype(x.dtype), chosen


def _pool_rule(b: Backward) -> tuple[str | None, ...]:
    operands = (b.gradient, *b.op.outputs[1:], b.inputs[0])
    return (b.emit(f"{b.op.kind}_gradient", *operands, shape=b.shape(0), **b.attrs),)


def _flat_positions(attrs: Mapping[str, Any], taps: Array, spatial: tuple[int, ...]) -> Array:
    """Positions in the input plane from the window-local tap numbers of the compact form."""
    flat = np.arange(math.prod(spatial)).reshape(spatial)
    places = [flat[place] for place, _ in _windows(spatial, taps.shape[2:], attrs)]
    return np.asarray(np.stack(places)[(taps.astype(np.int64), *np.indices(taps.shape)[2:])])


def _evaluate_max_pool_gradient(attrs: Attributes, g: Array, chosen: Array, *_: Array) -> Array:
    shape = attrs["shape"]
    if attrs["index_dtype"] == TAP_INDEX:
        chosen = _flat_positions(attrs, chosen, shape[2:])
    out = np.zeros((shape[0] * shape[1], math.prod(shape[2:])), g.dtype)
    rows = np.arange(out.shape[0])[:, None]
    np.add.at(out, (rows, chosen.reshape(out.shape[0], -1)), g.reshape(out.shape[0], -1))
    return out.reshape(shape)


def _divisors(attrs: Mapping[str, Any], spatial: tuple[int, ...], pooled: tuple[int, ...]) -> Array:
    """How many elements each window averages; padding counts if the framework says so."""
    total = np.ones((1,) * len(pooled))
    for axis, count in enumerate(pooled):
        before, after = attrs["padding"][axis] if attrs["count_padding"] else (0, 0)
        start = np.arange(count) * attrs["stride"][axis] - attrs["padding"][axis][0]
        places = start[:, None] + np.arange(attrs["kernel"][axis]) * attrs["dilation"][axis]
        inside = (places >= -before) & (places < spatial[axis] + after)
        view = [1] * len(pooled)
        view[axis] = count
        total = total * inside.sum(axis=1).reshape(view)
    return total


def _evaluate_avg_pool(attrs: Attributes, x: Array) -> Array:
    spatial = x.shape[2:]
    pooled = tuple(_pooled(size, attrs, axis) for axis, size in enumerate(spatial))
    total = np.zeros((*x.shape[:2], *pooled), x.dtype)
    for place, inside in _windows(spatial, pooled, attrs):
        total += np.where(inside, x[(slice(None), slice(None), *place)], 0)
    return np.asarray(total / _divisors(attrs, spatial, pooled)).astype(x.dtype)


def _evaluate_avg_pool_gradient(attrs: Attributes, g: Array, *_: Array) -> Array:
    shape, pooled = attrs["shape"], g.shape[2:]
    out = np.zeros(shape, g.dtype)
    share = g / _divisors(attrs, shape[2:], pooled)
    for place, inside in _windows(shape[2:], pooled, attrs):
        np.add.at(out, (slice(None), slice(None), *place), np.where(inside, share, 0))
    return out


def _per_window(function: str, backward: bool = False) -> Any:
    return lambda call: {function: _nest_pool(call, backward).points}


register(
    OpKind(
        "max_pool", Family.VECTOR, _infer_max_pool, _evaluate_max_pool, _nest_pool, windows, _per_window("max"),
        _pool_rule, ("MaxPool",),
        narrow=lambda a: Narrow(1, TAP_INDEX, "index_dtype") if math.prod(a["kernel"]) <= MOST_TAPS else None,
    ),
    OpKind(
        "max_pool_gradient", Family.VECTOR, of_given_shape, _evaluate_max_pool_gradient,
        lambda call: _nest_pool(call, True), windows, lambda call: {"add": call.inputs[0].elements},
        no_onnx=BACKWARD, retained=(2,),
    ),
    OpKind(
        "avg_pool", Family.VECTOR, _infer_pool, _evaluate_avg_pool, _nest_pool, windows, _per_window("add"),
        _pool_rule, ("AveragePool",),
    ),
    OpKind(
        "avg_pool_gradient", Family.VECTOR, of_given_shape, _evaluate_avg_pool_gradient,
        lambda call: _nest_pool(call, True), windows, _per_window("add", backward=True),
        no_onnx=BACKWARD, retained=(1,),
    ),
)  # fmt: skip


# --- resampling: a sparse linear map per axis -------------------------------------------------------------------------


def axis_weights(size: int, out: int, scale: float, mode: str, align_corners: bool) -> tuple[Array, Array]:
    """For each output position: the (at most two) input positions and their weights."""
    place = np.arange(out)
    if mode == "nearest":
        low = np.minimum(np.floor(place / scale).astype(np.int64), size - 1)
        return np.stack([low, low]), np.stack([np.ones(out), np.zeros(out)])
    aligned = place * ((size - 1) / max(out - 1, 1))
    real = aligned if align_corners else np.maximum((place + 0.5) / scale - 0.5, 0.0)
    low = np.minimum(np.floor(real).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    fraction = real - low
    return np.stack([low, high]), np.stack([1 - fraction, fraction])


def _infer_resize(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x = inputs[0]
    if attrs["mode"] not in ("nearest", "linear"):
        raise ModelError(f"resize mode {attrs['mode']!r} is not one of linear, nearest")
    return (Output((*x.shape[:2], *attrs["spatial"]), x.dtype),)


def _matrices(attrs: Attributes, spatial: tuple[int, ...], out: tuple[int, ...]) -> list[Array]:
    result = []
    for size, target, scale in zip(spatial, out, attrs["scales"], strict=True):
        positions, weights = axis_weights(size, target, scale, attrs["mode"], attrs["align_corners"])
        matrix = np.zeros((target, size))
        for row in (0, 1):
            np.add.at(matrix, (np.arange(target), positions[row]), weights[row])
        result.append(matrix)
    return result


def _apply(matrices: list[Array], x: Array) -> Array:
    for axis, matrix in enumerate(matrices):
        x = np.moveaxis(np.tensordot(matrix.astype(x.dtype), x, axes=(1, axis + 2)), 0, axis + 2)
    return x


def _resize_rule(b: Backward) -> tuple[str | None, ...]:
    keep = {key: b.attrs[key] for key in ("mode", "scales", "align_corners")}
    return (b.emit("resize_gradient", b.gradient, shape=b.shape(0), **keep),)


def _nest_resize(call: Call) -> LoopNest:
    wide = max(call.inputs[0], call.out, key=lambda tensor: tensor.elements)
    every = elementwise(Call((), (wide,), call.attrs)).writes[0].indices
    return over(wide.shape, call, [every, every])


def _resize_work(call: Call) -> dict[str, int]:
    if call.attrs["mode"] == "nearest":
        return {}
    taps = 2 ** len(call.attrs["scales"])
    return {"mul": taps * max(call.inputs[0].elements, call.out.elements)}


register(
    OpKind(
        "resize", Family.VECTOR, _infer_resize,
        lambda attrs, x: _apply(_matrices(attrs, x.shape[2:], attrs["spatial"]), x), _nest_resize, displaced,
        _resize_work, _resize_rule, ("Resize", "Upsample"),
    ),
    OpKind(
        "resize_gradient", Family.VECTOR, of_given_shape,
        lambda attrs, g: _apply([matrix.T for matrix in _matrices(attrs, attrs["shape"][2:], g.shape[2:])], g),
        _nest_resize, displaced, _resize_work, no_onnx=BACKWARD,
    ),
)  # fmt: skip


# --- adaptive average: the output size is given, windows may differ in size and overlap -------------------------------


def adaptive_matrix(size: int, out: int) -> Array:
    """The averages of one axis as a matrix (out, size): window i reaches from ⌊i·size/out⌋ to ⌈(i+1)·size/out⌉."""
    place, position = np.arange(out)[:, None], np.arange(size)
    inside = (position >= place * size // out) & (position < -(-(place + 1) * size // out))
    return np.asarray(inside / inside.sum(axis=1, keepdims=True))


def _infer_adaptive(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, out = inputs[0], attrs["spatial"]
    if len(x.shape) != len(out) + 2 or min(*x.shape[2:], *out) < 1:
        raise ModelError(f"cannot average {x} to {list(out)}")
    return (Output((*x.shape[:2], *out), x.dtype),)


def _adaptive_matrices(spatial: tuple[int, ...], out: tuple[int, ...]) -> list[Array]:
    return [adaptive_matrix(size, target) for size, target in zip(spatial, out, strict=True)]


def _nest_adaptive(call: Call) -> LoopNest:
    """Each axis as long as the longer side has it; the input that the framework merely keeps is not read."""
    shape = tuple(max(sizes) for sizes in zip(call.inputs[0].shape, call.out.shape, strict=True))
    every = axes_of(range(len(shape)))
    return over(shape, call, [every, *([None] * (len(call.inputs) - 1)), every])


def _adaptive_work(call: Call) -> dict[str, int]:
    """One addition per element of every window."""
    x, y = call.inputs[-1].shape, (call.out if len(call.inputs) == 1 else call.inputs[0]).shape
    taps = (int(np.count_nonzero(matrix)) for matrix in _adaptive_matrices(x[2:], y[2:]))
    return {"add": math.prod(x[:2]) * math.prod(taps)}


register(
    OpKind(
        "adaptive_avg_pool", Family.VECTOR, _infer_adaptive,
        lambda attrs, x: _apply(_adaptive_matrices(x.shape[2:], attrs["spatial"]), x), _nest_adaptive, displaced,
        _adaptive_work, lambda b: (b.emit("adaptive_avg_pool_gradient", b.gradient, b.inputs[0], shape=b.shape(0)),),
        no_onnx="no standard operator; files write averages over windows as matrix products",
    ),
    OpKind(
        "adaptive_avg_pool_gradient", Family.VECTOR, of_given_shape,
        lambda attrs, g, *_: _apply([matrix.T for matrix in _adaptive_matrices(attrs["shape"][2:], g.shape[2:])], g),
        _nest_adaptive, displaced, _adaptive_work, no_onnx=BACKWARD, retained=(1,),
    ),
)  # fmt: skip
