"""Attention as one fused operator, or written out: scores, scale, mask, softmax, weighted sum; either of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from monet.errors import MonetError
from monet.graph import Attributes, Graph, GraphBuilder, Op
from monet.graph.attention import depends_on_parameters, write_attention
from monet.graph.rewrite import prune, replay_op, with_roots

_NEGLIGIBLE = -1e4  # a filled score at or below this has no weight after the softmax


@dataclass(frozen=True, slots=True)
class _Match:
    """One attention found: its two products, what happens to the scores between them, and who is absorbed."""

    scores: Op
    values: Op
    scale: float
    causal: bool
    mask: str


def fuse_attention(graph: Graph, *, keep_scores: bool = False) -> Graph:
    """A graph in which every attention is one operator that keeps the log-sum-exp, not the probabilities; for backward
    also its scores, if they are to be kept."""
    found = {match.values.name: match for op in graph.ops if (match := _match(graph, op))}
    if not found and not any(op.kind == "attention" for op in graph.ops):
        raise MonetError(f"{graph.name}: no attention found to fuse (softmax between two matrix products)")
    builder, renamed = with_roots(graph)
    for op in graph.ops:
        match = found.get(op.name)
        if match is not None:
            renamed[op.outputs[0]] = _emit(builder, graph, match, renamed, keep_scores)
        elif op.kind == "attention":
            _emit_again(builder, op, renamed, keep_scores)
        else:
            replay_op(builder, graph, op, renamed)
    return prune(builder.build([renamed[name] for name in graph.outputs]))


def write_out_attention(graph: Graph) -> Graph:
    """A graph in which every fused attention is written out, and keeps its probabilities for the backward pass."""
    if not any(op.kind == "attention" for op in graph.ops):
        return graph
    builder, renamed = with_roots(graph)
    for op in graph.ops:
        if op.kind != "attention":
            replay_op(builder, graph, op, renamed)
            continue
        start = len(builder.ops)
        with builder.at(op.phase):
            operands = [renamed[name] for name in op.inputs]
            told = {name: op.attrs[name] for name in ("scale", "causal")}
            renamed[op.outputs[0]] = write_attention(builder, *operands, **told, name=op.name)
        builder.ops[start:] = [replace(made, layer=op.layer) for made in builder.ops[start:]]
    return prune(builder.build([renamed[name] for name in graph.outputs]))


def _kept(keep_scores: bool) -> dict[str, bool]:
    return {"keep_scores": True} if keep_scores else {}


def _emit_again(builder: GraphBuilder, op: Op, renamed: dict[str, str], keep_scores: bool) -> None:
    """A fused attention as it is, with or without its scores."""
    told = {name: value for name, value in op.attrs.items() if name != "keep_scores"} | _kept(keep_scores)
    with builder.at(op.phase):
        names = builder.emit_all("attention", *(renamed[name] for name in op.inputs), name=op.name, **told)
    builder.ops[-1] = replace(builder.ops[-1], layer=op.layer)
    renamed.update(zip(op.outputs, names, strict=False))  # of the scores, forward has no reader


def _emit(builder: GraphBuilder, graph: Graph, match: _Match, renamed: dict[str, str], keep_scores: bool) -> str:
    query, key = match.scores.inputs
    value = _own_heads(graph, match.values.inputs[1])
    name = match.values.name.rpartition(".")[0]
    swapped = not match.scores.attrs["transpose_b"]
    maker = graph.producer.get(key)
    if swapped and maker is not None and maker.kind == "transpose" and maker.attrs["order"] == (0, 1, 3, 2):
        key, swapped = maker.inputs[0], False
    key = renamed[key if swapped else _own_heads(graph, key)]
    with builder.at(match.values.phase):
        if swapped:
            key = builder.emit("transpose", key, name=f"{name}.key", order=(0, 1, 3, 2))
        mask = (renamed[match.mask],) if match.mask else ()
        operands = (renamed[query], key, renamed[value], *mask)
        given = Attributes({"scale": match.scale, "causal": match.causal, **_kept(keep_scores)})
        fused = builder.emit("attention", *operands, name=f"{name}.attention", **given)
    builder.ops[-1] = replace(builder.ops[-1], layer=match.values.layer)
    return fused


def _own_heads(graph: Graph, name: str) -> str:
    """Keys or values before their heads were written out once per query head; the fused operator shares them itself."""
    merge = graph.producer.get(name)
    spread = graph.producer.get(merge.inputs[0]) if merge is not None and merge.kind == "reshape" else None
    split = graph.producer.get(spread.inputs[0]) if spread is not None and spread.kind == "expand" else None
    if split is None or split.kind != "reshape":
        return name
    if len(graph.tensors[split.inputs[0]].shape) != 4 or len(graph.tensors[name].shape) != 4:
        return name
    batch, groups, tokens, width = graph.tensors[split.inputs[0]].shape
    wide = graph.tensors[name].shape
    grouped = graph.tensors[split.outputs[0]].shape == (batch, groups, 1, tokens, width)
    return split.inputs[0] if grouped and wide == (batch, wide[1], tokens, width) else name


def _match(graph: Graph, softmax: Op) -> _Match | None:
    """Read outwards from a softmax: up through scale and mask to the scores, down to the weighted sum."""
    if softmax.kind != "softmax" or softmax.attrs["axis"] not in (-1, len(graph.tensors[softmax.inputs[0]].shape) - 1):
        return None
    values = _only_reader(graph, softmax.outputs[0])
    if values and values.kind == "dropout" and [op.kind for op in graph.consumers[values.outputs[0]]] == ["matmul"]:
        raise MonetError(
            f"{values.name}: attention that drops some of its probabilities (p={values.attrs['p']}) is not fused; "
            "take --attention explicit, or no dropout there (zoo: attention_dropout=0; llama: dropout=0)"
        )
    if values is None or values.kind != "matmul" or values.inputs[0] != softmax.outputs[0]:
        return None
    if values.attrs["transpose_a"] or values.attrs["transpose_b"] or len(graph.tensors[values.inputs[1]].shape) != 4:
        return None
    scale, causal, mask, name = 1.0, False, "", softmax.inputs[0]
    while True:
        op = graph.producer.get(name)
        if op is None or len(graph.consumers[name]) != 1:
            return None
        if op.kind == "matmul":
            ok = not op.attrs["transpose_a"] and all(len(graph.tensors[n].shape) == 4 for n in op.inputs)
            return _Match(op, values, scale, causal, mask) if ok else None
        if op.kind == "scale":
            scale *= op.attrs["factor"]
        elif op.kind == "masked_fill" and op.attrs["value"] <= _NEGLIGIBLE and not mask:
            source = graph.producer.get(op.inputs[1])
            if source is not None and source.kind == "causal_mask":
                causal = True
            else:
                mask = op.inputs[1]
        elif (
            op.kind == "add"
            and not mask
            and scale == 1.0
            and not depends_on_parameters(graph.tensors, graph.producer, op.inputs[1])
        ):
            mask = op.inputs[1]
        else:
            return None
        name = op.inputs[0]


def _only_reader(graph: Graph, name: str) -> Op | None:
    readers = graph.consumers[name]
    return readers[0] if len(readers) == 1 and name not in graph.outputs else None
