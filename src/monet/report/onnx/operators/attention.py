"""Fused attention and rotary position embedding."""

from __future__ import annotations

import math

from monet.report.onnx.body import Body, Value
from monet.report.onnx.operators.matmul import matmul, swapped
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


@writes("attention")
def _attention(b: Body) -> tuple[Value, ...]:
    query, key, value, *mask = b.inputs
    heads, sizes = b.shape(0)[1], (b.shape(0)[2], b.shape(1)[2])
    scores = _scores(b, query, _shared_heads(key, b.shape(1), heads), mask, sizes)
    top = scores.reduce("ReduceMax", (3,), keepdims=True)
    total = top + b.node("Log", b.node("Exp", scores - top).sum((3,), keepdims=True))
    out = matmul(b, b.node("Exp", scores - total), _shared_heads(value, b.shape(2), heads))
    return out, total.reshape(b.call.outputs[1].shape)


@writes("attention_gradient")
def _attention_gradient(b: Body) -> tuple[Value, ...]:
    g, query, key, value, out, log_sum_exp, *mask = b.inputs
    heads, scale, sizes = b.shape(1)[1], float(b.call.attrs["scale"]), (b.shape(1)[2], b.shape(2)[2])
    wide_key, wide_value = _shared_heads(key, b.shape(2), heads), _shared_heads(value, b.shape(3), heads)
    p = b.node("Exp", _scores(b, query, wide_key, mask, sizes) - log_sum_exp.unsqueeze(3))
    dp = matmul(b, g, swapped(wide_value, 4))
    ds = scale * (p * (dp - (g * out).sum((3,), keepdims=True)))
    dk, dv = matmul(b, swapped(ds, 4), query), matmul(b, swapped(p, 4), g)
    return matmul(b, ds, wide_key), _per_group(dk, b.shape(2), heads), _per_group(dv, b.shape(3), heads)


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
