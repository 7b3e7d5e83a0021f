"""Attention and rotary positions as single operators (opset 23)."""

from __future__ import annotations

import math

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Known
from monet.frontends.onnx.translation import Translation, Unsupported, reads


def _heads(t: Translation, node: Node, x: str, count: int) -> str:
    """(batch, tokens, heads · width) → (batch, heads, tokens, width)."""
    batch, tokens, width = t.shape(x)
    return t.emit(node, "transpose", t.reshape(node, x, (batch, tokens, count, width // count)), order=(0, 2, 1, 3))


@reads("Attention")
def _attention(t: Translation, node: Node) -> str:
    if node.input(4) or node.get("softcap", 0.0):
        raise Unsupported("a cache or softcap")
    query, key, value = (t.tensor(node, position) for position in range(3))
    flat = len(t.shape(query)) == 3
    if flat:
        heads, key_heads = int(node.get("q_num_heads")), int(node.get("kv_num_heads"))
        query = _heads(t, node, query, heads)
        key, value = (_heads(t, node, part, key_heads) for part in (key, value))
    scale = float(node.get("scale") or 1.0 / math.sqrt(t.shape(query)[-1]))
    out = _explicit(t, node, query, key, value, scale)
    if not flat:
        return out
    batch, heads, tokens, width = t.shape(out)
    out = t.emit(node, "transpose", out, order=(0, 2, 1, 3))
    return t.reshape(node, out, (batch, tokens, heads * width))


def _explicit(t: Translation, node: Node, query: str, key: str, value: str, scale: float) -> str:
    """Scores, scale, mask, softmax, weighted sum, written out so that the option to fuse them can decide."""
    key, value = (_shared(t, node, part, t.shape(query)[1]) for part in (key, value))
    scores = t.emit(node, "matmul", query, key, transpose_a=False, transpose_b=True)
    scores = t.emit(node, "scale", scores, factor=scale)
    if node.get("is_causal", 0):
        mask = t.emit(node, "causal_mask", rows=t.shape(scores)[-2], columns=t.shape(scores)[-1])
        scores = t.emit(node, "masked_fill", scores, mask, value=-math.inf)
    if node.input(3):
        scores = _masked(t, node, scores)
    weights = t.emit(node, "softmax", scores, axis=3)
    return t.emit(node, "matmul", weights, value, transpose_a=False, transpose_b=False)


def _shared(t: Translation, node: Node, x: str, heads: int) -> str:
    """Each key head serves several query heads: expand (a view), then merge the axes (a copy)."""
    batch, groups, tokens, width = t.shape(x)
    if groups == heads:
        return x
    wide = t.reshape(node, x, (batch, groups, 1, tokens, width))
    wide = t.emit(node, "expand", wide, shape=(batch, groups, heads // groups, tokens, width))
    return t.reshape(node, wide, (batch, heads, tokens, width))


def _masked(t: Translation, node: Node, scores: str) -> str:
    """A boolean mask says where to look, ours where not to; one of numbers is added."""
    mask = t.operand(node, 3)
    if isinstance(mask, Known) and mask.array.dtype == np.bool_:
        hidden = t.make(Known(~mask.array, f"not {mask.name}", None, mask.follows_shapes, True))
        return t.emit(node, "masked_fill", scores, hidden, value=-math.inf)
    name = t.tensor(node, 3)
    if FORMATS[t.of(name).dtype].is_float:
        return t.emit(node, "add", scores, name)
    return t.emit(node, "masked_fill", scores, t.emit(node, "logical_not", name), value=-math.inf)


@reads("RotaryEmbedding")
def _rotary(t: Translation, node: Node) -> str:
    """Rotate pairs of channels by tables of cosines and sines, looked up by position or given row by row."""
    x, tables = t.tensor(node, 0), [t.tensor(node, 1), t.tensor(node, 2)]
    flat = len(t.shape(x)) == 3
    if flat:
        x = _heads(t, node, x, int(node.get("num_heads")))
    batch, _, tokens, width = t.shape(x)
    if node.input(3):
        rows = t.tensor(node, 3)
        tables = [t.emit(node, "embedding", table, rows) for table in tables]
    half = t.shape(tables[0])[-1]
    cos, sin = (t.reshape(node, table, (t.shape(table)[0], 1, tokens, half)) for table in tables)
    if 2 * half > width or int(node.get("rotary_embedding_dim", 0)) not in (0, 2 * half):
        raise ModelError(f"tables of {half} columns do not fit heads of {width}, or the width to turn")
    turned, rest = (
        t.emit_all(node, "split", x, sizes=(2 * half, width - 2 * half), axis=3) if 2 * half < width else (x, "")
    )
    interleaved = bool(node.get("interleaved", 0))
    left, right = _pairs(t, node, turned, half, interleaved)
    parts = [
        t.emit(node, "sub", t.emit(node, "mul", left, cos), t.emit(node, "mul", right, sin)),
        t.emit(node, "add", t.emit(node, "mul", left, sin), t.emit(node, "mul", right, cos)),
    ]
    if interleaved:
        shape = t.shape(parts[0])
        parts = [t.reshape(node, part, (*shape, 1)) for part in parts]
        y = t.reshape(node, t.emit(node, "concat", *parts, axis=4), (*shape[:-1], 2 * half))
    else:
        y = t.emit(node, "concat", *parts, axis=3)
    y = t.emit(node, "concat", y, rest, axis=3) if rest else y
    if not flat:
        return y
    y = t.emit(node, "transpose", y, order=(0, 2, 1, 3))
    return t.reshape(node, y, (batch, tokens, t.shape(y)[2] * width))


def _pairs(t: Translation, node: Node, x: str, half: int, interleaved: bool) -> tuple[str, str]:
    if not interleaved:
        left, right = t.emit_all(node, "split", x, sizes=(half, half), axis=3)
        return left, right
    left, right = (
        t.emit(node, "slice", x, axes=(3,), starts=(start,), stops=(2 * half,), steps=(2,)) for start in (0, 1)
    )
    return left, right
