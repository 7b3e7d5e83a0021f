"""Pooling with its gradients, and resampling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from monet.graph.kind import Array
from monet.graph.operators.pooling import TAP_INDEX, adaptive_matrix, axis_weights
from monet.report.onnx.body import Body, Value
from monet.report.onnx.operators.convolution import scatter_windows, window_attributes
from monet.report.onnx.operators.shape import scatter_axis
from monet.report.onnx.table import writes


def _window(attrs: Mapping[str, Any], sizes: Sequence[int], counts: Sequence[int]) -> dict[str, Any]:
    """Attributes of a standard pool. Rounding up is written out as padding, so that no runtime's rule is relied on."""
    before = [pads[0] for pads in attrs["padding"]]
    after = [pads[1] for pads in attrs["padding"]]
    if attrs["ceil"]:
        after = [
            max(0, (count - 1) * stride + dilation * (taps - 1) + 1 - size - first)
            for size, count, first, taps, stride, dilation in zip(
                sizes, counts, before, attrs["kernel"], attrs["stride"], attrs["dilation"], strict=True
            )
        ]
    return window_attributes(attrs["kernel"], attrs) | {"pads": [*before, *after]}


def _starts(b: Body, attrs: Mapping[str, Any], axis: int, count: int) -> Value:
    """Where each window starts on one axis of the input, shaped to broadcast over the pooled plane."""
    rank = len(attrs["kernel"])
    stride, before = int(attrs["stride"][axis]), int(attrs["padding"][axis][0])
    start = b.counted(count) * stride - before
    return start.reshape([count if place == axis else 1 for place in range(rank)])


def _digits(b: Body, number: Value, bases: Sequence[int]) -> list[Value]:
    """Coordinates of row-major positions ``number`` in a box of ``bases``."""
    digits = []
    for axis in range(len(bases)):
        digit, below = number, math.prod(bases[axis + 1 :])
        if below > 1:
            digit = digit / below
        digits.append(b.node("Mod", digit, b.scalar(bases[axis], "int64")) if axis else digit)
    return digits


def _position(digits: Sequence[Value], bases: Sequence[int]) -> Value:
    total = digits[0]
    for digit, base in zip(digits[1:], bases[1:], strict=True):
        total = total * base + digit
    return total


@writes("max_pool")
def _max_pool(b: Body) -> tuple[Value, ...]:
    """ONNX numbers winners over the whole tensor, the framework in their plane, the compact form in their window."""
    (x,), attrs, spatial = b.native("MaxPool"), b.call.attrs, b.shape(0)[2:]
    pooled = b.call.out.shape[2:]
    window = _window(attrs, spatial, pooled)
    y, place = b.node_all("MaxPool", x, dtypes=(x.dtype, "int64"), **window)
    place = b.node("Mod", place, b.scalar(math.prod(spatial), "int64"))
    if attrs["index_dtype"] != TAP_INDEX:
        return y, place
    taps = [
        (digit - _starts(b, attrs, axis, pooled[axis])) / attrs["dilation"][axis]
        for axis, digit in enumerate(_digits(b, place, spatial))
    ]
    return y, _position(taps, attrs["kernel"])


@writes("max_pool_gradient")
def _max_pool_gradient(b: Body) -> Value:
    g, chosen = b.inputs[:2]
    attrs, shape, pooled = b.call.attrs, b.call.out.shape, b.shape(0)[2:]
    place, planes = chosen.cast("int64"), shape[0] * shape[1]
    if attrs["index_dtype"] == TAP_INDEX:
        coordinates = [
            _starts(b, attrs, axis, pooled[axis]) + digit * attrs["dilation"][axis]
            for axis, digit in enumerate(_digits(b, place, attrs["kernel"]))
        ]
        place = _position(coordinates, shape[2:])
    flat = (planes, math.prod(pooled))
    zeros = b.full((planes, math.prod(shape[2:])), 0, g.dtype)
    out = b.node("ScatterElements", zeros, place.reshape(flat), g.reshape(flat), axis=1, reduction="add")
    return out.reshape(shape)


def _divisors(attrs: Mapping[str, Any], sizes: Sequence[int], counts: Sequence[int]) -> Array:
    """How many elements each window averages, one axis at a time."""
    total = np.ones((1,) * len(counts))
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        before, after = attrs["padding"][axis]
        start = np.arange(count) * attrs["stride"][axis] - before
        stop = np.minimum(start + attrs["kernel"][axis], size + after)
        if not attrs["count_padding"]:
            start, stop = np.maximum(start, 0), np.minimum(stop, size)
        total = total * (stop - start).reshape([count if place == axis else 1 for place in range(len(counts))])
    return total if np.ptp(total) else total.reshape(-1)[:1].reshape((1,) * total.ndim)


@writes("avg_pool")
def _avg_pool(b: Body) -> Value:
    attrs, spatial, pooled = b.call.attrs, b.shape(0)[2:], b.call.out.shape[2:]
    window = _window(attrs, spatial, pooled)
    if not attrs["ceil"] and set(attrs["dilation"]) == {1}:
        (x,) = b.native("AveragePool")
        return b.node("AveragePool", x, count_include_pad=int(attrs["count_padding"]), **window)
    (x,) = b.inputs
    share = math.prod(attrs["kernel"]) / _divisors(attrs, spatial, pooled)
    return b.node("AveragePool", x, count_include_pad=1, **window) * b.array(share, x.dtype)


