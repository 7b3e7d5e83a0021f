"""Linear layers and batched matrix products.

Dimensions: N rows (tokens), K output columns, C the contraction, B… batch axes. ``linear`` is closed under
differentiation for its input; its weight gradient reduces over N directly, with no per-sample gradients.

Optional attributes that precision policies set: ``dtype`` of the result where operands are narrower, ``rows``, the axes
that the rows of a matrix stand for (``channels``: where the columns go among them), ``shape`` of a weight gradient.
"""

from __future__ import annotations

import math

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import BACKWARD, Array, Call, Contracted, Factor, Family, OpKind, Output, register, sums
from monet.graph.loop_nest import Index, LoopNest, Operand, index
from monet.graph.op import Attributes
from monet.graph.operators.products import product
from monet.graph.tensor import Tensor

# --- linear: y[…, k] = Σ_c x[…, c] · w[k, c] + b[k]; with transpose, w is stored as [c, k] ----------------------------


def _infer_linear(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, w = inputs[:2]
    if len(w.shape) != 2:
        raise ModelError(f"a linear weight has two axes, got {list(w.shape)}")
    out, contracted = (w.shape[1], w.shape[0]) if attrs["transpose"] else w.shape
    if not x.shape or x.shape[-1] != contracted:
        raise ModelError(f"the last axis of the input must be {contracted} long to meet the weight {list(w.shape)}")
    rows = attrs.get("rows", x.shape[:-1])
    if math.prod(rows) != math.prod(x.shape[:-1]):
        raise ModelError(f"{math.prod(x.shape[:-1])} rows cannot stand for {list(rows)}")
    at = attrs.get("channels", len(rows))
    return (Output((*rows[:at], out, *rows[at:]), attrs.get("dtype", x.dtype)),)


def _nest_linear(call: Call) -> LoopNest:
    x, w = call.inputs[:2]
    y, rows = call.out, math.prod(x.shape[:-1])
    weight_dims, columns = ("C", "K") if call.attrs["transpose"] else ("K", "C"), y.elements // rows
    operands = [
        Operand("x", 0, x.dtype, (rows, x.shape[-1]), (index("N"), index("C")), False, x.bits_per_element),
        Operand("w", 1, w.dtype, w.shape, tuple(map(index, weight_dims)), False),
        Operand("y", len(call.inputs), y.dtype, (rows, columns), (index("N"), index("K")), True, y.bits_per_element),
    ]
    return LoopNest((("N", rows), ("K", columns), ("C", x.shape[-1])), tuple(operands))


def _work_linear(call: Call) -> dict[str, int]:
    counts = {"mac": _nest_linear(call).points}
    if len(call.inputs) == 3:
        counts["add"] = call.out.elements
    return counts


def _evaluate_linear(attrs: Attributes, x: Array, w: Array, bias: Array | None = None) -> Array:
    y: Array = product(attrs, x, w if attrs["transpose"] else w.T)
    y = y if bias is None else y + bias
    if "rows" not in attrs:
        return y
    return np.moveaxis(y.reshape(*attrs["rows"], y.shape[-1]), -1, attrs.get("channels", -1))


def _contracted_linear(call: Call) -> tuple[Contracted, Contracted]:
    return Contracted(-1, -2), Contracted(0, 1) if call.attrs["transpose"] else Contracted(1, 0)


def _gradient_linear(b: Backward) -> tuple[str | None, ...]:
    x, w = b.inputs[:2]
    stored_transposed = b.attrs["transpose"]
    dx = b.emit("linear", b.gradient, w, transpose=not stored_transposed) if b.needs[0] else None
    dw = b.emit("linear_weight_gradient", x, b.gradient, transpose=stored_transposed) if b.needs[1] else None
    db = None
    if len(b.inputs) > 2 and b.needs[2]:
        axes = tuple(range(len(b.tensor(b.gradient).shape) - 1))
        db = b.emit("reduce_sum", b.gradient, axes=axes, keepdims=False)
    return (dx, dw, db)[: len(b.inputs)]


# --- linear_weight_gradient: dw[k, c] = Σ_n g[n, k] · x[n, c] ---------------------------------------------------------


def _infer_weight_gradient(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, g = inputs
    shape = (g.shape[-1], x.shape[-1])
    made = tuple(attrs.get("shape", shape[::-1] if attrs["transpose"] else shape))
    if math.prod(made) != math.prod(shape):
        raise ModelError(f"a gradient of {list(shape)} cannot have the shape {list(made)}")
    return (Output(made, attrs.get("dtype", x.dtype)),)


def _nest_weight_gradient(call: Call) -> LoopNest:
    x, g = call.inputs
    rows, weight_dims = math.prod(x.shape[:-1]), ("C", "K") if call.attrs["transpose"] else ("K", "C")
    made = (x.shape[-1], g.shape[-1]) if call.attrs["transpose"] else (g.shape[-1], x.shape[-1])
    operands = (
        Operand("x", 0, x.dtype, (rows, x.shape[-1]), (index("N"), index("C")), False, x.bits_per_element),
        Operand("y", 1, g.dtype, (rows, g.shape[-1]), (index("N"), index("K")), False, g.bits_per_element),
        Operand("w", 2, call.out.dtype, made, tuple(map(index, weight_dims)), True, call.out.bits_per_element),
    )
    return LoopNest((("N", rows), ("K", g.shape[-1]), ("C", x.shape[-1])), operands)


def _evaluate_weight_gradient(attrs: Attributes, x: Array, g: Array) -> Array:
    rows, columns = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
    out = product(attrs, rows.T, columns) if attrs["transpose"] else product(attrs, columns.T, rows)
    return out.reshape(attrs.get("shape", out.shape))


def _contracted_weight_gradient(_: Call) -> tuple[Contracted, Contracted]:
    return Contracted(-2, -1), Contracted(-2, -1)


# --- matmul: batched, broadcasting, either operand transposed ---------------------------------------------------------


def _matrix(shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _infer_matmul(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    a, b = inputs
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ModelError("matmul needs at least two axes on both sides")
    rows, contracted = _matrix(a.shape, attrs["transpose_a"])
    other, columns = _matrix(b.shape, attrs["transpose_b"])
    if contracted != other:
        raise ModelError(f"cannot contract an axis of {contracted} with one of {other}")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ModelError(f"batch axes {list(a.shape[:-2])} and {list(b.shape[:-2])} do not broadcast") from None
    return (Output((*batch, rows, columns), attrs.get("dtype", a.dtype)),)


def _nest_matmul(call: Call) -> LoopNest:
    (a, b), out = call.inputs, call.out
    rank = len(out.shape) - 2
    batch = tuple((f"B{axis}", size) for axis, size in enumerate(out.shape[:-2]))

    def lead(shape: tuple[int, ...]) -> tuple[Index, ...]:
        skipped = rank - (len(shape) - 2)
        return tuple(index(f"B{skipped + axis}") if size > 1 else Index(()) for axis, size in enumerate(shape[:-2]))

    rows, contracted = _matrix(a.shape, call.attrs["transpose_a"])
    a_axes = ("C", "N") if call.attrs["transpose_a"] else ("N", "C")
    b_axes = ("K", "C") if call.attrs["transpose_b"] else ("C", "K")
    operands = (
        Operand("x", 0, a.dtype, a.shape, (*lead(a.shape), *map(index, a_axes)), False),
        Operand("w", 1, b.dtype, b.shape, (*lead(b.shape), *map(index, b_axes)), False),
        Operand("y", 2, out.dtype, out.shape, (*lead(out.shape), index("N"), index("K")), True),
    )
    return LoopNest((*batch, ("N", rows), ("K", out.shape[-1]), ("C", contracted)), operands)


def _evaluate_matmul(attrs: Attributes, a: Array, b: Array) -> Array:
    left = np.swapaxes(a, -1, -2) if attrs["transpose_a"] else a
    right = np.swapaxes(b, -1, -2) if attrs["transpose_b"] else b
    return product(attrs, left, right)


def _contracted_matmul(call: Call) -> tuple[Contracted, Contracted]:
    left, right = call.attrs["transpose_a"], call.attrs["transpose_b"]
    return Contracted(-2, -1) if left else Contracted(-1, -2), Contracted(-1, -2) if right else Contracted(-2, -1)


def _gradient_matmul(b: Backward) -> tuple[str | None, ...]:
    left, right = b.inputs
    ta, tb = b.attrs["transpose_a"], b.attrs["transpose_b"]
    da = db = None
    if b.needs[0]:
        if ta:
            da = b.emit("matmul", right, b.gradient, transpose_a=tb, transpose_b=True)
        else:
            da = b.emit("matmul", b.gradient, right, transpose_a=False, transpose_b=not tb)
        da = b.sum_to(da, b.shape(0))
    if b.needs[1]:
        if tb:
            db = b.emit("matmul", b.gradient, left, transpose_a=True, transpose_b=ta)
        else:
            db = b.emit("matmul", left, b.gradient, transpose_a=not ta, transpose_b=False)
        db = b.sum_to(db, b.shape(1))
    return da, db


def _low_rank(call: Call, rank: int) -> tuple[Factor, Factor]:
    """Down to ``rank`` columns, and up again."""
    plain = {"transpose": False}
    stands_for = {name: call.attrs[name] for name in ("rows", "channels") if name in call.attrs}
    columns = call.inputs[1].shape[1 if call.attrs["transpose"] else 0]
    return Factor((rank, call.inputs[0].shape[-1]), plain), Factor((columns, rank), {**plain, **stands_for})


register(
    OpKind(
        "linear", Family.MATMUL, _infer_linear, _evaluate_linear, _nest_linear, sums, _work_linear, _gradient_linear,
        ("Gemm",), low_rank=_low_rank, contraction=_contracted_linear,
    ),
    OpKind(
        "linear_weight_gradient", Family.MATMUL, _infer_weight_gradient, _evaluate_weight_gradient,
        _nest_weight_gradient, sums, lambda call: {"mac": _nest_weight_gradient(call).points}, no_onnx=BACKWARD,
        contraction=_contracted_weight_gradient,
    ),
    OpKind(
        "matmul", Family.MATMUL, _infer_matmul, _evaluate_matmul, _nest_matmul, sums,
        lambda call: {"mac": _nest_matmul(call).points}, _gradient_matmul, ("MatMul",),
        contraction=_contracted_matmul,
    ),
)  # fmt: skip
