"""Linear layers and matrix products."""

from __future__ import annotations

from monet.report.onnx.body import Body, Value
from monet.report.onnx.table import writes


def matmul(b: Body, left: Value, right: Value) -> Value:
    """A batched matrix product."""
    return b.node("MatMul", left, right)


def swapped(value: Value, rank: int) -> Value:
    """The last two axes exchanged."""
    return value.transpose((*range(rank - 2), rank - 1, rank - 2))


@writes("linear")
def _linear(b: Body) -> Value:
    x, w, *bias = b.native("MatMul")
    transposed = b.call.attrs["transpose"]
    if len(b.shape(0)) == 2 and (bias or not transposed):
        return b.node("Gemm", x, w, *bias, transB=int(not transposed))
    y = matmul(b, x, w if transposed else w.transpose((1, 0)))
    return y + bias[0] if bias else y


@writes("linear_weight_gradient")
def _linear_weight_gradient(b: Body) -> Value:
    x, g = b.native("Gemm")
    if len(b.shape(0)) != 2:
        x, g = (b.node("Flatten", value, axis=len(b.shape(0)) - 1) for value in (x, g))
    left, right = (x, g) if b.call.attrs["transpose"] else (g, x)
    return b.node("Gemm", left, right, transA=1)


@writes("matmul")
def _matmul(b: Body) -> Value:
    left, right = b.native("MatMul")
    ranks = len(b.shape(0)), len(b.shape(1))
    flip_left, flip_right = b.call.attrs["transpose_a"], b.call.attrs["transpose_b"]
    if ranks == (2, 2) and (flip_left or flip_right):
        return b.node("Gemm", left, right, transA=int(flip_left), transB=int(flip_right))
    return matmul(
        b,
        swapped(left, ranks[0]) if flip_left else left,
        swapped(right, ranks[1]) if flip_right else right,
    )
