"""Reductions over axes, softmax, positions of extremes, cumulative sums."""

from __future__ import annotations

import math

from monet.frontends.onnx.file import Node
from monet.frontends.onnx.translation import RULES, Rule, Translation, Unsupported, Value, reads


def _axes(t: Translation, node: Node, rank: int) -> tuple[int, ...]:
    given = t.integers(node, 1, "axes", "axes")
    if node.get("noop_with_empty_axes", 0) and not given:
        return ()
    return tuple(sorted(axis % rank for axis in given)) if given else tuple(range(rank))


def _reduce(t: Translation, node: Node, kind: str, x: str) -> str:
    axes = _axes(t, node, len(t.shape(x)))
    keep = bool(node.get("keepdims", 1))
    return t.emit(node, kind, x, axes=axes, keepdims=keep) if axes else x


def reduction(kind: str, before: str = "", after: str = "") -> Rule:
    """A reduction, with a function applied before it and one after it."""

    def rule(t: Translation, node: Node) -> Value:
        x = t.tensor(node, 0)
        if before == "square":
            x = t.emit(node, "pow_scalar", x, exponent=2)
        elif before:
            x = t.emit(node, before, x)
        y = _reduce(t, node, kind, x)
        return t.emit(node, after, y) if after else y

    return rule


def _extreme(kind: str, sign: int) -> Rule:
    """A largest or smallest value. The dynamo exporter says where it came from: ``max(dim)`` keeps only the places."""

    def rule(t: Translation, node: Node) -> Value:
        x = t.tensor(node, 0)
        axes = _axes(t, node, len(t.shape(x)))
        written = " ".join(entry.value for entry in node.proto.metadata_props if entry.key.endswith("fx_node"))
        if len(axes) != 1 or not any(f"aten.{name}.dim]" in written for name in ("max", "min")):
            return _reduce(t, node, kind, x)
        place = t.emit(node, "argmax", x if sign > 0 else t.emit(node, "neg", x), axes=axes, keepdims=True)
        y = t.emit(node, "gather_elements", x, place, axis=axes[0])
        keep = bool(node.get("keepdims", 1))
        return t.reshape(node, y, tuple(n for axis, n in enumerate(t.shape(y)) if keep or axis not in axes))

    return rule


@reads("TopK")
def _top_k(t: Translation, node: Node) -> tuple[str, ...]:
    """How many is an input, an attribute in old files."""
    x = t.tensor(node, 0)
    k = int(t.required(node, 1, "how many").flat[0]) if node.input(1) else int(node.get("k"))
    axis = node.get("axis", -1) % len(t.shape(x))
    return t.emit_all(node, "topk", x, axis=axis, k=k, largest=bool(node.get("largest", 1)))


@reads("ReduceLogSumExp")
def _log_sum_exp(t: Translation, node: Node) -> str:
    """Shifted by the maximum, which takes no gradient of its own."""
    x = t.tensor(node, 0)
    axes, keep = _axes(t, node, len(t.shape(x))), bool(node.get("keepdims", 1))
    top = t.emit(node, "reduce_max", x, axes=axes, keepdims=True)
    total = t.emit(node, "reduce_sum", t.emit(node, "exp", t.emit(node, "sub", x, top)), axes=axes, keepdims=True)
    y = t.emit(node, "add", t.emit(node, "log", total), top)
    shape = tuple(size for axis, size in enumerate(t.shape(y)) if keep or axis not in axes)
    return t.reshape(node, y, shape)


def _softmax(kind: str) -> Rule:
    def rule(t: Translation, node: Node) -> str:
        x = t.tensor(node, 0)
        shape = t.shape(x)
        axis = int(node.get("axis", -1 if t.file.opset >= 13 else 1)) % len(shape)
        if t.file.opset >= 13 or axis == len(shape) - 1:
            return t.emit(node, kind, x, axis=axis)
        flat = t.reshape(node, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))  # before opset 13
        return t.reshape(node, t.emit(node, kind, flat, axis=1), shape)

    return rule


def _extreme_position(sign: int) -> Rule:
    def rule(t: Translation, node: Node) -> str:
        x = t.tensor(node, 0)
        axis = int(node.get("axis", 0)) % len(t.shape(x))
        x = x if sign > 0 else t.emit(node, "neg", x)
        return t.emit(node, "argmax", x, axes=(axis,), keepdims=bool(node.get("keepdims", 1)))

    return rule


@reads("CumSum")
def _cumulative_sum(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    axis = int(t.required(node, 1, "an axis").flat[0]) % len(t.shape(x))
    y = t.emit(node, "cumsum", x, axis=axis, reverse=bool(node.get("reverse", 0)))
    return t.emit(node, "sub", y, x) if node.get("exclusive", 0) else y


@reads("MeanVarianceNormalization")
def _mean_variance(t: Translation, node: Node) -> str:
    x, axes = t.tensor(node, 0), tuple(node.get("axes") or (0, 2, 3))
    axes = tuple(axis % len(t.shape(x)) for axis in axes)
    centred = t.emit(node, "sub", x, t.emit(node, "reduce_mean", x, axes=axes, keepdims=True))
    squares = t.emit(node, "pow_scalar", centred, exponent=2)
    variance = t.emit(node, "reduce_mean", squares, axes=axes, keepdims=True)
    return t.emit(node, "div", centred, t.emit(node, "shift", t.emit(node, "sqrt", variance), offset=1e-9))


@reads("ReduceProd")
def _product(t: Translation, node: Node) -> str:
    """A product over a short axis is a chain of multiplications."""
    x = t.tensor(node, 0)
    axes = _axes(t, node, len(t.shape(x)))
    if len(axes) != 1 or t.shape(x)[axes[0]] > 16:
        raise Unsupported("over many elements")
    (axis,), shape = axes, t.shape(x)
    parts = t.emit_all(node, "split", x, sizes=(1,) * shape[axis], axis=axis) if shape[axis] > 1 else (x,)
    y = parts[0]
    for part in parts[1:]:
        y = t.emit(node, "mul", y, part)
    keep = bool(node.get("keepdims", 1))
    return t.reshape(node, y, tuple(1 if a == axis else n for a, n in enumerate(shape) if keep or a != axis))


RULES.rows(
    {
        "ReduceSum": reduction("reduce_sum"),
        "ReduceMean": reduction("reduce_mean"),
        "ReduceMax": _extreme("reduce_max", 1),
        "ReduceMin": _extreme("reduce_min", -1),
        "ReduceL1": reduction("reduce_sum", before="abs"),
        "ReduceL2": reduction("reduce_sum", before="square", after="sqrt"),
        "ReduceSumSquare": reduction("reduce_sum", before="square"),
        "ReduceLogSum": reduction("reduce_sum", after="log"),
        "Softmax": _softmax("softmax"),
        "LogSoftmax": _softmax("log_softmax"),
        "ArgMax": _extreme_position(1),
        "ArgMin": _extreme_position(-1),
    }
)