@writes("avg_pool_gradient")
def _avg_pool_gradient(b: Body) -> Value:
    """Every window hands its share to all its elements: a transposed convolution with ones, plane by plane."""
    g, attrs, shape, pooled = b.inputs[0], b.call.attrs, b.call.out.shape, b.shape(0)[2:]
    share = g / b.array(_divisors(attrs, shape[2:], pooled), g.dtype)
    planes = share.reshape((shape[0] * shape[1], 1, *pooled))
    ones = b.full((1, 1, *attrs["kernel"]), 1, g.dtype)
    out = scatter_windows(b, (planes, ones), pooled, attrs["kernel"], shape[2:], attrs, 1)
    return out.reshape(shape)


# --- resampling: on every axis, each output takes a share of (at most) two inputs -------------------------------------


def _is_standard(attrs: Mapping[str, Any], sizes: Sequence[int], out: Sequence[int]) -> bool:
    """Whether a runtime that works the scale out from the sizes, in fp32, takes the same positions.

    Two or three axes: linear interpolation on a single one is not widely implemented.
    """
    exact = all(size * scale == target for size, scale, target in zip(sizes, attrs["scales"], out, strict=True))
    if attrs["mode"] == "nearest":
        return exact and all(scale == int(scale) for scale in attrs["scales"])
    return len(sizes) == 2 and (exact or attrs["align_corners"]) and 1 not in (*sizes, *out)


@writes("resize")
def _resize(b: Body) -> Value:
    attrs, sizes, target = b.call.attrs, b.shape(0)[2:], b.call.out.shape[2:]
    if _is_standard(attrs, sizes, target):
        (x,) = b.native("Resize")
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if attrs["mode"] == "linear":
            mapping = "align_corners" if attrs["align_corners"] else "half_pixel"
            how = {"mode": "linear", "coordinate_transformation_mode": mapping}
        return b.node("Resize", x, None, None, b.integers(*b.call.out.shape), **how)
    (x,) = b.inputs
    for axis, (size, count, scale) in enumerate(zip(sizes, target, attrs["scales"], strict=True), start=2):
        low, high, shares = _axis(b, size, count, scale, len(sizes) + 1 - axis)
        y = b.node("Gather", x, low, axis=axis)
        x = y if shares is None else y * shares[0] + b.node("Gather", x, high, axis=axis) * shares[1]
    return x


@writes("resize_gradient")
def _resize_gradient(b: Body) -> Value:
    (x,), attrs, shape, current = b.inputs, b.call.attrs, b.call.out.shape, list(b.shape(0))
    for axis, scale in enumerate(attrs["scales"], start=2):
        low, high, shares = _axis(b, shape[axis], current[axis], scale, len(shape) - 1 - axis)
        parts = [(low, x)] if shares is None else [(low, x * shares[0]), (high, x * shares[1])]
        moved = [scatter_axis(b, part, place, shape[axis], axis, tuple(current)) for place, part in parts]
        x = moved[0] + moved[1] if len(moved) > 1 else moved[0]
        current[axis] = shape[axis]
    return x


def _axis(b: Body, size: int, count: int, scale: float, behind: int) -> tuple[Value, Value, tuple[Value, Value] | None]:
    """(lower positions, upper positions, their shares or None where the lower takes all); ``behind`` axes follow."""
    attrs = b.call.attrs
    positions, weights = axis_weights(size, count, scale, attrs["mode"], attrs["align_corners"])
    low, high = (b.integers(*row) for row in positions)
    if attrs["mode"] == "nearest":
        return low, high, None
    first, second = (b.array(row.reshape(-1, *([1] * behind)), b.compute) for row in weights)
    return low, high, (first, second)


# --- adaptive average: a matrix per axis ------------------------------------------------------------------------------


def _by_matrices(b: Body, matrices: Sequence[Array]) -> Value:
    """The first input with the elements of each spatial axis combined by a matrix (new size, old size)."""
    x, rank = b.inputs[0], len(matrices) + 2
    for axis, matrix in enumerate(matrices, start=2):
        order = [rank - 1 if place == axis else axis if place == rank - 1 else place for place in range(rank)]
        x = b.node("MatMul", x.transpose(order), b.array(matrix.T, x.dtype)).transpose(order)
    return x


@writes("adaptive_avg_pool")
def _adaptive_avg_pool(b: Body) -> Value:
    sizes = zip(b.shape(0)[2:], b.call.out.shape[2:], strict=True)
    return _by_matrices(b, [adaptive_matrix(size, out) for size, out in sizes])


@writes("adaptive_avg_pool_gradient")
def _adaptive_avg_pool_gradient(b: Body) -> Value:
    sizes = zip(b.call.out.shape[2:], b.shape(0)[2:], strict=True)
    return _by_matrices(b, [adaptive_matrix(size, out).T for size, out in sizes])
