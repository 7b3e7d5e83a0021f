"""Windows taken out of a tensor and put back: unfold, fold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from monet.frontends.torch.operators.convolution import batched, unbatched
from monet.frontends.torch.translation import Ref, Translation, aten


def _places(t: Translation, a: Any, sizes: tuple[int, ...]) -> Ref:
    """Position in the padded plane of every tap (outer) of every window (inner), as a flat list."""
    positions = []
    for size, taps, dilation, stride in zip(sizes, a.kernel_size, a.dilation, a.stride, strict=True):
        windows = (size - dilation * (taps - 1) - 1) // stride + 1
        positions.append(np.arange(taps)[:, None] * dilation + np.arange(windows) * stride)
    down, across = positions
    place = down[:, None, :, None] * sizes[1] + across[None, :, None, :]
    return Ref(t.builder.constant("places", place.ravel().astype(np.int64), "int64"))


def _padded(a: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size + 2 * pad for size, pad in zip(sizes, a.padding, strict=True))


@aten("im2col.default")
def _im2col(t: Translation, a: Any) -> Ref:
    """Windows of an image side by side; the gradient adds them up where they overlap."""
    x, added = batched(t, a.self, 2)
    if any(a.padding):
        pairs = ((0, 0), (0, 0), *((pad, pad) for pad in a.padding))
        x = t.emit("pad", x, padding=pairs, mode="constant", value=0.0)
    batch, channels, *sizes = t.shape(x)
    flat = t.reshape(x, (batch, channels, math.prod(sizes)))
    columns = t.emit("gather", flat, _places(t, a, tuple(sizes)), axis=2)
    out = t.reshape(columns, (batch, channels * math.prod(a.kernel_size), t.out_shape[-1]))
    return unbatched(t, out, added)


@aten("col2im.default")
def _col2im(t: Translation, a: Any) -> Ref:
    x, added = batched(t, a.self, 1)
    sizes = _padded(a, tuple(a.output_size))
    batch, rows, windows = t.shape(x)
    taps = math.prod(a.kernel_size)
    flat = t.reshape(x, (batch, rows // taps, taps * windows))
    plane = t.fill(0, (batch, rows // taps, math.prod(sizes)), t.out_dtype)
    summed = t.emit("index_add", plane, _places(t, a, sizes), flat, axis=2)
    out = t.reshape(summed, (batch, rows // taps, *sizes))
    for axis, (pad, size) in enumerate(zip(a.padding, a.output_size, strict=True), start=2):
        out = t.slice(out, axis, pad, pad + size)
    return unbatched(t, out, added)


@aten("unfold.default")
def _unfold(t: Translation, a: Any) -> Ref:
    """Windows of one axis, their elements on a new last axis; a view unless windows overlap."""
    axis, shape = t.axis(a.self, a.dimension), t.shape(a.self)
    windows = t.out_shape[axis]
    if a.step == a.size:
        cut = t.slice(a.self, axis, 0, windows * a.size)
        parts = t.emit("reshape", cut, shape=(*shape[:axis], windows, a.size, *shape[axis + 1 :]))
    else:
        place = (np.arange(windows)[:, None] * a.step + np.arange(a.size)).astype(np.int64)
        parts = t.emit("gather", a.self, t.builder.constant("places", place, "int64"), axis=axis)
    order = [other for other in range(len(shape) + 1) if other != axis + 1]
    return t.transpose(parts, [*order, axis + 1])
