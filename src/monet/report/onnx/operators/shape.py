"""Views and moves."""

from __future__ import annotations

import numpy as np

from monet.graph.op import Attributes
from monet.graph.operators.reduction import normalise_axes
from monet.report.onnx.body import Body, Value
from monet.report.onnx.table import WRITERS, writes

_BEFORE_FIRST = -(2**31)  # an end that lies before every element, for slices that run backwards


def scatter_axis(b: Body, x: Value, positions: Value, size: int, axis: int, shape: tuple[int, ...]) -> Value:
    """Add the elements of ``x`` (of ``shape``) along ``axis`` into ``positions`` of an axis of ``size``."""
    order = (axis, *(other for other in range(len(shape)) if other != axis))
    rest = [shape[other] for other in order[1:]]
    out = b.scatter_rows(size, positions, x.transpose(order), rest)
    return out.transpose([int(place) for place in np.argsort(order)])


WRITERS.rows(
    {
        "reshape": lambda b: b.raw[0].reshape(b.call.out.shape),
        "transpose": lambda b: b.node("Transpose", b.raw[0], perm=list(b.call.attrs["order"])),
        "expand": lambda b: b.raw[0].expand(b.call.out.shape),
        "slice": lambda b: b.slice(b.raw[0], _cuts(b.call.attrs, b.shape(0))),
        "copy": lambda b: b.node("Identity", b.raw[0]),
        "detach": lambda b: b.node("Identity", b.raw[0]),
        "read_as": lambda b: b.node("Identity", b.raw[0]),
        "repeat": lambda b: b.node("Tile", b.raw[0], b.integers(*b.call.attrs["times"])),
    }
)


def _cuts(attrs: Attributes, shape: tuple[int, ...]) -> dict[int, tuple[int, int, int]]:
    """axis → (start, stop, step), as positions of an axis of known size."""
    rows = zip(attrs["axes"], attrs["starts"], attrs["stops"], attrs["steps"], strict=True)
    return {axis: slice(start, stop, step).indices(shape[axis]) for axis, start, stop, step in rows}


@writes("split")
def _split(b: Body) -> tuple[Value, ...]:
    (x,), sizes = b.raw, b.call.attrs["sizes"]
    return b.node_all(
        "Split", x, b.integers(*sizes), dtypes=(x.dtype,) * len(sizes), axis=b.call.attrs["axis"]
    )  # fmt: skip


@writes("slice_gradient")
def _slice_gradient(b: Body) -> Value:
    """Zeros all around; where a step skips elements, first zeros between, by padding an axis put in behind."""
    (x,), shape, current = b.raw, b.call.out.shape, list(b.shape(0))
    before, after = [0] * len(shape), [0] * len(shape)
    for axis, (start, _, step) in sorted(_cuts(b.call.attrs, shape).items()):
        if step > 1:
            apart = [*current[: axis + 1], 1, *current[axis + 1 :]]
            gap = [step - 1 if place == axis + 1 else 0 for place in range(len(apart))]
            current[axis] *= step
            x = x.reshape(apart).pad([0] * len(apart), gap).reshape(current)
        before[axis], after[axis] = start, shape[axis] - start - current[axis]
    return x.pad(before, after)


@writes("concat")
def _concat(b: Body) -> Value:
    parts = [value.cast(b.call.out.dtype) for value in b.raw]
    return b.node("Concat", *parts, axis=b.call.attrs["axis"])


@writes("pad")
def _pad(b: Body) -> Value:
    (x,), padding, mode = b.raw, b.call.attrs["padding"], b.call.attrs["mode"]
    before, after = ([pads[end] for pads in padding] for end in (0, 1))
    if mode == "constant":
        value = b.scalar(b.call.attrs["value"], x.dtype)
        return b.node("Pad", x, b.integers(*before, *after), value, mode="constant")
    cuts = {
        axis: (max(0, -first), size + min(0, last), 1)
        for axis, (size, first, last) in enumerate(zip(b.shape(0), before, after, strict=True))
        if first < 0 or last < 0
    }
    widths = b.integers(*(max(0, width) for width in (*before, *after)))
    return b.node("Pad", b.slice(x, cuts), widths, mode=mode)


@writes("pad_gradient")
def _pad_gradient(b: Body) -> Value:
    """Mirrored and repeated edges are sums over the positions that an element was copied to, axis by axis."""
    (x,), shape, current = b.inputs, b.call.out.shape, list(b.shape(0))
    mode = "reflect" if b.call.attrs["mode"] == "reflect" else "edge"
    for axis, (before, after) in enumerate(b.call.attrs["padding"]):
        if before or after:
            positions = np.pad(np.arange(shape[axis]), (before, after), mode=mode)  # type: ignore[call-overload]
            x = scatter_axis(b, x, b.integers(*positions), shape[axis], axis, tuple(current))
            current[axis] = shape[axis]
    return x


@writes("flip")
def _flip(b: Body) -> Value:
    axes = normalise_axes(b.call.attrs["axes"], len(b.shape(0)))
    return b.slice(b.raw[0], dict.fromkeys(axes, (-1, _BEFORE_FIRST, -1)))


@writes("roll")
def _roll(b: Body) -> Value:
    (x,), shape = b.raw, b.shape(0)
    for axis, shift in zip(b.call.attrs["axes"], b.call.attrs["shifts"], strict=True):
        axis %= len(shape)
        cut = (shape[axis] - shift) % shape[axis]
        if cut:
            head, tail = b.slice(x, {axis: (0, cut, 1)}), b.slice(x, {axis: (cut, shape[axis], 1)})
            x = b.node("Concat", tail, head, axis=axis)
    return x
