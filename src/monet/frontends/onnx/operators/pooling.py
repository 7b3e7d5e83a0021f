"""Pooling and resampling."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.onnx.file import Node
from monet.frontends.onnx.operators.layers import ones, padding_of
from monet.frontends.onnx.translation import Translation, Unsupported, reads


def _window(t: Translation, node: Node, x: str) -> dict[str, Any]:
    kernel = tuple(int(taps) for taps in node.get("kernel_shape"))
    rank = len(kernel)
    if rank > 3:
        raise Unsupported(f"{rank} spatial axes")
    stride, dilation = ones(node, "strides", rank), ones(node, "dilations", rank)
    padding = padding_of(node, t.shape(x)[2:], kernel, stride, dilation)
    ceil = bool(node.get("ceil_mode", 0))
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "ceil": ceil}


@reads("MaxPool")
def _max_pool(t: Translation, node: Node) -> tuple[str, ...]:
    x = t.tensor(node, 0)
    return t.emit_all(node, "max_pool", x, **_window(t, node, x), index_dtype="int64")


@reads("AveragePool")
def _average_pool(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    window = _window(t, node, x)
    if set(window["dilation"]) != {1}:
        raise Unsupported("dilation")
    return t.emit(node, "avg_pool", x, **window, count_padding=bool(node.get("count_include_pad", 0)))


@reads("LpPool")
def _lp_pool(t: Translation, node: Node) -> str:
    """(Σ |x|^p)^(1/p) over each window, through the mean of the window."""
    x, p = t.tensor(node, 0), int(node.get("p", 2))
    window = _window(t, node, x)
    if any(pad != (0, 0) for pad in window["padding"]) or set(window["dilation"]) != {1}:
        raise Unsupported("padding or dilation")
    if window["ceil"] and any(
        (size - taps) % step
        for size, taps, step in zip(t.shape(x)[2:], window["kernel"], window["stride"], strict=True)
    ):
        raise Unsupported("windows that are not whole")
    powers = t.emit(node, "pow_scalar", x if p % 2 == 0 else t.emit(node, "abs", x), exponent=p)
    mean = t.emit(node, "avg_pool", powers, **window, count_padding=True)
    total = t.emit(node, "scale", mean, factor=float(math.prod(window["kernel"])))
    return t.emit(node, "pow_scalar", total, exponent=1.0 / p)


@reads("GlobalAveragePool")
def _global_average(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    return t.emit(node, "reduce_mean", x, axes=tuple(range(2, len(t.shape(x)))), keepdims=True)


@reads("GlobalMaxPool")
def _global_max(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    kernel = t.shape(x)[2:]
    rank = len(kernel)
    return t.emit(
        node, "max_pool", x, kernel=kernel, stride=kernel, padding=((0, 0),) * rank, dilation=(1,) * rank, ceil=False,
        index_dtype="int64",
    )  # fmt: skip


# --- resampling ------------------------------------------------------------------------------------------------------

_LINEAR_RULES = {"half_pixel": False, "pytorch_half_pixel": False, "align_corners": True}


@reads("Resize", "Upsample")
def _resize(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    shape, mode = t.shape(x), node.get("mode", "nearest")
    scales, sizes = _targets(t, node, shape)
    if any(size != scaled for size, scaled in zip(shape[:2], sizes[:2], strict=True)):
        raise Unsupported("batch or channels resized")
    if mode not in ("nearest", "linear"):
        raise Unsupported(f"mode {mode}")
    rule = node.get("coordinate_transformation_mode", "half_pixel" if node.op == "Resize" else "asymmetric")
    if mode == "linear" and rule not in _LINEAR_RULES:
        raise Unsupported(f"linear with {rule}")
    whole = all(size % old == 0 for size, old in zip(sizes[2:], shape[2:], strict=True))
    floor = node.get("nearest_mode", "round_prefer_floor") == "floor" and rule == "asymmetric"
    if mode == "nearest" and node.op == "Resize" and not floor and not whole:
        raise Unsupported(f"nearest with {rule}, {node.get('nearest_mode', 'round_prefer_floor')}")
    return t.emit(
        node, "resize", x, mode=mode, spatial=sizes[2:], scales=scales[2:],
        align_corners=mode == "linear" and _LINEAR_RULES[rule],
    )  # fmt: skip


def _targets(t: Translation, node: Node, shape: tuple[int, ...]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """(scale, size) of every axis, whichever of the two the file gives."""
    if node.op == "Resize" and t.file.opset < 11:
        place_scales, place_sizes = 1, 3
    elif node.op == "Resize":
        place_scales, place_sizes = 2, 3
    else:
        place_scales, place_sizes = 1, 9
    axes = [int(axis) % len(shape) for axis in node.get("axes") or range(len(shape))]
    scales, sizes = [1.0] * len(shape), list(shape)
    given = t.required(node, place_sizes, "sizes") if node.input(place_sizes) else None
    if given is not None and given.size:
        for axis, size in zip(axes, given.ravel(), strict=True):
            sizes[axis], scales[axis] = int(size), int(size) / shape[axis]
        return _followed(t, node, shape, tuple(scales), tuple(sizes))
    factors = node.get("scales") if not node.input(place_scales) else t.required(node, place_scales, "scales").ravel()
    for axis, factor in zip(axes, factors if factors is not None else (), strict=True):
        scales[axis], sizes[axis] = float(factor), math.floor(shape[axis] * float(factor))
    return tuple(scales), tuple(sizes)


def _followed(
    t: Translation, node: Node, shape: tuple[int, ...], scales: tuple[float, ...], sizes: tuple[int, ...]
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Sizes written at another batch or image size keep their ratio."""
    old = (t.stored_shapes or {}).get(node.input(0))
    if old is None or old == shape:
        return scales, sizes
    moved = tuple(
        size * new // before if new != before else size for size, new, before in zip(sizes, shape, old, strict=True)
    )
    return tuple(size / new for size, new in zip(moved, shape, strict=True)), moved
