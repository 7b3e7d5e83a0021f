"""Linear layers and matrix products."""

from __future__ import annotations

from monet.errors import MonetError
from monet.report.onnx.body import Body, Value
from monet.report.onnx.table import writes


def matmul(b: Body, left: Value, right: Value) -> Value:
    """A batched matrix product."""
    return b.node("MatMul", left, right)


def swapped(value: Value, rank: int) -> Value:
    """The last two axes exchanged."""
    return value.transpose((*range(rank - 2), rank - 1, rank - 2))


def exact_sums(b: Body) -> None:
    """No standard operator adds up in a narrow accumulator."""
    if "accumulator" in b.call.attrs:
        bits = b.call.attrs["accumulator"][0]
        raise MonetError(
            f"ONNX has no sums with {bits} bits of fraction; export without accumulator_bits in the policy"
        )


@writes("linear")
def _linear(b: Body) -> Value:
    exact_sums(b)
    y, attrs = _rows(b), b.call.attrs
    if "rows" not in attrs:
        return y
    rows, at = attrs["rows"], attrs.get("channels", len(attrs["rows"]))
    order = (*range(at), len(rows), *range(at, len(rows)))
    return y.reshape((*rows, b.call.out.shape[at])).transpose(order)


def _rows(b: Body) -> Value:
    x, w, *bias = b.native("MatMul")
    transposed = b.call.attrs["transpose"]
    if len(b.shape(0)) == 2 and (bias or not transposed):
        return b.node("Gemm", x, w, *bias, transB=int(not transposed))
    y = matmul(b, x, w if transposed else w.transpose((1, 0)))
    return y + bias[0] if bias else y


@writes("linear_weight_gradient")
def _linear_weight_gradient(b: Body) -> Value:
    exact_sums(b)
    x, g = b.native("Gemm")
    if len(b.shape(0)) != 2:
        x, g = (b.node("Flatten", value, axis=len(b.shape(0)) - 1) for value in (x, g))
    left, right = (x, g) if b.call.attrs["transpose"] else (g, x)
    made = b.node("Gemm", left, right, transA=1)
    return made.reshape(b.call.attrs["shape"]) if "shape" in b.call.attrs else made


@writes("matmul")
def _matmul(b: Body) -> Value:
    exact_sums(b)
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
