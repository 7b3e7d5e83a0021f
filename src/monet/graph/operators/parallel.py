"""Operators of one rank of several: a table or a loss of which each rank has a part of the vocabulary, and batch norm
with statistics over ranks. What is added up between ranks stands beside them as collectives.

Cross-entropy over parts of the classes: ranks agree on the largest score, each sums its exponentials and picks the
label's score where it has it (``class_scores``), both are added up, and every rank has the loss (``class_loss``). The
gradient of a rank's scores needs nothing more from the others.
"""

from __future__ import annotations

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import (
    BACKWARD,
    Array,
    Call,
    Family,
    OpKind,
    Output,
    along,
    like_second,
    pointwise,
    reduces,
    register,
    sums,
)
from monet.graph.loop_nest import Index, LoopNest, Picks
from monet.graph.op import Attributes
from monet.graph.operators.collective import BETWEEN_RANKS
from monet.graph.operators.loss import without
from monet.graph.operators.nests import axes_of, axis_names, elementwise, over
from monet.graph.operators.normalization import normalised, normalised_gradient, statistics_dtype
from monet.graph.parts import parts_of
from monet.graph.tensor import Role, Tensor


def _own_positions(attrs: Attributes, positions: Array) -> tuple[Array, Array]:
    """Positions within the part of the executing rank, and which of them it has."""
    (part,), (rank,) = parts_of(attrs), attrs["ranks"]
    length = sum(part.segments) // part.size
    inside = positions - rank * length
    mine = (inside >= 0) & (inside < length)
    return np.where(mine, inside, 0), mine


# --- embedding_part: rows of a table of which each rank has some; the others' come out as zeros -----------------------


