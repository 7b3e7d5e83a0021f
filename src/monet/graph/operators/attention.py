"""Fused attention (online softmax) and rotary position embedding.

``attention`` keeps the log-sum-exp of each row and computes the scores again in backward: seven matrix products in all,
two forward and five backward. With ``keep_scores`` its third result is the scores, scaled and masked, before the
softmax: backward reads them, p = exp(s - lse), and makes four products. Shapes are (…, heads, tokens, width); key and
value may have fewer heads (grouped query).
"""

from __future__ import annotations

import math

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import BACKWARD, Array, Call, Family, OpKind, Output, along, displaced, register
from monet.graph.loop_nest import Index, LoopNest, Operand, index
from monet.graph.op import Attributes
from monet.graph.operators.attention_products import keeps_scores, narrow, rounding_work
from monet.graph.operators.elementwise import per_element
from monet.graph.operators.nests import elementwise
from monet.graph.operators.normalization import statistics_dtype
from monet.graph.operators.products import product
from monet.graph.tensor import Tensor

MASK = "mask"  # what the operand of a mask is called in the nest
SCORES = "scores"  # and that of the scores that are kept


def _written_like(q: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an output laid out like the query, as the framework's kernels do, so that merging heads is a view.

    A query computed element by element may have lost its layout here; it is taken to be token by token.
    """
    order = (0, 2, 1, 3) if q.is_contiguous else sorted(range(4), key=lambda axis: -q.strides[axis])
    strides, step = [0] * 4, 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _infer_attention(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    q, k, v = inputs[:3]
    ranks = {len(tensor.shape) for tensor in (q, k, v)}
    if ranks != {4} or q.shape[-1] != k.shape[-1] or k.shape[:-1] != v.shape[:-1] or q.shape[1] % k.shape[1]:
        raise ModelError(f"attention cannot join query {list(q.shape)}, key {list(k.shape)}, value {list(v.shape)}")
    batch, heads, tokens, width = *q.shape[:-1], v.shape[-1]
    shape = (batch, heads, tokens, width)
    dtype = attrs.get("dtype", q.dtype)
    statistics = Output(q.shape[:-1], statistics_dtype(q), "log_sum_exp")
    kept = (Output((*q.shape[:-1], k.shape[2]), dtype, SCORES),) if keeps_scores(attrs) else ()
    return Output(shape, dtype, strides=_written_like(q, shape)), statistics, *kept


def _scores(attrs: Attributes, q: Array, k: Array, mask: Array | None) -> Array:
    scores = attrs["scale"] * product(attrs, q, np.swapaxes(k, -1, -2))
    if attrs["causal"]:
        rows, columns = scores.shape[-2:]
        scores = np.where(np.tri(rows, columns, columns - rows, dtype=np.bool_), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, -np.inf, scores) if mask.dtype == np.bool_ else scores + mask
    return np.asarray(scores)


def _shared_heads(x: Array, heads: int) -> Array:
    return np.repeat(x, heads // x.shape[1], axis=1)


def _evaluate_attention(
    attrs: Attributes, q: Array, k: Array, v: Array, mask: Array | None = None
) -> tuple[Array, ...]:
    v = _shared_heads(narrow(attrs, 1, 1, v), q.shape[1])
    scores = _scores(attrs, narrow(attrs, 0, 0, q), _shared_heads(narrow(attrs, 0, 1, k), q.shape[1]), mask)
    top = scores.max(axis=-1, keepdims=True)
    lse = top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
    kept = (scores,) if keeps_scores(attrs) else ()
    return product(attrs, narrow(attrs, 1, 0, np.exp(scores - lse)), v), lse[..., 0], *kept


def _evaluate_attention_gradient(
    attrs: Attributes, g: Array, q: Array, k: Array, v: Array, out: Array, lse: Array, more: Array | None = None
) -> tuple[Array, ...]:
    """``more`` is a mask, or the scores, which have been masked."""
    heads, groups, kept = q.shape[1], k.shape[1], keeps_scores(attrs)
    first = 0 if kept else 1  # the number of the product behind the scores

    def held(number: int, side: int, x: Array) -> Array:
        return narrow(attrs, number, side, x)

    def shared(number: int, x: Array) -> Array:
        return _shared_heads(held(number, 1, x), heads)

    scores = more if kept else _scores(attrs, held(0, 0, q), shared(0, k), more)
    assert scores is not None  # they are an input if they are kept
    p = np.exp(scores - lse[..., None])
    dp = product(attrs, held(first, 0, g), np.swapaxes(shared(first, v), -1, -2))
    ds = p * (dp - (g * out).sum(axis=-1, keepdims=True))
    dq = attrs["scale"] * product(attrs, held(first + 2, 0, ds), shared(first + 2, k))
    dk = attrs["scale"] * product(attrs, np.swapaxes(held(first + 3, 0, ds), -1, -2), held(first + 3, 1, q))
    dv = product(attrs, np.swapaxes(held(first + 1, 0, p), -1, -2), held(first + 1, 1, g))

    def per_group(x: Array) -> Array:
        return np.asarray(x.reshape(x.shape[0], groups, heads // groups, *x.shape[2:]).sum(axis=2))

    return dq, per_group(dk), per_group(dv)


def _attention_rule(b: Backward) -> tuple[str | None, ...]:
    q, k, v, *mask = b.inputs
    more = () if keeps_scores(b.attrs) else mask  # scores that are kept have been masked
    names = b.emit_all("attention_gradient", b.gradient, q, k, v, *b.op.outputs, *more, **b.attrs)
    grads = [name if needed else None for name, needed in zip(names, b.needs[:3], strict=True)]
    return (*grads, *([None] * len(mask)))


def _infer_attention_gradient(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    q, k, v = ((tensor.shape, attrs.get("dtype", tensor.dtype)) for tensor in inputs[1:4])
    return Output(*q), Output(*k, "key"), Output(*v, "value")


def _is_gradient(call: Call) -> bool:
    return len(call.inputs) >= 6  # the incoming gradient, query, key, value, output, log-sum-exp


def _nest_attention(call: Call) -> LoopNest:
    """B batch, H key heads, J query heads per key head, N queries, C keys, K width: both products in one nest."""
    backward, kept = _is_gradient(call), keeps_scores(call.attrs)
    q, k = call.inputs[1:3] if backward else call.inputs[:2]
    batch, heads, tokens, width = q.shape
    shared = heads // k.shape[1]
    row: tuple[Index, ...] = (index("B"), index(("H", shared), "J"), index("N"))
    query: tuple[Index, ...] = (*row, index("K"))
    key: tuple[Index, ...] = (index("B"), index("H"), index("C"), index("K"))
    scores = (*row, index("C"))
    if backward:
        reads, writes = [query, query, key, key, query, row, *([scores] * kept)], [query, key, key]
    else:
        reads, writes = [query, key, key], [query, row, *([scores] * kept)]
    masks = [
        tuple(axis if size > 1 else Index(()) for axis, size in zip(scores[4 - len(x.shape) :], x.shape, strict=True))
        for x in call.inputs[len(reads) :]
    ]
    names = dict.fromkeys(range(len(reads), len(call.inputs)), MASK)
    names |= {6 if backward else len(call.inputs) + 2: SCORES} if kept else {}
    operands = tuple(
        Operand(
            names.get(slot, f"t{slot}"), slot, tensor.dtype, tensor.shape, axes, slot >= len(call.inputs)
        )
        for slot, (tensor, axes) in enumerate(
            zip((*call.inputs, *call.outputs), (*reads, *masks, *writes), strict=True)
        )
    )  # fmt: skip
    dims = (("B", batch), ("H", k.shape[1]), ("J", shared), ("N", tokens), ("C", k.shape[2]), ("K", width))
    return LoopNest(dims, operands)


def _attention_whole(call: Call) -> str:
    """The width is summed over in the scores, a result needs all keys. Backward may be cut along rows, dK and dV being
    sums over them, or along keys, as dQ is one over those."""
    return "K" if _is_gradient(call) else "CK"


def _attention_work(call: Call) -> dict[str, int]:
    backward = _is_gradient(call)
    q, k, v = call.inputs[1:4] if backward else call.inputs[:3]
    scores = math.prod(q.shape[:-1]) * k.shape[-2]
    key, value = scores * q.shape[-1], scores * v.shape[-1]
    if backward:  # scores again (made and scaled) unless they are kept; dV, dP, dQ, dK
        rounding, again = rounding_work(call, "attention_gradient"), 0 if keeps_scores(call.attrs) else 1
        macs, scaled = (2 + again) * key + 2 * value, (2 + again) * scores
        return {"mac": macs, "exp": scores, "mul": scaled, "add": 2 * scores} | rounding
    rounding = rounding_work(call, "attention")
    return {"mac": key + value, "max": scores, "exp": scores, "add": 2 * scores, "mul": scores} | rounding


# --- rotary embedding: rotate pairs (i, i + width/2) by position-dependent angles -------------------------------------


def _infer_rotary(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    x, cos, sin = inputs
    if x.shape[-1] % 2 or cos.shape != (x.shape[-2], x.shape[-1] // 2) or sin.shape != cos.shape:
        raise ModelError(f"rotary tables of {list(cos.shape)} do not fit {list(x.shape)}")
    return (Output(x.shape, x.dtype),)


def _evaluate_rotary(attrs: Attributes, x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    sign = -1.0 if attrs["inverse"] else 1.0
    return np.concatenate([left * cos - sign * right * sin, right * cos + sign * left * sin], axis=-1)


def _rotary_rule(b: Backward) -> tuple[str | None, ...]:
    return b.emit("rotary", b.gradient, *b.inputs[1:], inverse=not b.attrs["inverse"]), None, None


def _nest_rotary(call: Call) -> LoopNest:
    x, plain = call.inputs[0], elementwise(Call(call.inputs[:1], call.outputs, call.attrs))
    rank = len(x.shape)
    table = (index(f"A{rank - 2}"), Index(()))
    tables = tuple(
        Operand(name, slot, call.inputs[slot].dtype, call.inputs[slot].shape, table, False)
        for slot, name in ((1, "cos"), (2, "sin"))
    )
    out = plain.writes[0]
    moved = Operand(out.name, 3, out.dtype, out.shape, out.indices, True)
    return LoopNest(plain.dims, (plain.reads[0], *tables, moved))


register(
    OpKind(
        "attention", Family.ATTENTION, _infer_attention, _evaluate_attention, _nest_attention, along(_attention_whole),
        _attention_work, _attention_rule,
        no_onnx="importers write it out as products and softmax; fusing them is a transform",
    ),
    OpKind(
        "attention_gradient", Family.ATTENTION, _infer_attention_gradient, _evaluate_attention_gradient,
        _nest_attention, along(_attention_whole, combine="add"), _attention_work, no_onnx=BACKWARD,
    ),
    OpKind(
        "rotary", Family.VECTOR, _infer_rotary, _evaluate_rotary, _nest_rotary, displaced,
        per_element({"mul": 2, "add": 1}), _rotary_rule,
        no_onnx="importers write RotaryEmbedding out as slices, products and sums",
    ),
)  # fmt: skip
