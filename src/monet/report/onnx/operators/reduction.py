"""Reductions, running sums, softmax."""

from __future__ import annotations

from monet.graph.operators.reduction import normalise_axes
from monet.report.onnx.body import Body, Value
from monet.report.onnx.element_types import accepts, stored_type
from monet.report.onnx.table import WRITERS, writes


def _in_output_type(b: Body, op_type: str) -> Value:
    """The input in the type of the output, or in the one computed in where ``op_type`` does not accept that."""
    dtype = stored_type(b.call.out.dtype)
    return b.raw[0].cast(dtype if accepts(op_type, dtype) else b.compute)


def _reduction(b: Body, op_type: str) -> Value:
    axes = normalise_axes(b.call.attrs["axes"], len(b.shape(0)))
    return _in_output_type(b, op_type).reduce(op_type, axes, b.call.attrs["keepdims"])


def _softmax(b: Body, op_type: str) -> Value:
    return b.node(op_type, _in_output_type(b, op_type), axis=b.call.attrs["axis"])


WRITERS.rows(
    {
        "reduce_sum": lambda b: _reduction(b, "ReduceSum"),
        "reduce_mean": lambda b: _reduction(b, "ReduceMean"),
        "reduce_max": lambda b: _reduction(b, "ReduceMax"),
        "reduce_min": lambda b: _reduction(b, "ReduceMin"),
        "softmax": lambda b: _softmax(b, "Softmax"),
        "log_softmax": lambda b: _softmax(b, "LogSoftmax"),
    }
)


@writes("reduce_extreme_gradient")
def _reduce_extreme_gradient(b: Body) -> Value:
    """Shared evenly by all elements that attain the extreme."""
    (g, x, y), axes = b.inputs, b.call.attrs["axes"]
    kept = [1 if axis in axes else size for axis, size in enumerate(b.shape(1))]
    hit = x.same_as(y.reshape(kept)).cast(x.dtype)
    return g.reshape(kept) * hit / hit.sum(axes, keepdims=True)


@writes("argmax")
def _argmax(b: Body) -> Value:
    (x,), axis = b.native("ArgMax"), b.call.attrs["axes"][0]
    return b.node("ArgMax", x, dtype="int64", axis=axis, keepdims=int(b.call.attrs["keepdims"]))


@writes("topk")
def _topk(b: Body) -> tuple[Value, ...]:
    (x,), attrs = b.native("TopK"), b.call.attrs
    how = {"axis": attrs["axis"], "largest": int(attrs["largest"]), "sorted": 1}
    return b.node_all("TopK", x, b.integers(attrs["k"]), dtypes=(x.dtype, "int64"), **how)


@writes("cumsum")
def _cumsum(b: Body) -> Value:
    (x,) = b.native("CumSum")
    return b.node("CumSum", x, b.scalar(b.call.attrs["axis"], "int64"), reverse=int(b.call.attrs["reverse"]))


@writes("softmax_gradient")
def _softmax_gradient(b: Body) -> Value:
    (g, y), axis = b.inputs, b.call.attrs["axis"]
    return y * (g - (g * y).sum((axis,), keepdims=True))


@writes("log_softmax_gradient")
def _log_softmax_gradient(b: Body) -> Value:
    (g, y), axis = b.inputs, b.call.attrs["axis"]
    return g - b.node("Exp", y) * g.sum((axis,), keepdims=True)