def _infer_embedding(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    table, rows = inputs
    return (Output((*rows.shape, table.shape[1]), table.dtype),)


def _nest_embedding(call: Call) -> LoopNest:
    every, span = axes_of(range(len(call.out.shape))), len(call.inputs[1].shape)
    picks = Picks(0, axis_names(len(every))[:span])
    return over(call.out.shape, call, [(Index(()), *every[span:]), every[:span], every], {0: picks})


def _evaluate_embedding(attrs: Attributes, table: Array, rows: Array) -> Array:
    inside, mine = _own_positions(attrs, rows)
    return np.asarray(np.where(mine[..., None], table[inside], 0.0))


def _embedding_rule(b: Backward) -> tuple[str | None, ...]:
    if not b.needs[0]:
        return None, None
    return b.emit("embedding_part_gradient", b.gradient, b.inputs[1], rows=b.shape(0)[0], **b.attrs), None


def _infer_embedding_gradient(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    return (Output((attrs["rows"], inputs[0].shape[-1]), inputs[0].dtype),)


def _nest_embedding_gradient(call: Call) -> LoopNest:
    g = call.inputs[0]
    every, span = axes_of(range(len(g.shape))), len(call.inputs[1].shape)
    return over(g.shape, call, [every, every[:span], (Index(()), *every[span:])])


def _evaluate_embedding_gradient(attrs: Attributes, g: Array, rows: Array) -> Array:
    inside, mine = _own_positions(attrs, rows)
    if "padding" in attrs:  # the row that pads sequences is not trained
        mine = mine & (rows != attrs["padding"])
    out = np.zeros((attrs["rows"], g.shape[-1]), g.dtype)
    np.add.at(out, inside[mine], g[mine])
    return out


# --- class_scores, class_loss -----------------------------------------------------------------------------------------


def _infer_scores(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    scores, largest, label = inputs
    rows = without(scores.shape, attrs["axis"])
    if largest.shape != rows or label.shape != rows:
        raise ModelError(f"labels {list(label.shape)} do not fit the classes of {list(scores.shape)}")
    dtype = statistics_dtype(scores)
    return Output(rows, dtype, "exponentials"), Output(rows, dtype, "picked")


def _shifted(attrs: Attributes, scores: Array, largest: Array) -> Array:
    """Scores below the largest one. Classes beyond ``classes`` fill up the last rank's part: they count for nothing."""
    shifted: Array = np.moveaxis(scores, attrs["axis"], -1) - largest[..., None]
    (part,), (rank,) = parts_of(attrs), attrs["ranks"]
    first = rank * (sum(part.segments) // part.size)
    return np.where(first + np.arange(shifted.shape[-1]) < attrs["classes"], shifted, -np.inf)


def _evaluate_scores(attrs: Attributes, scores: Array, largest: Array, label: Array) -> tuple[Array, Array]:
    shifted = _shifted(attrs, scores, largest)
    inside, mine = _own_positions(attrs, label)
    picked = np.take_along_axis(shifted, inside[..., None], axis=-1)[..., 0]
    return np.exp(shifted).sum(axis=-1), np.where(mine, picked, 0.0)


def _scores_rule(b: Backward) -> tuple[str | None, ...]:
    exponentials, picked = b.gradients
    if exponentials is None or picked is None:
        raise ModelError("both results of class_scores go into the loss")
    return b.emit("class_scores_gradient", exponentials, *b.inputs, picked, **b.attrs), None, None


def _evaluate_scores_gradient(
    attrs: Attributes, exponentials: Array, scores: Array, largest: Array, label: Array, picked: Array
) -> Array:
    out = np.exp(_shifted(attrs, scores, largest)) * exponentials[..., None]
    inside, mine = _own_positions(attrs, label)
    out[(*np.nonzero(mine), inside[mine])] += picked[mine]
    return np.moveaxis(out, -1, attrs["axis"])


def _nest_scores(call: Call) -> LoopNest:
    scores = call.inputs[1] if len(call.inputs) == 5 else call.inputs[0]
    every, axis = axes_of(range(len(scores.shape))), call.attrs["axis"]
    rows = (*every[:axis], *every[axis + 1 :])
    maps = [every if x.shape == scores.shape else rows for x in (*call.inputs, *call.outputs)]
    return over(scores.shape, call, maps)


def _class_dim(call: Call) -> tuple[str]:
    return (f"A{call.attrs['axis']}",)


def _infer_loss(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    return (Output((), inputs[0].dtype),)


def _nest_loss(call: Call) -> LoopNest:
    every = axes_of(range(len(call.inputs[0].shape)))
    return over(call.inputs[0].shape, call, [every, every, ()])


def _loss_rule(b: Backward) -> tuple[str | None, ...]:
    return b.emit_all("class_loss_gradient", b.gradient, b.inputs[0])


def _infer_loss_gradient(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    x = inputs[1]
    return Output(x.shape, x.dtype), Output(x.shape, x.dtype, "picked")


def _evaluate_loss_gradient(_: Attributes, g: Array, exponentials: Array) -> tuple[Array, Array]:
    share = g / exponentials.size
    return share / exponentials, np.full(exponentials.shape, -share)


# --- batch norm with statistics over ranks ----------------------------------------------------------------------------


def _infer_sums(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    (x,) = inputs
    return (Output((2, x.shape[1]), statistics_dtype(x)),)


def _evaluate_sums(_: Attributes, x: Array) -> Array:
    axes = (0, *range(2, x.ndim))
    return np.stack([x.sum(axis=axes), (x * x).sum(axis=axes)])


def _nest_sums(call: Call) -> LoopNest:
    x = call.inputs[0]
    every = axes_of(range(len(x.shape)))
    return over(x.shape, call, [every, (Index(()), every[1])])


def _sums_rule(b: Backward) -> tuple[str | None, ...]:
    return (b.emit("channel_sums_gradient", b.gradient, b.inputs[0]),)


def _evaluate_sums_gradient(_: Attributes, g: Array, x: Array) -> Array:
    shape = (1, -1, *([1] * (x.ndim - 2)))
    return np.asarray(g[0].reshape(shape) + 2 * x * g[1].reshape(shape))


def _nest_sums_gradient(call: Call) -> LoopNest:
    every = axes_of(range(len(call.out.shape)))
    return over(call.out.shape, call, [(Index(()), every[1]), every, every])


def _infer_normalise(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    """As of batch norm, with the sums of all ranks behind the rest."""
    x, weight, running, dtype = inputs[0], inputs[1], inputs[3:-1], statistics_dtype(inputs[0])
    statistics = (Output(weight.shape, dtype, label) for label in ("mean", "inverse_deviation"))
    labels = zip((3, 4), ("running_mean", "running_variance"), running, strict=False)
    updated = (Output(old.shape, old.dtype, label, slot, role=Role.BUFFER) for slot, label, old in labels)
    return (Output(x.shape, x.dtype), *statistics, *updated)


def _evaluate_normalise(attrs: Attributes, x: Array, weight: Array, bias: Array, *rest: Array) -> tuple[Array, ...]:
    *running, totals = rest
    momentum, count = attrs["momentum"], attrs["count"]
    mean = totals[0] / count
    variance = totals[1] / count - mean * mean
    inverse = 1 / np.sqrt(variance + attrs["epsilon"])
    new = (mean, variance * (count / (count - 1)))
    batch = zip(running, new, strict=False)
    updated = ((1 - momentum) * old + momentum * now for old, now in batch)
    return (normalised(x, mean, inverse, weight, bias), mean, inverse, *updated)


def _normalise_rule(b: Backward) -> tuple[str | None, ...]:
    """Gradients of the input as if the statistics were given, of weight and bias, and of the sums."""
    saved = b.inputs[0], *b.op.outputs[1:3], b.inputs[1]
    names = b.emit_all("batch_norm_of_sums_gradient", b.gradient, *saved, count=b.attrs["count"])
    dx, dweight, dbias, dsums = names
    return (dx, dweight, dbias, *([None] * (len(b.inputs) - 4)), dsums)


def _infer_normalise_gradient(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    g, mean, weight = inputs[0], inputs[2], inputs[4]
    channels = (Output(weight.shape, weight.dtype, label) for label in ("weight", "bias"))
    return (Output(g.shape, g.dtype), *channels, Output((2, *mean.shape), mean.dtype, "sums"))


def _evaluate_normalise_gradient(
    attrs: Attributes, g: Array, x: Array, mean: Array, inverse: Array, weight: Array
) -> tuple[Array, ...]:
    dx, dweight, dbias = normalised_gradient(g, x, mean, inverse, weight)
    dvariance = -0.5 * weight * dweight * inverse * inverse
    dmean = -weight * inverse * dbias - 2 * mean * dvariance
    return dx, dweight, dbias, np.stack([dmean, dvariance]) / attrs["count"]


def _nest_normalise(call: Call) -> LoopNest:
    rank = len(call.inputs[0].shape)
    every, by_rank = axes_of(range(rank)), {1: axes_of([1]), 2: (Index(()), *axes_of([1]))}
    shape = call.inputs[0].shape
    tensors = (*call.inputs, *call.outputs)
    return over(shape, call, [every if x.shape == shape else by_rank[len(x.shape)] for x in tensors])


register(
    OpKind(
        "embedding_part", Family.MOVE, _infer_embedding, _evaluate_embedding, _nest_embedding, pointwise,
        gradient=_embedding_rule, no_onnx=BETWEEN_RANKS, ranked=True,
    ),
    OpKind(
        "embedding_part_gradient", Family.VECTOR, _infer_embedding_gradient, _evaluate_embedding_gradient,
        _nest_embedding_gradient, reduces, lambda call: {"add": call.inputs[0].elements}, no_onnx=BACKWARD, ranked=True,
    ),
    OpKind(
        "class_scores", Family.VECTOR, _infer_scores, _evaluate_scores, _nest_scores, along(_class_dim),
        lambda call: {"exp": call.inputs[0].elements, "add": 2 * call.inputs[0].elements}, _scores_rule,
        no_onnx=BETWEEN_RANKS, ranked=True,
    ),
    OpKind(
        "class_scores_gradient", Family.VECTOR, like_second, _evaluate_scores_gradient, _nest_scores,
        along(_class_dim), lambda call: dict.fromkeys(("exp", "mul", "add"), call.out.elements),
        no_onnx=BACKWARD, ranked=True,
    ),
    OpKind(
        "class_loss", Family.VECTOR, _infer_loss, lambda _, s, p: np.asarray((np.log(s) - p).mean()), _nest_loss, sums,
        lambda call: {"log": call.inputs[0].elements, "add": 2 * call.inputs[0].elements}, _loss_rule,
        no_onnx=BETWEEN_RANKS, ranked=True,
    ),
    OpKind(
        "class_loss_gradient", Family.VECTOR, _infer_loss_gradient, _evaluate_loss_gradient,
        lambda call: elementwise(Call(call.inputs, call.outputs, call.attrs)), pointwise,
        lambda call: {"div": call.out.elements}, no_onnx=BACKWARD, ranked=True,
    ),
    OpKind(
        "channel_sums", Family.VECTOR, _infer_sums, _evaluate_sums, _nest_sums, sums,
        lambda call: {"mul": call.inputs[0].elements, "add": 2 * call.inputs[0].elements}, _sums_rule,
        no_onnx=BETWEEN_RANKS, ranked=True,
    ),
    OpKind(
        "channel_sums_gradient", Family.VECTOR, like_second, _evaluate_sums_gradient, _nest_sums_gradient, pointwise,
        lambda call: {"mul": call.out.elements, "add": call.out.elements}, no_onnx=BACKWARD, ranked=True,
    ),
    OpKind(
        "batch_norm_of_sums", Family.VECTOR, _infer_normalise, _evaluate_normalise, _nest_normalise, pointwise,
        lambda call: {"mul": call.out.elements, "add": 2 * call.out.elements}, _normalise_rule, no_onnx=BETWEEN_RANKS,
        ranked=True, once=(3, 4),
    ),
    OpKind(
        "batch_norm_of_sums_gradient", Family.VECTOR, _infer_normalise_gradient, _evaluate_normalise_gradient,
        _nest_normalise, sums, lambda call: {"mul": 4 * call.out.elements, "add": 4 * call.out.elements},
        no_onnx=BACKWARD, ranked=True,
    ),
)  # fmt: skip
