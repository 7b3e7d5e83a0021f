"""Convolution, its transpose and its weight gradient: three kinds, closed under differentiation.

The input gradient of ``conv`` is ``conv_transpose`` and the reverse; both share ``conv_weight_gradient``. Each is one
direct loop nest over N, G, K, C, output positions and filter taps, so all three have the same number of
multiply-accumulates at every stride, dilation and group count. Layout is (N, C, spatial…); weights are
(K, C/groups, taps…) with K the channels of the *convolved* side, as the framework stores them in both directions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import BACKWARD, Array, Call, Contracted, Factor, Family, OpKind, Output, convolves, register
from monet.graph.loop_nest import LoopNest, Operand, index
from monet.graph.op import Attributes
from monet.graph.operators.products import accumulate, product
from monet.graph.tensor import Tensor

SPATIAL = ("Z", "Y", "X")


def window_output(size: int, taps: int, stride: int, dilation: int, before: int, after: int) -> int:
    """Positions a window of ``taps`` visits on a padded axis of ``size``."""
    return (size + before + after - dilation * (taps - 1) - 1) // stride + 1


def _visited(x: tuple[int, ...], w: tuple[int, ...], attrs: Mapping[str, Any]) -> tuple[int, ...]:
    sizes = zip(x[2:], w[2:], attrs["stride"], attrs["dilation"], attrs["padding"], strict=True)
    return tuple(window_output(size, taps, stride, dilation, *pad) for size, taps, stride, dilation, pad in sizes)


def check_window(attrs: Attributes) -> None:
    """A window moves forward: strides, dilations, sizes and groups of at least one."""
    for name in ("stride", "dilation", "kernel"):
        if min(attrs.get(name, ()), default=1) < 1:
            raise ModelError(f"a {name} of {list(attrs[name])}: at least 1 along every axis is needed")
    if attrs.get("groups", 1) < 1:
        raise ModelError(f"{attrs['groups']} groups: at least 1 is needed")


def _check(x: Tensor, w: Tensor, attrs: Attributes, channels: int, expected: int) -> None:
    rank = len(x.shape) - 2
    check_window(attrs)
    if rank < 1 or len(w.shape) != rank + 2 or len(attrs["stride"]) != rank:
        raise ModelError(f"a convolution of rank {rank} needs a weight of {rank + 2} axes, got {list(w.shape)}")
    if channels != expected:
        raise ModelError(f"the input has {channels} channels, the weight (with its groups) expects {expected}")


def _infer_conv(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, w = inputs[:2]
    groups = attrs["groups"]
    _check(x, w, attrs, x.shape[1], w.shape[1] * groups)
    if w.shape[0] % groups:
        raise ModelError(f"{w.shape[0]} output channels do not divide into {groups} groups")
    spatial = _visited(x.shape, w.shape, attrs)
    if min(spatial) < 1:
        raise ModelError(f"a window of {list(w.shape[2:])} does not fit the padded input {list(x.shape[2:])}")
    return (Output((x.shape[0], w.shape[0], *spatial), attrs.get("dtype", x.dtype)),)


def _infer_transpose(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    g, w = inputs[:2]
    _check(g, w, attrs, g.shape[1], w.shape[0])
    return (Output((g.shape[0], w.shape[1] * attrs["groups"], *attrs["spatial"]), attrs.get("dtype", g.dtype)),)


def _infer_weight_gradient(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, g = inputs
    return (Output((g.shape[1], x.shape[1] // attrs["groups"], *attrs["taps"]), attrs.get("dtype", x.dtype)),)


# --- loop nests: x is the wide (windowed) side, y the convolved side, whichever is read or written -----------------


def _nest(
    x: Tensor, w: Tensor, y: Tensor, slots: tuple[int, int, int], written: str, attrs: Attributes, gather: bool = False
) -> LoopNest:
    """``gather``: a window over y, the filter walked backwards, instead of a window over x; the sizes are the same."""
    groups, names, taps = attrs["groups"], SPATIAL[-(len(x.shape) - 2) :], w.shape[2:]
    k_group, c_group = y.shape[1] // groups, x.shape[1] // groups
    dims = (
        ("N", x.shape[0]),
        ("G", groups),
        ("K", k_group),
        ("C", c_group),
        *((f"O{axis}", size) for axis, size in zip(names, y.shape[2:], strict=True)),
        *((f"F{axis}", size) for axis, size in zip(names, taps, strict=True)),
    )
    x_at = y_at = tuple(index(f"O{axis}") for axis in names)
    steps = zip(names, taps, attrs["stride"], attrs["dilation"], attrs["padding"], strict=True)
    if gather:
        w_at = tuple(index((f"F{axis}", -1), offset=size - 1) for axis, size in zip(names, taps, strict=True))
        y_at = tuple(
            index(f"O{axis}", (f"F{axis}", dilation), offset=pad[0] - dilation * (size - 1))
            for axis, size, _, dilation, pad in steps
        )
    else:
        w_at = tuple(index(f"F{axis}") for axis in names)
        x_at = tuple(index((f"O{axis}", step), (f"F{axis}", gap), offset=-pad[0]) for axis, _, step, gap, pad in steps)
    k_index, c_index = index(("G", k_group), "K"), index(("G", c_group), "C")
    maps = {
        "x": (x, slots[0], (index("N"), c_index, *x_at)),
        "w": (w, slots[1], (k_index, index("C"), *w_at)),
        "y": (y, slots[2], (index("N"), k_index, *y_at)),
    }
    operands = sorted(
        (Operand(name, slot, t.dtype, t.shape, axes, name == written) for name, (t, slot, axes) in maps.items()),
        key=lambda operand: operand.slot,
    )
    return LoopNest(dims, tuple(operands))


def _nest_conv(call: Call) -> LoopNest:
    x, w = call.inputs[:2]
    return _nest(x, w, call.out, (0, 1, len(call.inputs)), "y", call.attrs)


def _nest_transpose(call: Call) -> LoopNest:
    """Scatter form: the forward's nest with a windowed output. Where stride is one and sizes are kept, the gather form.

    Both have the same points; the second walks the filter backwards over a window of y, writes every element of x in
    one place, and so can be cut along rows.
    """
    y, w = call.inputs[:2]
    gather = set(call.attrs["stride"]) == {1} and y.shape[2:] == call.out.shape[2:]
    return _nest(call.out, w, y, (len(call.inputs), 1, 0), "x", call.attrs, gather)


def _nest_weight_gradient(call: Call) -> LoopNest:
    x, y = call.inputs
    return _nest(x, call.out, y, (0, 2, 1), "w", call.attrs)


def _work(nest: Any) -> Any:
    def work(call: Call) -> dict[str, int]:
        counts = {"mac": nest(call).points}
        if len(call.inputs) == 3:  # a fused bias
            counts["add"] = call.out.elements
        return counts

    return work


# --- NumPy meaning: one matrix product per filter tap ---------------------------------------------------------------


def _taps(x: Array, spatial: tuple[int, ...], taps: tuple[int, ...], attrs: Mapping[str, Any]) -> Iterator[Any]:
    """(tap, the slice of the padded input that this tap multiplies), for every filter tap."""
    for tap in itertools.product(*map(range, taps)):
        starts = [position * dilation for position, dilation in zip(tap, attrs["dilation"], strict=True)]
        window = tuple(
            slice(start, start + stride * (size - 1) + 1, stride)
            for start, stride, size in zip(starts, attrs["stride"], spatial, strict=True)
        )
        yield tap, x[(slice(None), slice(None), *window)]


def _padded(x: Array, attrs: Mapping[str, Any]) -> Array:
    """Pad the spatial axes with zeros; a negative amount crops."""
    widths = [(max(0, before), max(0, after)) for before, after in attrs["padding"]]
    crop = tuple(
        slice(max(0, -before), size - max(0, -after))
        for (before, after), size in zip(attrs["padding"], x.shape[2:], strict=True)
    )
    return np.pad(x[(slice(None), slice(None), *crop)], ((0, 0), (0, 0), *widths))


def _evaluate_conv(attrs: Attributes, x: Array, w: Array, bias: Array | None = None) -> Array:
    groups = attrs["groups"]
    spatial = _visited(x.shape, w.shape, attrs)
    weight = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    out = np.zeros((x.shape[0], groups, weight.shape[1], math.prod(spatial)), x.dtype)
    for tap, patch in _taps(_padded(x, attrs), spatial, w.shape[2:], attrs):
        columns = patch.reshape(x.shape[0], groups, -1, math.prod(spatial))
        out = accumulate(attrs, out, weight[(Ellipsis, *tap)], columns)
    out = out.reshape(x.shape[0], w.shape[0], *spatial)
    return out if bias is None else out + bias.reshape(-1, *([1] * len(spatial)))


def _evaluate_transpose(attrs: Attributes, g: Array, w: Array, bias: Array | None = None) -> Array:
    groups, spatial = attrs["groups"], g.shape[2:]
    weight = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    pads = zip(attrs["spatial"], attrs["padding"], strict=True)
    sizes = [size + before + max(0, after) for size, (before, after) in pads]
    out = np.zeros((g.shape[0], w.shape[1] * groups, *sizes), g.dtype)
    columns = g.reshape(g.shape[0], groups, -1, math.prod(spatial))
    for tap, patch in _taps(out, spatial, w.shape[2:], attrs):
        earlier = patch.reshape(g.shape[0], groups, -1, math.prod(spatial))
        left = np.swapaxes(weight[(Ellipsis, *tap)], -1, -2)
        patch[...] = accumulate(attrs, earlier, left, columns).reshape(patch.shape)
    inner = tuple(slice(low, low + size) for size, (low, _) in zip(attrs["spatial"], attrs["padding"], strict=True))
    out = out[(slice(None), slice(None), *inner)]
    return out if bias is None else out + bias.reshape(-1, *([1] * len(spatial)))


def _by_position(x: Array, groups: int) -> Array:
    """(groups, channels of a group, all positions of all samples)."""
    by_group = x.reshape(x.shape[0], groups, -1, math.prod(x.shape[2:]))
    return np.moveaxis(by_group, 0, 2).reshape(groups, by_group.shape[2], -1)


def _evaluate_weight_gradient(attrs: Attributes, x: Array, g: Array) -> Array:
    groups, spatial = attrs["groups"], g.shape[2:]
    columns = _by_position(g, groups)
    out = np.zeros((groups, columns.shape[1], x.shape[1] // groups, *attrs["taps"]), x.dtype)
    for tap, patch in _taps(_padded(x, attrs), spatial, attrs["taps"], attrs):
        out[(Ellipsis, *tap)] = product(attrs, columns, np.swapaxes(_by_position(patch, groups), -1, -2))
    return out.reshape(g.shape[1], x.shape[1] // groups, *attrs["taps"])


# --- gradient rules -------------------------------------------------------------------------------------------------


def _gradient(b: Backward) -> tuple[str | None, ...]:
    (x, w), g, dx, dw, db = b.inputs[:2], b.gradient, None, None, None
    geometry = {key: b.attrs[key] for key in ("stride", "padding", "dilation", "groups")}
    convolved = b.op.kind == "conv"
    if b.needs[0] and convolved:
        dx = b.emit("conv_transpose", g, w, spatial=b.shape(0)[2:], **geometry)
    elif b.needs[0]:
        dx = b.emit("conv", g, w, **geometry)
    if b.needs[1]:
        sides = (x, g) if convolved else (g, x)
        dw = b.emit("conv_weight_gradient", *sides, taps=b.shape(1)[2:], **geometry)
    if len(b.inputs) > 2 and b.needs[2]:
        db = b.emit("reduce_sum", g, axes=(0, *range(2, len(b.tensor(g).shape))), keepdims=False)
    return (dx, dw, db)[: len(b.inputs)]


def _low_rank(call: Call, rank: int) -> tuple[Factor, Factor]:
    """The layer's own window, stride and padding down to ``rank`` channels, then 1×1."""
    weight, axes = call.inputs[1].shape, len(call.inputs[1].shape) - 2
    plain = {"stride": (1,) * axes, "padding": ((0, 0),) * axes, "dilation": (1,) * axes, "groups": 1}
    down = Factor((rank, call.inputs[0].shape[1], *weight[2:]), {**call.attrs, "groups": 1})
    return down, Factor((weight[0], rank, *([1] * axes)), plain)


