"""Losses: negative log-likelihood on log-probabilities, and mean squared error."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import BACKWARD, Array, Call, Family, OpKind, Output, like_second, pointwise, register, sums
from monet.graph.loop_nest import Index, LoopNest, Picks
from monet.graph.op import Attributes
from monet.graph.operators.elementwise import per_element
from monet.graph.operators.nests import axes_of, axis_size, elementwise, over
from monet.graph.operators.normalization import statistics_dtype
from monet.graph.tensor import Tensor

LOSS = "training appends it; files hold the model alone"


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """``shape`` with one axis removed."""
    return (*shape[:axis], *shape[axis + 1 :])


def _infer_nll(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    scores, label = inputs
    if label.shape != without(scores.shape, attrs["axis"]):
        raise ModelError(
            f"labels {list(label.shape)} do not fit classes on axis {attrs['axis']} of {list(scores.shape)}"
        )
    dtype = statistics_dtype(scores)
    return Output((), dtype), Output((), dtype, "total_weight")


def _evaluate_nll(attrs: Attributes, scores: Array, label: Array) -> tuple[Array, Array]:
    picked = np.take_along_axis(scores, np.expand_dims(label, attrs["axis"]), axis=attrs["axis"])
    return np.asarray(-picked.mean()), np.asarray(float(label.size), scores.dtype)


def _nll_rule(b: Backward) -> tuple[str | None, ...]:
    axis, dtype = b.attrs["axis"], b.tensor(b.inputs[0]).dtype
    operands = (b.gradient, b.inputs[1], b.op.outputs[1])
    return b.emit("nll_loss_gradient", *operands, axis=axis, classes=b.shape(0)[axis], dtype=dtype), None


def _infer_nll_gradient(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    label, axis = inputs[1], attrs["axis"]
    return (Output((*label.shape[:axis], attrs["classes"], *label.shape[axis:]), attrs["dtype"]),)


def _evaluate_nll_gradient(attrs: Attributes, g: Array, label: Array, weight: Array) -> Array:
    axis = attrs["axis"]
    out = np.zeros((*label.shape[:axis], attrs["classes"], *label.shape[axis:]), g.dtype)
    np.put_along_axis(out, np.expand_dims(label, axis), -g / weight, axis=axis)
    return out


def _nest_nll(call: Call) -> LoopNest:
    """One point per label; of the classes a single, data-dependent one is read."""
    label, axis = call.inputs[1], call.attrs["axis"]
    rank = len(label.shape)
    rows = axes_of(range(rank))
    picked = (*rows[:axis], Index(()), *rows[axis:])
    return over(label.shape, call, [picked, rows, (), ()], {0: Picks(axis, ())})


def _nest_nll_gradient(call: Call) -> LoopNest:
    axis, rank = call.attrs["axis"], len(call.out.shape)
    every = axes_of(range(rank))
    return over(call.out.shape, call, [(), (*every[:axis], *every[axis + 1 :]), (), every])


def _infer_mse(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    if inputs[0].shape != inputs[1].shape:
        raise ModelError(f"targets {list(inputs[1].shape)} do not fit outputs {list(inputs[0].shape)}")
    return (Output((), statistics_dtype(inputs[0])),)


def _nest_mse(call: Call) -> LoopNest:
    every = axes_of(range(len(call.inputs[0].shape)))
    return over(call.inputs[0].shape, call, [every, every, ()])


def _per_input(**counts: int) -> Any:
    return lambda call: {function: n * call.inputs[0].elements for function, n in counts.items()}


register(
    OpKind(
        "nll_loss", Family.VECTOR, _infer_nll, _evaluate_nll, _nest_nll, sums,
        lambda call: {"add": call.inputs[1].elements}, _nll_rule, no_onnx=LOSS,
        positions=axis_size,
    ),
    OpKind(
        "nll_loss_gradient", Family.VECTOR, _infer_nll_gradient, _evaluate_nll_gradient, _nest_nll_gradient, pointwise,
        lambda call: {"mul": call.inputs[1].elements}, no_onnx=BACKWARD,
    ),
    OpKind(
        "mse_loss", Family.VECTOR, _infer_mse, lambda _, x, y: np.asarray(((x - y) ** 2).mean()), _nest_mse, sums,
        _per_input(add=2, mul=1), lambda b: (b.emit("mse_loss_gradient", b.gradient, *b.inputs), None), no_onnx=LOSS,
    ),
    OpKind(
        "mse_loss_gradient", Family.VECTOR, like_second, lambda _, g, x, y: g * 2 * (x - y) / x.size, elementwise,
        pointwise, per_element({"add": 1, "mul": 1}), no_onnx=BACKWARD,
    ),
)  # fmt: skip
