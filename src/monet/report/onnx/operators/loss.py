"""Losses and their gradients."""

from __future__ import annotations

from monet.report.onnx.body import Body, Value
from monet.report.onnx.table import writes


@writes("nll_loss")
def _nll_loss(b: Body) -> tuple[Value, ...]:
    (scores, label), axis = b.inputs, b.call.attrs["axis"]
    picked = b.node("GatherElements", scores, label.cast("int64").unsqueeze(axis), axis=axis)
    loss = -picked.mean(range(len(b.shape(0))))
    return loss, b.scalar(float(b.call.inputs[1].elements), scores.dtype)


@writes("nll_loss_gradient")
def _nll_loss_gradient(b: Body) -> Value:
    (g, label, weight), axis, shape = b.inputs, b.call.attrs["axis"], b.call.out.shape
    share = (-(g / weight)).expand((*shape[:axis], 1, *shape[axis + 1 :]))
    zeros = b.full(shape, 0, share.dtype)
    return b.node("ScatterElements", zeros, label.cast("int64").unsqueeze(axis), share, axis=axis)


@writes("mse_loss")
def _mse_loss(b: Body) -> Value:
    x, y = b.inputs
    difference = x - y
    return (difference * difference).mean(range(len(b.shape(0))))


@writes("mse_loss_gradient")
def _mse_loss_gradient(b: Body) -> Value:
    g, x, y = b.inputs
    return g * (2.0 / b.call.inputs[1].elements) * (x - y)
