"""Scaled dot-product attention: the fused operator where the framework has one, written out where it has not.

The framework's fused kernels take four axes, no dropout, and no mask that needs a gradient
(``use_flash_attention_cpp`` in ATen/native/transformers/sdp_utils_cpp.cpp). Elsewhere it multiplies, masks and
normalises step by step, and keeps what that needs.
"""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.operators.creation import beyond_diagonal
from monet.frontends.torch.translation import Ref, Translation, aten
from monet.graph.attention import depends_on_parameters


@aten("scaled_dot_product_attention.default")
def _attention(t: Translation, a: Any) -> Ref:
    scale = 1 / math.sqrt(t.shape(a.query)[-1]) if a.scale is None else a.scale
    mask = a.attn_mask
    trained = mask is not None and depends_on_parameters(t.builder.tensors, t.producers, mask)
    if t.rank(a.query) == t.rank(a.key) == 4 and not a.dropout_p and not trained:
        return _fused(t, a, float(scale))
    return _written_out(t, a, scale)


def _fused(t: Translation, a: Any, scale: float) -> Ref:
    rows, columns = t.shape(a.query)[-2], t.shape(a.key)[-2]
    masks: tuple[str, ...] = ()
    if a.is_causal and rows != columns:  # ours lets the last query see every key, the framework's the first only one
        masks = (beyond_diagonal(t, rows, columns, 0, above=True),)
    elif a.attn_mask is not None:
        masks = (_added(t, a.attn_mask, t.tensor(a.query).dtype),)
    causal = bool(a.is_causal) and rows == columns
    key, value = (_expanded(t, x, a.query) for x in (a.key, a.value))
    return t.emit("attention", a.query, key, value, *masks, scale=scale, causal=causal)


def _expanded(t: Translation, x: str, query: str) -> str:
    """Keys or values with the batch of the queries, where they have one for all."""
    batch, *rest = t.shape(x)
    return t.expand(x, (t.shape(query)[0], *rest)) if batch != t.shape(query)[0] else x


def _added(t: Translation, mask: str, dtype: str) -> str:
    """A mask of numbers, which is added; the framework makes one of a mask of booleans, and keeps that."""
    if t.tensor(mask).dtype != "bool":
        return t.cast(mask, dtype)
    return _minus_infinity(t, t.emit("logical_not", mask), dtype)


def _minus_infinity(t: Translation, hidden: str, dtype: str) -> Ref:
    """Zero where a query may look, −∞ where it may not."""
    return t.emit("masked_fill", t.fill(0.0, t.shape(hidden), dtype), hidden, value=-math.inf)


# --- step by step ----------------------------------------------------------------------------------------------------


def _written_out(t: Translation, a: Any, scale: float) -> Ref:
    """As ``_scaled_dot_product_attention_math`` does it: the scale goes half to the queries and half to the keys."""
    half = math.sqrt(abs(scale))
    query = t.scale(a.query, half)
    key, value = (_shared(t, x, query) if a.enable_gqa else x for x in (a.key, a.value))
    scores = t.emit("matmul", query, t.scale(key, math.copysign(half, scale)), transpose_a=False, transpose_b=True)
    dtype = t.tensor(scores).dtype
    if a.is_causal:
        rows, columns = t.shape(scores)[-2:]
        ahead = beyond_diagonal(t, rows, columns, 0, above=True)
        scores = t.emit("add", scores, _minus_infinity(t, ahead, dtype))
    elif a.attn_mask is not None:
        scores = t.emit("add", scores, _added(t, a.attn_mask, dtype))
    weights = t.emit("softmax", scores, axis=t.rank(scores) - 1)
    if a.dropout_p:
        weights = t.emit("dropout", weights, p=float(a.dropout_p), seed=len(t.builder.ops))
    return t.emit("matmul", weights, value, transpose_a=False, transpose_b=False)


def _shared(t: Translation, x: str, query: str) -> Ref:
    """Each key head serves several query heads: expand (a view), then merge the axes (a copy)."""
    *lead, groups, tokens, width = t.shape(x)
    heads = t.shape(query)[-3]
    if groups == heads:
        return Ref(x)
    wide = t.emit("reshape", x, shape=(*lead, groups, 1, tokens, width))
    wide = t.expand(wide, (*lead, groups, heads // groups, tokens, width))
    return t.reshape(wide, (*lead, heads, tokens, width))
