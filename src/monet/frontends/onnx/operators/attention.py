"""Attention and rotary positions as single operators (opset 23)."""

from __future__ import annotations

import math

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Known
from monet.frontends.onnx.translation import Translation, Unsupported, reads
from monet.graph.attention import depends_on_parameters, write_attention
from monet.graph.op import Phase


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
    out = _joined(t, node, query, key, value, scale)
    if not flat:
        return out
    batch, heads, tokens, width = t.shape(out)
    out = t.emit(node, "transpose", out, order=(0, 2, 1, 3))
    return t.reshape(node, out, (batch, tokens, heads * width))


def _joined(t: Translation, node: Node, query: str, key: str, value: str, scale: float) -> str:
    """The fused operator, which the file names; written out where its mask is trained."""
    masks = _masks(t, node, t.shape(query)[-2], t.shape(key)[-2])
    causal = bool(node.get("is_causal", 0)) and t.shape(query)[-2] == t.shape(key)[-2]
    producers = {name: op for op in t.builder.ops for name in op.outputs}
    if not any(depends_on_parameters(t.builder.tensors, producers, mask) for mask in masks):
        return t.emit(node, "attention", query, key, value, *masks, scale=scale, causal=causal)
    with t.builder.at(Phase.FORWARD, node.scope):
        return write_attention(t.builder, query, key, value, *masks, scale=scale, causal=causal)


def _masks(t: Translation, node: Node, rows: int, columns: int) -> tuple[str, ...]:
    """The mask, if there is one: the file's booleans say where to look, ours where not to; one of numbers is added."""
    if node.get("is_causal", 0) and rows != columns:  # the first query sees the first key, in ours the last sees all
        if node.input(3):
            raise Unsupported("a mask besides a causal one that is not square")
        ahead = np.triu(np.ones((rows, columns), np.bool_), 1)
        return (t.make(Known(ahead, f"ahead in {node.outputs[0]}", None, True, True)),)
    if not node.input(3):
        return ()
    mask = t.operand(node, 3)
    if isinstance(mask, Known) and mask.array.dtype == np.bool_:
        return (t.make(Known(~mask.array, f"not {mask.name}", None, mask.follows_shapes, True)),)
    name = t.tensor(node, 3)
    return (name if FORMATS[t.of(name).dtype].is_float else t.emit(node, "logical_not", name),)


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
