"""Fused attention and rotary position embedding."""

from __future__ import annotations

import math

from monet.graph.operators.attention_products import keeps_scores
from monet.report.onnx.body import Body, Value
from monet.report.onnx.operators.matmul import exact_sums, matmul, swapped
from monet.report.onnx.operators.quantize import Rounding, rounded
from monet.report.onnx.operators.source import may_look
from monet.report.onnx.table import writes


def _shared_heads(x: Value, shape: tuple[int, ...], heads: int) -> Value:
    """Every key head repeated for the query heads that share it."""
    batch, groups, tokens, width = shape
    if groups == heads:
        return x
    wide = x.unsqueeze(2).expand((batch, groups, heads // groups, tokens, width))
    return wide.reshape((batch, heads, tokens, width))


def _scores(b: Body, query: Value, key: Value, mask: list[Value], sizes: tuple[int, int]) -> Value:
    scores = float(b.call.attrs["scale"]) * matmul(b, query, swapped(key, 4))
    if b.call.attrs["causal"]:
        scores = b.where(may_look(b, *sizes), scores, -math.inf)
    for given in mask:
        scores = b.where(given, -math.inf, scores) if given.dtype == "bool" else scores + given
    return scores


def _narrow(b: Body, number: int, side: int, x: Value, shape: tuple[int, ...]) -> Value:
    """An operand of a product as its format holds it, in the type that everything here is computed in."""
    attrs = b.call.attrs
    name = attrs["formats"][number][side] if "formats" in attrs else ""
    if not name:
        return x
    return rounded(b, x, shape, name, Rounding(attrs["rule"], attrs["seeds"][number][side])).cast(x.dtype)


@writes("attention")
def _attention(b: Body) -> tuple[Value, ...]:
    exact_sums(b)
    query, key, value, *mask = b.inputs
    heads, sizes = b.shape(0)[1], (b.shape(0)[2], b.shape(1)[2])
    shapes = b.shape(0), b.shape(1), b.shape(2)
    wide = _shared_heads(_narrow(b, 0, 1, key, shapes[1]), shapes[1], heads)
    scores = _scores(b, _narrow(b, 0, 0, query, shapes[0]), wide, mask, sizes)
    top = scores.reduce("ReduceMax", (3,), keepdims=True)
    total = top + b.node("Log", b.node("Exp", scores - top).sum((3,), keepdims=True))
    p = _narrow(b, 1, 0, b.node("Exp", scores - total), (*shapes[0][:3], sizes[1]))
    out = matmul(b, p, _shared_heads(_narrow(b, 1, 1, value, shapes[2]), shapes[2], heads))
    return out, total.reshape(b.call.outputs[1].shape), *([scores] if keeps_scores(b.call.attrs) else ())


@writes("attention_gradient")
def _attention_gradient(b: Body) -> tuple[Value, ...]:
    exact_sums(b)
    g, query, key, value, out, log_sum_exp, *more = b.inputs  # a mask, or the scores
    kept = keeps_scores(b.call.attrs)
    first = 0 if kept else 1  # the number of the product behind the scores
    heads, scale, sizes = b.shape(1)[1], float(b.call.attrs["scale"]), (b.shape(1)[2], b.shape(2)[2])
    shapes = {"g": b.shape(0), "q": b.shape(1), "k": b.shape(2), "v": b.shape(3), "s": (*b.shape(1)[:3], sizes[1])}

    def held(number: int, side: int, x: Value, of: str) -> Value:
        return _narrow(b, number, side, x, shapes[of])

    def shared(number: int, x: Value, of: str) -> Value:
        return _shared_heads(held(number, 1, x, of), shapes[of], heads)

    scores = more[0] if kept else _scores(b, held(0, 0, query, "q"), shared(0, key, "k"), more, sizes)
    p = b.node("Exp", scores - log_sum_exp.unsqueeze(3))
    dp = matmul(b, held(first, 0, g, "g"), swapped(shared(first, value, "v"), 4))
    ds = p * (dp - (g * out).sum((3,), keepdims=True))
    dk = scale * matmul(b, swapped(held(first + 3, 0, ds, "s"), 4), held(first + 3, 1, query, "q"))
    dv = matmul(b, swapped(held(first + 1, 0, p, "s"), 4), held(first + 1, 1, g, "g"))
    return (
        scale * matmul(b, held(first + 2, 0, ds, "s"), shared(first + 2, key, "k")),
        _per_group(dk, b.shape(2), heads),
        _per_group(dv, b.shape(3), heads),
    )


def _per_group(x: Value, shape: tuple[int, ...], heads: int) -> Value:
    batch, groups, tokens, width = shape
    if groups == heads:
        return x
    return x.reshape((batch, groups, heads // groups, tokens, width)).sum((2,))


@writes("rotary")
def _rotary(b: Body) -> Value:
    x, cos, sin = b.inputs
    axis, half = len(b.shape(0)) - 1, b.shape(0)[-1] // 2
    left, right = b.slice(x, {axis: (0, half, 1)}), b.slice(x, {axis: (half, 2 * half, 1)})
    if b.call.attrs["inverse"]:
        return b.node("Concat", left * cos + right * sin, right * cos - left * sin, axis=axis)
    return b.node("Concat", left * cos - right * sin, right * cos + left * sin, axis=axis)
