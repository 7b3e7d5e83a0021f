"""Operators that move or rename elements: views (aliases, nothing executed) and the moves that copy.

Aliasing follows the framework: reshape is a view where the strides allow it and a copy where they do not; transpose,
expand, slice and split are always views.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS, is_format, unknown_format
from monet.graph.backward import Backward
from monet.graph.kind import (
    BACKWARD,
    Array,
    Call,
    DimensionRule,
    Family,
    NestRule,
    OpKind,
    Output,
    ShapeRule,
    displaced,
    like_first,
    of_given_shape,
    pointwise,
    register,
)
from monet.graph.loop_nest import Index, LoopNest, index
from monet.graph.op import Attributes
from monet.graph.operators.nests import axes_of, axis_names, elementwise, over
from monet.graph.operators.reduction import normalise_axes
from monet.graph.tensor import Tensor, view_strides

# --- views ----------------------------------------------------------------------------------------------------------


def _infer_reshape(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), shape = inputs, tuple(attrs["shape"])
    if math.prod(shape) != x.elements:
        raise ModelError(f"cannot reshape {list(x.shape)} ({x.elements} elements) to {list(shape)}")
    if FORMATS[x.dtype].element:
        raise ModelError(
            f"elements of {x.dtype} share scales along axes, which a reshape would tear; reshape before quantize"
        )
    strides = view_strides(x.shape, x.strides, shape)
    return (Output(shape, x.dtype, alias=None if strides is None else 0, strides=strides),)


def _infer_transpose(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), order = inputs, attrs["order"]
    if sorted(order) != list(range(len(x.shape))):
        raise ModelError(f"{list(order)} is not a permutation of {len(x.shape)} axes")
    shape, strides = tuple(x.shape[axis] for axis in order), tuple(x.strides[axis] for axis in order)
    held = FORMATS[x.dtype]
    if held.element and held.group:  # groups turn with the axes: of a square one the transpose has the same format
        held = held.grouped(held.group.transposed(order))
    return (Output(shape, held.name, alias=0, strides=strides),)


def _transpose_rule(b: Backward) -> tuple[str | None, ...]:
    return (b.emit("transpose", b.gradient, order=tuple(int(axis) for axis in np.argsort(b.attrs["order"]))),)


def _infer_expand(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), shape = inputs, tuple(attrs["shape"])
    if len(shape) < len(x.shape) or np.broadcast_shapes(x.shape, shape) != shape:
        raise ModelError(f"cannot expand {list(x.shape)} to {list(shape)}")
    lead = len(shape) - len(x.shape)
    strides = tuple(
        0 if axis < lead or x.shape[axis - lead] != size else x.strides[axis - lead] for axis, size in enumerate(shape)
    )
    return (Output(shape, x.dtype, alias=0, strides=strides),)


def _slices(attrs: Attributes, rank: int) -> tuple[slice, ...]:
    cuts = [slice(None)] * rank
    for axis, start, stop, step in zip(attrs["axes"], attrs["starts"], attrs["stops"], attrs["steps"], strict=True):
        cuts[axis] = slice(start, stop, step)
    return tuple(cuts)


def _infer_slice(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,) = inputs
    if any(step < 1 for step in attrs["steps"]) or any(not 0 <= axis < len(x.shape) for axis in attrs["axes"]):
        raise ModelError("slices need steps of at least 1 and axes that exist")
    cuts = _slices(attrs, len(x.shape))
    shape = tuple(len(range(*cut.indices(size))) for cut, size in zip(cuts, x.shape, strict=True))
    strides = tuple(stride * (cut.step or 1) for cut, stride in zip(cuts, x.strides, strict=True))
    starts = (cut.indices(size)[0] for cut, size in zip(cuts, x.shape, strict=True))
    offset = sum(start * stride for start, stride in zip(starts, x.strides, strict=True))
    return (Output(shape, x.dtype, alias=0, strides=strides, offset=offset),)


def _slice_rule(b: Backward) -> tuple[str | None, ...]:
    keep = {key: b.attrs[key] for key in ("axes", "starts", "stops", "steps")}
    return (b.emit("slice_gradient", b.gradient, shape=b.shape(0), **keep),)


def _evaluate_slice_gradient(attrs: Attributes, g: Array) -> Array:
    out = np.zeros(attrs["shape"], g.dtype)
    out[_slices(attrs, out.ndim)] = g
    return out


def _nest_scatter(call: Call) -> LoopNest:
    """One point per element of the longer side, axis by axis; either is bounded by its own shape."""
    shape = tuple(max(sizes) for sizes in zip(call.inputs[0].shape, call.out.shape, strict=True))
    return over(shape, call, [axes_of(range(len(shape)))] * 2)


def _infer_detach(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    (x,) = inputs
    return (Output(x.shape, x.dtype, alias=0, strides=x.strides),)


def _infer_read_as(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), name = inputs, attrs["dtype"]
    if not is_format(name):
        raise ModelError(unknown_format(name))
    if FORMATS[name].bits != FORMATS[x.dtype].bits:
        raise ModelError(f"{x.dtype} cannot be read as {name}, which has another width; cast converts to it")
    return (Output(x.shape, name, alias=0, strides=x.strides),)


def _infer_split(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), (axis,) = inputs, normalise_axes((attrs["axis"],), len(inputs[0].shape))
    if sum(attrs["sizes"]) != x.shape[axis]:
        raise ModelError(f"parts {list(attrs['sizes'])} do not add up to {x.shape[axis]} on axis {axis}")
    starts = accumulate(attrs["sizes"], initial=0)
    return tuple(
        Output(
            (*x.shape[:axis], size, *x.shape[axis + 1 :]),
            x.dtype,
            str(part),
            0,
            x.strides,
            offset=start * x.strides[axis],
        )
        for part, (size, start) in enumerate(zip(attrs["sizes"], starts, strict=False))
    )


def _split_rule(b: Backward) -> tuple[str | None, ...]:
    parts = [
        gradient or b.emit("fill", shape=b.tensor(output).shape, value=0.0, dtype=b.tensor(output).dtype)
        for gradient, output in zip(b.gradients, b.op.outputs, strict=True)
    ]
    return (b.emit("concat", *parts, axis=b.attrs["axis"]),)


for _kind, _infer, _evaluate, _rule, _onnx in (
    (
        "reshape", _infer_reshape, lambda attrs, x: x.reshape(attrs["shape"]),
        lambda b: (b.emit("reshape", b.gradient, shape=b.shape(0)),), ("Reshape",),
    ),
    ("transpose", _infer_transpose, lambda attrs, x: np.transpose(x, attrs["order"]), _transpose_rule, ("Transpose",)),
    (
        "expand", _infer_expand, lambda attrs, x: np.broadcast_to(x, attrs["shape"]),
        lambda b: (b.sum_to(b.gradient, b.shape(0)),), ("Expand",),
    ),
    ("slice", _infer_slice, lambda attrs, x: x[_slices(attrs, x.ndim)], _slice_rule, ("Slice",)),
    (
        "split", _infer_split, lambda attrs, x: tuple(np.split(x, np.cumsum(attrs["sizes"])[:-1], axis=attrs["axis"])),
        _split_rule, ("Split",),
    ),
):  # fmt: skip
    register(OpKind(_kind, Family.VIEW, _infer, _evaluate, gradient=_rule, onnx=_onnx))

register(
    # the same elements; no gradient flows back
    OpKind("detach", Family.VIEW, _infer_detach, lambda _, x: x, no_onnx="a file says nothing about gradients"),
    # the same bytes, of which a product takes in no more than a narrower format has
    OpKind(
        "read_as", Family.VIEW, _infer_read_as, lambda attrs, x: FORMATS[attrs["dtype"]].cast(x),
        no_onnx="precision policies put it before products",
    ),
)  # fmt: skip


# --- moves ----------------------------------------------------------------------------------------------------------


def _infer_concat(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    first, (axis,) = inputs[0], normalise_axes((attrs["axis"],), len(inputs[0].shape))
    for tensor in inputs[1:]:
        same = len(tensor.shape) == len(first.shape) and all(
            a == b for i, (a, b) in enumerate(zip(tensor.shape, first.shape, strict=True)) if i != axis
        )
        if not same:
            raise ModelError(f"cannot join {list(tensor.shape)} to {list(first.shape)} on axis {axis}")
    size = sum(tensor.shape[axis] for tensor in inputs)
    return (Output((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype),)


def _nest_concat(call: Call) -> LoopNest:
    (axis,) = normalise_axes((call.attrs["axis"],), len(call.out.shape))
    names, maps, start = axis_names(len(call.out.shape)), [], 0
    for tensor in call.inputs:
        maps.append(tuple(index(n, offset=-start) if a == axis else index(n) for a, n in enumerate(names)))
        start += tensor.shape[axis]
    return over(call.out.shape, call, [*maps, tuple(map(index, names))])


def _concat_rule(b: Backward) -> tuple[str | None, ...]:
    (axis,) = normalise_axes((b.attrs["axis"],), len(b.shape(0)))
    sizes = tuple(b.shape(position)[axis] for position in range(len(b.inputs)))
    parts = b.emit_all("split", b.gradient, axis=axis, sizes=sizes)
    return tuple(part if needed else None for part, needed in zip(parts, b.needs, strict=True))


_PAD_MODES = ("constant", "reflect", "edge")


def _infer_pad(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,) = inputs
    if attrs["mode"] not in _PAD_MODES:
        raise ModelError(f"padding mode {attrs['mode']!r} is not one of {', '.join(_PAD_MODES)}")
    shape = tuple(size + before + after for size, (before, after) in zip(x.shape, attrs["padding"], strict=True))
    return (Output(shape, x.dtype),)


def _evaluate_pad(attrs: Attributes, x: Array) -> Array:
    widths = [(max(0, before), max(0, after)) for before, after in attrs["padding"]]
    crop = tuple(
        slice(max(0, -before), size - max(0, -after) if after < 0 else None)
        for (before, after), size in zip(attrs["padding"], x.shape, strict=True)
    )
    if attrs["mode"] == "constant":
        return np.pad(x[crop], widths, constant_values=attrs["value"])
    return np.pad(x[crop], widths, mode="reflect" if attrs["mode"] == "reflect" else "edge")


def _nest_pad(call: Call) -> LoopNest:
    names = axis_names(len(call.out.shape))
    source = tuple(index(n, offset=-before) for n, (before, _) in zip(names, call.attrs["padding"], strict=True))
    return over(call.out.shape, call, [source, tuple(map(index, names))])


def _pad_rule(b: Backward) -> tuple[str | None, ...]:
    shape, padding = b.shape(0), b.attrs["padding"]
    if b.attrs["mode"] != "constant":
        return (b.emit("pad_gradient", b.gradient, shape=shape, padding=padding, mode=b.attrs["mode"]),)
    if any(before < 0 or after < 0 for before, after in padding):
        flipped = tuple((-before, -after) for before, after in padding)
        return (b.emit("pad", b.gradient, padding=flipped, mode="constant", value=0.0),)
    axes = tuple(axis for axis, pads in enumerate(padding) if pads != (0, 0))
    starts = tuple(padding[axis][0] for axis in axes)
    stops = tuple(padding[axis][0] + shape[axis] for axis in axes)
    return (b.emit("slice", b.gradient, axes=axes, starts=starts, stops=stops, steps=(1,) * len(axes)),)


def _evaluate_pad_gradient(attrs: Attributes, g: Array) -> Array:
    source = np.arange(math.prod(attrs["shape"])).reshape(attrs["shape"])
    widths, mode = attrs["padding"], "reflect" if attrs["mode"] == "reflect" else "edge"
    positions = np.pad(source, widths, mode=mode).ravel()  # type: ignore[call-overload]
    out: Array = np.bincount(positions, weights=g.ravel(), minlength=source.size).reshape(attrs["shape"])
    return out.astype(g.dtype)


def _infer_repeat(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), times = inputs, attrs["times"]
    return (Output(tuple(size * n for size, n in zip(x.shape, times, strict=True)), x.dtype),)


def _repeat_rule(b: Backward) -> tuple[str | None, ...]:
    """Tiling is a sum over the repeats: split every axis in (repeat, size), reduce the former."""
    shape, times = b.shape(0), b.attrs["times"]
    split = tuple(size for pair in zip(times, shape, strict=True) for size in pair)
    parts = b.emit("reshape", b.gradient, shape=split)
    return (b.emit("reduce_sum", parts, axes=tuple(range(0, len(split), 2)), keepdims=False),)


def _nest_repeat(call: Call) -> LoopNest:
    return over(call.out.shape, call, [tuple(Index(()) for _ in call.out.shape), elementwise(call).writes[0].indices])


def _infer_along_axes(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    normalise_axes(attrs["axes"], len(inputs[0].shape))
    return like_first(inputs, attrs)


def _roll_rule(b: Backward) -> tuple[str | None, ...]:
    return (b.emit("roll", b.gradient, axes=b.attrs["axes"], shifts=tuple(-shift for shift in b.attrs["shifts"])),)


def _move(name: str, infer: ShapeRule, nest: NestRule, dimensions: DimensionRule, evaluate: Any, **more: Any) -> OpKind:
    return OpKind(name, Family.MOVE, infer, evaluate, nest, dimensions, **more)


register(
    _move(
        "copy", like_first, elementwise, pointwise, lambda _, x: np.ascontiguousarray(x),
        gradient=lambda b: (b.gradient,), in_place=True, no_onnx="Identity imports as nothing",
    ),
    _move(
        "concat", _infer_concat, _nest_concat, pointwise, lambda attrs, *xs: np.concatenate(xs, axis=attrs["axis"]),
        gradient=_concat_rule, onnx=("Concat",),
    ),
    _move("pad", _infer_pad, _nest_pad, displaced, _evaluate_pad, gradient=_pad_rule, onnx=("Pad",)),
    _move("slice_gradient", of_given_shape, _nest_scatter, displaced, _evaluate_slice_gradient, no_onnx=BACKWARD),
    _move("pad_gradient", of_given_shape, _nest_scatter, displaced, _evaluate_pad_gradient, no_onnx=BACKWARD),
    _move(
        "repeat", _infer_repeat, _nest_repeat, pointwise, lambda attrs, x: np.tile(x, attrs["times"]),
        gradient=_repeat_rule, onnx=("Tile",),
    ),
    _move(
        "flip", _infer_along_axes, elementwise, displaced, lambda attrs, x: np.flip(x, attrs["axes"]),
        gradient=lambda b: (b.emit("flip", b.gradient, axes=b.attrs["axes"]),), onnx=("Slice",),
    ),
    _move(
        "roll", _infer_along_axes, elementwise, displaced, lambda attrs, x: np.roll(x, attrs["shifts"], attrs["axes"]),
        gradient=_roll_rule, no_onnx="files write two slices and Concat",
    ),
)  # fmt: skip