def _contracted_conv(_: Call) -> tuple[Contracted, Contracted]:
    return Contracted(1, 0), Contracted(1, 0)


def _contracted_transpose(_: Call) -> tuple[Contracted, Contracted]:
    return Contracted(1, 0), Contracted(0, 1)


def _contracted_weight_gradient(_: Call) -> tuple[Contracted, Contracted]:
    return Contracted(0, 1), Contracted(0, 1)


register(
    OpKind(
        "conv", Family.CONVOLUTION, _infer_conv, _evaluate_conv, _nest_conv, convolves, _work(_nest_conv),
        _gradient, ("Conv",), low_rank=_low_rank, contraction=_contracted_conv,
    ),
    OpKind(
        "conv_transpose", Family.CONVOLUTION, _infer_transpose, _evaluate_transpose, _nest_transpose, convolves,
        _work(_nest_transpose), _gradient, ("ConvTranspose",), contraction=_contracted_transpose,
    ),
    OpKind(
        "conv_weight_gradient", Family.CONVOLUTION, _infer_weight_gradient, _evaluate_weight_gradient,
        _nest_weight_gradient, convolves, lambda call: {"mac": _nest_weight_gradient(call).points}, no_onnx=BACKWARD,
        contraction=_contracted_weight_gradient,
    ),
)  # fmt: skip
