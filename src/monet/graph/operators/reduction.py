"""Reductions over axes, the largest few, softmax and its logarithm, cumulative sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import (
    BACKWARD,
    Array,
    Call,
    DimensionRule,
    Family,
    OpKind,
    Output,
    along,
    like_first,
    like_second,
    reduces,
    register,
    sums,
)
from monet.graph.loop_nest import Index, LoopNest
from monet.graph.op import Attributes
from monet.graph.operators.elementwise import per_element
from monet.graph.operators.nests import axes_of, elementwise, over
from monet.graph.tensor import Tensor


def normalise_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Non-negative, sorted axes; an axis out of range is an error."""
    for axis in axes:
        if not -rank <= axis < max(rank, 1):
            raise ModelError(f"axis {axis} is out of range for {rank} axes")
    return tuple(sorted({axis % rank for axis in axes})) if rank else ()


def axis_dim(call: Call) -> tuple[str]:
    """The dimension of the axis that an operator works along."""
    return (f"A{call.attrs['axis'] % len(call.inputs[0].shape)}",)


def _infer_reduce(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,) = inputs
    axes = normalise_axes(attrs["axes"], len(x.shape))
    sizes = (1 if axis in axes else size for axis, size in enumerate(x.shape) if attrs["keepdims"] or axis not in axes)
    return (Output(tuple(sizes), attrs.get("dtype", x.dtype)),)


