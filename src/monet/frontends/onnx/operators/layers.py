"""Convolutions and normalisations."""

from __future__ import annotations

import math

import numpy as np

from monet.errors import ModelError
from monet.frontends.onnx.exporters import bias_of, folded_norm
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Known
from monet.frontends.onnx.translation import Translation, Unsupported, reads
from monet.frontends.onnx.weights import made_up

Pads = tuple[tuple[int, int], ...]


def padding_of(
    node: Node, spatial: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Pads:
    """(before, after) of each spatial axis, from explicit pads or from a rule (auto_pad)."""
    rank, mode = len(kernel), node.get("auto_pad", "NOTSET")
    pads = tuple(node.get("pads") or (0,) * (2 * rank))
    if mode in ("NOTSET", ""):
        return tuple((int(pads[axis]), int(pads[axis + rank])) for axis in range(rank))
    if mode == "VALID":
        return ((0, 0),) * rank
    result = []
    for size, taps, step, spread in zip(spatial, kernel, stride, dilation, strict=True):
        total = max(0, (-(-size // step) - 1) * step + spread * (taps - 1) + 1 - size)
        small, large = total // 2, total - total // 2
        result.append((small, large) if mode == "SAME_UPPER" else (large, small))
    return tuple(result)


def ones(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """A per-axis attribute that is one everywhere unless given."""
    return tuple(int(entry) for entry in node.get(name) or (1,) * rank)


@reads("Conv")
def _conv(t: Translation, node: Node) -> str:
    x, w = t.tensor(node, 0), t.weight(node, 1)
    rank, kernel = len(t.shape(x)) - 2, t.shape(w)[2:]
    if rank > 3:
        raise Unsupported(f"{rank} spatial axes")
    stride, dilation = ones(node, "strides", rank), ones(node, "dilations", rank)
    padding = padding_of(node, t.shape(x)[2:], kernel, stride, dilation)
    norm = folded_norm(t, node)
    of_norm = norm and (made_up(node.input(2)) or node.input(2) in ("", f"{node.input(1)}_bias"))
    bias = "" if of_norm else bias_of(t, node, t.shape(w)[0], t.of(w).dtype)
    operands = (x, w, bias) if bias else (x, w)
    y = t.emit(
        node, "conv", *operands, stride=stride, padding=padding, dilation=dilation, groups=int(node.get("group", 1))
    )
    return _put_back(t, node, y, norm, "" if bias else node.input(2)) if norm else y


def _put_back(t: Translation, node: Node, y: str, module: str, bias: str) -> str:
    """The folded batch norm in training form; its statistics and scale went into the weights, so they start anew."""
    size, dtype = t.shape(y)[1:2], t.of(y).dtype
    has_bias = bias in t.weights
    if has_bias and not t.weights.is_uniform(bias):
        t.folded_norms[module] = size[0]
    zeros, ones_array = np.zeros(size, np.float32), np.ones(size, np.float32)
    operands = [
        t.declare(f"{module}.weight", size, dtype, "", np.asarray, ones_array),
        t.declare(f"{module}.bias", size, dtype, bias if has_bias else "", np.asarray, None if has_bias else zeros),
        t.declare(f"{module}.running_mean", size, dtype, "", np.asarray, zeros, buffer=True),
        t.declare(f"{module}.running_var", size, dtype, "", np.asarray, ones_array, buffer=True),
    ]
    return t.emit(node, "batch_norm", y, *operands, epsilon=1e-5, momentum=0.1)


@reads("ConvTranspose")
def _conv_transpose(t: Translation, node: Node) -> str:
    x, w = t.tensor(node, 0), t.weight(node, 1)
    spatial, kernel, rank = t.shape(x)[2:], t.shape(w)[2:], len(t.shape(x)) - 2
    if rank > 3:
        raise Unsupported(f"{rank} spatial axes")
    stride, dilation = ones(node, "strides", rank), ones(node, "dilations", rank)
    extra = tuple(node.get("output_padding") or (0,) * rank)
    asked = node.get("output_shape")
    full = [(size - 1) * s + d * (k - 1) + 1 for size, s, d, k in zip(spatial, stride, dilation, kernel, strict=True)]
    mode = node.get("auto_pad", "NOTSET")
    padding = padding_of(node, spatial, kernel, stride, dilation)
    if asked is not None or mode.startswith("SAME"):
        sizes = (
            tuple(asked[-rank:]) if asked is not None else tuple(n * s for n, s in zip(spatial, stride, strict=True))
        )
        totals = [max(0, whole + more - size) for whole, more, size in zip(full, extra, sizes, strict=True)]
        halves = [(total // 2, total - total // 2) for total in totals]
        padding = tuple(halves if mode == "SAME_UPPER" else [pair[::-1] for pair in halves])
    else:
        sizes = tuple(n - sum(pad) + more for n, pad, more in zip(full, padding, extra, strict=True))
    groups = int(node.get("group", 1))
    bias = bias_of(t, node, t.shape(w)[1] * groups, t.of(w).dtype)
    operands = (x, w, bias) if bias else (x, w)
    return t.emit(
        node, "conv_transpose", *operands, stride=stride, padding=padding, dilation=dilation,
        groups=groups, spatial=sizes,
    )  # fmt: skip


# --- normalisation ---------------------------------------------------------------------------------------------------


@reads("BatchNormalization")
def _batch_norm(t: Translation, node: Node) -> str:
    """In training form whatever the file says: batch statistics, running ones updated."""
    x = t.tensor(node, 0)
    if len(t.shape(x)) == 1:
        raise ModelError("batch norm needs a batch and a channel axis")
    running = [t.builder.current(_running(t, node, at, what)) for at, what in ((3, "mean"), (4, "var"))]
    rest = [t.weight(node, 1), t.weight(node, 2), *running]
    momentum = round(1.0 - float(node.get("momentum", 0.9)), 6)
    return t.emit(node, "batch_norm", x, *rest, epsilon=_epsilon(node), momentum=momentum)


def _running(t: Translation, node: Node, position: int, what: str) -> str:
    """A running statistic; one that an exporter merged with an equal parameter is a buffer of its own again."""
    name = node.input(position)
    if name not in t.weights or t.weights.role(name) == "buffer":
        return t.tensor(node, position)
    title = ".".join(part for part in (name.rpartition(".")[0], f"running_{what}") if part)
    return t.declare(title, t.weights.shape(name), t.weights.dtype(name), name, np.asarray, buffer=True)


def _epsilon(node: Node) -> float:
    return float(f"{float(node.get('epsilon', 1e-5)):.6g}")


def _affine(t: Translation, node: Node) -> tuple[str, ...]:
    """Weight and bias of a norm; none if they are the constants one and zero."""
    weight, bias = t.operand(node, 1), t.operand(node, 2)
    plain = all(
        value is None or (isinstance(value, Known) and value.is_uniform and value.scalar == neutral)
        for value, neutral in ((weight, 1), (bias, 0))
    )
    if plain or weight is None:
        return ()
    if bias is None or (isinstance(bias, Known) and bias.is_uniform and bias.scalar == 0):
        return (t.weight(node, 1),)
    return t.weight(node, 1), t.weight(node, 2)


def _trailing(t: Translation, node: Node, x: str) -> int:
    axis, rank = int(node.get("axis", -1)), len(t.shape(x))
    return rank - (axis % rank)


@reads("LayerNormalization")
def _layer_norm(t: Translation, node: Node) -> tuple[str, ...]:
    x = t.tensor(node, 0)
    axes = _trailing(t, node, x)
    affine = _affine(t, node)
    if affine and t.shape(affine[0]) != t.shape(x)[-axes:]:
        raise Unsupported("a weight that is broadcast")
    return t.emit_all(node, "layer_norm", x, *affine, axes=axes, epsilon=_epsilon(node))


@reads("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_norm(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    axes = _trailing(t, node, x)
    weight = t.operand(node, 1)
    plain = weight is None or (isinstance(weight, Known) and weight.is_uniform and weight.scalar == 1)
    return t.emit(node, "rms_norm", x, *(() if plain else (t.weight(node, 1),)), axes=axes, epsilon=_epsilon(node))


@reads("GroupNormalization")
def _group_norm(t: Translation, node: Node) -> str:
    x, groups = t.tensor(node, 0), int(node.get("num_groups"))
    affine = _affine(t, node)
    if affine and t.shape(affine[0]) == (groups,) != (t.shape(x)[1],):
        raise Unsupported("a weight per group")  # opset 18; withdrawn in 21
    return t.emit(node, "group_norm", x, *affine, groups=groups, epsilon=_epsilon(node))


@reads("InstanceNormalization")
def _instance_norm(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    return t.emit(node, "group_norm", x, *_affine(t, node), groups=t.shape(x)[1], epsilon=_epsilon(node))


@reads("LpNormalization")
def _lp_normalization(t: Translation, node: Node) -> str:
    x, axis = t.tensor(node, 0), int(node.get("axis", -1))
    axes = (axis % len(t.shape(x)),)
    if int(node.get("p", 2)) == 1:
        norm = t.emit(node, "reduce_sum", t.emit(node, "abs", x), axes=axes, keepdims=True)
    else:
        squares = t.emit(node, "pow_scalar", x, exponent=2)
        norm = t.emit(node, "sqrt", t.emit(node, "reduce_sum", squares, axes=axes, keepdims=True))
    return t.emit(node, "div", x, norm)


@reads("LRN")
def _local_response(t: Translation, node: Node) -> str:
    """x / (bias + alpha · mean of squares over neighbouring channels) ^ beta, as the framework writes it."""
    x, size = t.tensor(node, 0), int(node.get("size"))
    n, c, *spatial = t.shape(x)
    flat = (n, 1, c, math.prod(spatial), 1)
    squares = t.reshape(node, t.emit(node, "mul", x, x), flat)
    pads = ((0, 0), (0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0))
    squares = t.emit(node, "pad", squares, padding=pads, mode="constant", value=0.0)
    mean = t.emit(
        node, "avg_pool", squares, kernel=(size, 1, 1), stride=(1,) * 3, padding=((0, 0),) * 3, dilation=(1,) * 3,
        ceil=False, count_padding=True,
    )  # fmt: skip
    mean = t.reshape(node, mean, (n, c, *spatial))
    scaled = t.emit(node, "scale", mean, factor=float(node.get("alpha", 1e-4)))
    shifted = t.emit(node, "shift", scaled, offset=float(node.get("bias", 1.0)))
    return t.emit(node, "div", x, t.emit(node, "pow_scalar", shifted, exponent=float(node.get("beta", 0.75))))
