"""Losses: attach one to a model's output, with a label input made to fit."""

from __future__ import annotations

from monet.errors import MonetError, OptionError, nearest
from monet.formats import FORMATS
from monet.graph.builder import GraphBuilder
from monet.graph.op import Phase
from monet.graph.operators.loss import without
from monet.graph.operators.normalization import statistics_dtype
from monet.graph.tensor import Tensor

LOSSES = ("cross-entropy", "mse", "sum")


def class_axis_of(shape: tuple[int, ...]) -> int:
    """Where the classes of an output lie: axis 1 of an image (N, C, H, W, …), else the last axis."""
    return 1 if len(shape) >= 4 else len(shape) - 1


def attach_loss(builder: GraphBuilder, output: str, loss: str, class_axis: int | None, label: str = "label") -> str:
    """Append ``loss`` of ``output`` and return the scalar's name. ``label`` names the input it compares with."""
    if loss not in LOSSES:
        raise OptionError("loss", loss, nearest(loss, LOSSES))
    tensor = builder.tensors[output]
    if not FORMATS[tensor.dtype].is_float:
        raise MonetError(f"output {output!r} is {tensor}; a loss needs floating-point values")
    with builder.at(Phase.LOSS, "loss"):
        if loss == "cross-entropy":
            return _cross_entropy(builder, tensor, class_axis, label)
        if loss == "mse":
            return builder.emit("mse_loss", output, builder.label(label, tensor.shape, tensor.dtype))
        axes = tuple(range(len(tensor.shape)))
        return builder.emit("reduce_sum", output, axes=axes, keepdims=False, dtype=statistics_dtype(tensor))


def _cross_entropy(builder: GraphBuilder, tensor: Tensor, class_axis: int | None, label: str) -> str:
    rank = len(tensor.shape)
    axis = class_axis_of(tensor.shape) if class_axis is None else class_axis
    if rank == 0 or not -rank <= axis < rank:
        raise OptionError("class_axis", axis, f"the output {list(tensor.shape)} has axes 0 to {rank - 1}")
    axis %= rank
    builder.label(label, without(tensor.shape, axis), "int64")
    scores = builder.emit("log_softmax", tensor.name, axis=axis, dtype=statistics_dtype(tensor))
    return builder.emit("nll_loss", scores, label, axis=axis)