def _kept(every: tuple[Index, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[Index, ...]:
    return tuple(Index(()) if a in axes else index for a, index in enumerate(every) if keepdims or a not in axes)


def _nest_reduce(call: Call) -> LoopNest:
    shape = call.inputs[0].shape
    axes, every = normalise_axes(call.attrs["axes"], len(shape)), axes_of(range(len(shape)))
    return over(shape, call, [every, _kept(every, axes, call.attrs["keepdims"])])


def _reducer(function: Callable[..., Array]) -> Callable[[Attributes, Array], Array]:
    def evaluate(attrs: Attributes, x: Array) -> Array:
        axes = normalise_axes(attrs["axes"], x.ndim)
        return np.asarray(function(x, axis=axes, keepdims=attrs["keepdims"]))

    return evaluate


def _expand_back(b: Backward, name: str) -> str:
    """Give a reduced gradient its axes of extent one back, and broadcast it over the input."""
    shape = b.shape(0)
    axes = normalise_axes(b.attrs["axes"], len(shape))
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    if b.tensor(name).shape != kept:
        name = b.emit("reshape", name, shape=kept)
    return name if kept == shape else b.emit("expand", name, shape=shape)


def _mean_rule(b: Backward) -> tuple[str | None, ...]:
    count = b.tensor(b.inputs[0]).elements // b.tensor(b.output).elements
    return (b.emit("scale", _expand_back(b, b.gradient), factor=1.0 / count),)


def _extreme_rule(b: Backward) -> tuple[str | None, ...]:
    axes = normalise_axes(b.attrs["axes"], len(b.shape(0)))
    return (b.emit("reduce_extreme_gradient", b.gradient, b.inputs[0], b.output, axes=axes),)


def _evaluate_extreme_gradient(attrs: Attributes, g: Array, x: Array, y: Array) -> Array:
    kept = tuple(1 if axis in attrs["axes"] else size for axis, size in enumerate(x.shape))
    hit = x == y.reshape(kept)
    return np.asarray(g.reshape(kept) * hit / hit.sum(axis=attrs["axes"], keepdims=True))


def _nest_extreme_gradient(call: Call) -> LoopNest:
    g, x, _ = call.inputs
    every = axes_of(range(len(x.shape)))
    kept = _kept(every, call.attrs["axes"], len(g.shape) == len(x.shape))
    return over(x.shape, call, [kept, every, kept, every])


def _reduced_dims(call: Call) -> set[str]:
    """Those that share an extreme share its gradient."""
    return {f"A{axis}" for axis in call.attrs["axes"]}


def _reduce_work(call: Call) -> dict[str, int]:
    return {"add": call.inputs[0].elements}


def _reduction(
    name: str,
    function: Callable[..., Array],
    dimensions: DimensionRule,
    rule: Callable[[Backward], tuple[str | None, ...]],
    *onnx: str,
) -> OpKind:
    evaluate = _reducer(function)
    return OpKind(name, Family.VECTOR, _infer_reduce, evaluate, _nest_reduce, dimensions, _reduce_work, rule, onnx)


register(
    _reduction("reduce_sum", np.sum, sums, lambda b: (_expand_back(b, b.gradient),), "ReduceSum"),
    _reduction("reduce_mean", np.mean, sums, _mean_rule, "ReduceMean", "GlobalAveragePool"),
    _reduction("reduce_max", np.max, reduces, _extreme_rule, "ReduceMax", "GlobalMaxPool"),
    _reduction("reduce_min", np.min, reduces, _extreme_rule, "ReduceMin"),
    OpKind(
        "reduce_extreme_gradient", Family.VECTOR, like_second, _evaluate_extreme_gradient, _nest_extreme_gradient,
        along(_reduced_dims), per_element({"select": 1, "mul": 1}), no_onnx=BACKWARD,
    ),
)  # fmt: skip


# --- argmax, cumulative sum -----------------------------------------------------------------------------------------


def _evaluate_cumsum(attrs: Attributes, x: Array) -> Array:
    if attrs["reverse"]:
        return np.flip(np.cumsum(np.flip(x, attrs["axis"]), axis=attrs["axis"], dtype=x.dtype), attrs["axis"])
    return np.cumsum(x, axis=attrs["axis"], dtype=x.dtype)


register(
    OpKind(
        "argmax", Family.VECTOR, lambda inputs, attrs: (Output(_infer_reduce(inputs, attrs)[0].shape, "int64"),),
        lambda attrs, x: np.asarray(np.argmax(x, axis=attrs["axes"][0], keepdims=attrs["keepdims"])), _nest_reduce,
        reduces, _reduce_work, onnx=("ArgMax",),
    ),
    OpKind(
        "cumsum", Family.VECTOR, like_first, _evaluate_cumsum, elementwise, along(axis_dim), per_element({"add": 1}),
        lambda b: (b.emit("cumsum", b.gradient, axis=b.attrs["axis"], reverse=not b.attrs["reverse"]),), ("CumSum",),
    ),
)  # fmt: skip


# --- the k largest (or smallest) of an axis, in order ---------------------------------------------------------------


def _infer_topk(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), k = inputs, attrs["k"]
    (axis,) = normalise_axes((attrs["axis"],), len(x.shape))
    if not 0 < k <= x.shape[axis]:
        raise ModelError(f"cannot pick {k} of the {x.shape[axis]} elements on axis {axis} of {x}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return Output(shape, x.dtype), Output(shape, "int64", "indices")


def _evaluate_topk(attrs: Attributes, x: Array) -> tuple[Array, Array]:
    """Equal elements keep their order."""
    axis = attrs["axis"]
    if attrs["largest"]:  # sorted from the back, so that no element has to be negated
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    order = np.take(order, np.arange(attrs["k"]), axis=axis)
    return np.take_along_axis(x, order, axis=axis), order


def _nest_topk(call: Call) -> LoopNest:
    """Every element is looked at; those kept fill the front of the axis."""
    return over(call.inputs[0].shape, call, [axes_of(range(len(call.inputs[0].shape)))] * 3)


def _topk_work(call: Call) -> dict[str, int]:
    """Each element sinks into a heap of k."""
    return {"max": call.inputs[0].elements * max(1, (call.attrs["k"] - 1).bit_length())}


def _topk_rule(b: Backward) -> tuple[str | None, ...]:
    (axis,) = normalise_axes((b.attrs["axis"],), len(b.shape(0)))
    return (b.emit("gather_elements_gradient", b.gradient, b.op.outputs[1], axis=axis, shape=b.shape(0)),)


register(
    OpKind(
        "topk", Family.VECTOR, _infer_topk, _evaluate_topk, _nest_topk, along(axis_dim), _topk_work, _topk_rule,
        ("TopK",),
    ),
)  # fmt: skip


# --- softmax --------------------------------------------------------------------------------------------------------


def _infer_softmax(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    normalise_axes((attrs["axis"],), len(inputs[0].shape))
    return (Output(inputs[0].shape, attrs.get("dtype", inputs[0].dtype)),)


def _evaluate_softmax(attrs: Attributes, x: Array) -> Array:
    e = np.exp(x - x.max(axis=attrs["axis"], keepdims=True))
    return np.asarray(e / e.sum(axis=attrs["axis"], keepdims=True))


def _evaluate_log_softmax(attrs: Attributes, x: Array) -> Array:
    shifted = x - x.max(axis=attrs["axis"], keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=attrs["axis"], keepdims=True)))


def _softmax_rule(kind: str) -> Callable[[Backward], tuple[str | None, ...]]:
    def rule(b: Backward) -> tuple[str | None, ...]:
        source = b.tensor(b.inputs[0]).dtype
        return (b.emit(kind, b.gradient, b.output, axis=b.attrs["axis"], dtype=source),)

    return rule


PASSES = 2  # running maximum and sum, then apply; backward the sum, then apply

for _kind, _forward, _backward, _work, _gradient_work, _onnx in (
    (
        "softmax", _evaluate_softmax,
        lambda attrs, g, y: np.asarray(y * (g - (g * y).sum(axis=attrs["axis"], keepdims=True))),
        {"max": 1, "exp": 1, "add": 2, "div": 1}, {"mul": 2, "add": 2}, "Softmax",
    ),
    (
        "log_softmax", _evaluate_log_softmax,
        lambda attrs, g, y: np.asarray(g - np.exp(y) * g.sum(axis=attrs["axis"], keepdims=True)),
        {"max": 1, "exp": 1, "add": 3}, {"exp": 1, "mul": 1, "add": 2}, "LogSoftmax",
    ),
):  # fmt: skip
    _whole, _rule = along(axis_dim, PASSES), _softmax_rule(f"{_kind}_gradient")
    register(
        OpKind(
            _kind, Family.VECTOR, _infer_softmax, _forward, elementwise, _whole, per_element(_work), _rule, (_onnx,)
        ),
        OpKind(
            f"{_kind}_gradient", Family.VECTOR, _infer_softmax, _backward, elementwise, _whole,
            per_element(_gradient_work), no_onnx=BACKWARD,
        ),
    )  # fmt: skip
