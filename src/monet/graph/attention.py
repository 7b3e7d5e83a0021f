"""Attention written out in elementary operators, and whether a mask may go into the fused one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from monet.graph.builder import GraphBuilder
from monet.graph.op import Op
from monet.graph.tensor import Tensor


def depends_on_parameters(tensors: Mapping[str, Tensor], producers: Mapping[str, Op], name: str) -> bool:
    """Whether a trained value (a position bias, say) reaches this tensor; such a mask needs a gradient of its own."""
    pending, seen = [name], set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if tensors[current].trainable:
            return True
        producer = producers.get(current)
        pending.extend(producer.inputs if producer else ())
    return False


def write_attention(
    builder: GraphBuilder,
    query: str,
    key: str,
    value: str,
    mask: str = "",
    *,
    scale: float,
    causal: bool,
    name: str = "",
) -> str:
    """Emit attention as the zoo writes it. A boolean ``mask`` is true where a query may not look, another is added."""
    part: Callable[[str], str] = f"{name}.{{}}".format if name else lambda _: ""
    key, value = (_per_query_head(builder, x, builder.tensors[query].shape[1]) for x in (key, value))
    scores = builder.emit("matmul", query, key, name=part("scores"), transpose_a=False, transpose_b=True)
    if scale != 1:
        scores = builder.emit("scale", scores, name=part("scale"), factor=scale)
    if causal:
        rows, columns = builder.tensors[scores].shape[-2:]
        hidden = builder.emit("causal_mask", name=part("causal"), rows=rows, columns=columns)
        scores = builder.emit("masked_fill", scores, hidden, name=part("ahead"), value=-math.inf)
    if mask and builder.tensors[mask].dtype == "bool":
        scores = builder.emit("masked_fill", scores, mask, name=part("mask"), value=-math.inf)
    elif mask:
        scores = builder.emit("add", scores, mask, name=part("mask"))
    weights = builder.emit("softmax", scores, name=part("softmax"), axis=3)
    return builder.emit("matmul", weights, value, name=part("values"), transpose_a=False, transpose_b=False)


def _per_query_head(builder: GraphBuilder, x: str, heads: int) -> str:
    """Each key head serves several query heads: expand (a view), then merge the axes (a copy)."""
    batch, groups, tokens, width = builder.tensors[x].shape
    if groups == heads:
        return x
    wide = builder.emit("reshape", x, shape=(batch, groups, 1, tokens, width))
    wide = builder.emit("expand", wide, shape=(batch, groups, heads // groups, tokens, width))
    return builder.emit("reshape", wide, shape=(batch, heads, tokens, width))
