"""Scaled dot-product attention, written out as the zoo writes it, so that the option to fuse it can decide."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.operators.creation import beyond_diagonal
from monet.frontends.torch.translation import Ref, Translation, aten


@aten("scaled_dot_product_attention.default")
def _attention(t: Translation, a: Any) -> Ref:
    query = a.query
    key, value = (_shared(t, x, query) if a.enable_gqa else x for x in (a.key, a.value))
    width = t.shape(query)[-1]
    scores = t.emit("matmul", query, key, transpose_a=False, transpose_b=True)
    scores = t.scale(scores, 1 / math.sqrt(width) if a.scale is None else a.scale)
    if a.is_causal:
        rows, columns = t.shape(scores)[-2:]
        mask = beyond_diagonal(t, rows, columns, 0, above=True)
        scores = t.emit("masked_fill", scores, mask, value=-math.inf)
    elif a.attn_mask is not None:
        scores = _masked(t, scores, a.attn_mask)
    weights = t.emit("softmax", scores, axis=t.rank(scores) - 1)
    if a.dropout_p:
        weights = t.emit("dropout", weights, p=float(a.dropout_p), seed=len(t.builder.ops))
    return t.emit("matmul", weights, value, transpose_a=False, transpose_b=False)


def _masked(t: Translation, scores: str, mask: str) -> Ref:
    """A mask of booleans says where a query may look; one of numbers is added."""
    if t.tensor(mask).dtype == "bool":
        return t.emit("masked_fill", scores, t.emit("logical_not", mask), value=-math.inf)
    return t.emit("add", scores, t.cast(mask, t.tensor(scores).dtype))


def _shared(t: Translation, x: str, query: str) -> Ref:
    """Each key head serves several query heads: expand (a view), then merge the axes (a copy)."""
    *lead, groups, tokens, width = t.shape(x)
    heads = t.shape(query)[-3]
    if groups == heads:
        return Ref(x)
    wide = t.emit("reshape", x, shape=(*lead, groups, 1, tokens, width))
    wide = t.expand(wide, (*lead, groups, heads // groups, tokens, width))
    return t.reshape(wide, (*lead, heads, tokens, width))
