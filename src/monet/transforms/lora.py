"""Low-rank adaptation: freeze the model, add a trained low-rank path beside every linear layer and convolution.

y = W·x + (alpha / rank)·B·A·x; what A and B are for a kind of layer stands in the operator table. The counts are those
of the MONET precursor's LoRA graph of ResNet-18 (reference figures: 286,424 trained elements).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from monet.errors import OptionError, nearest
from monet.graph import Family, Graph, GraphBuilder, Op, Role
from monet.graph.counts import call_of
from monet.graph.kind import kind_named
from monet.graph.rewrite import is_inplace, replay_op, with_roots


def add_lora(
    graph: Graph, rank: int, alpha: float | None = None, patterns: Sequence[str] = ("*",), heads: bool = False
) -> Graph:
    """A forward graph whose adapters are the only trained parameters.

    ``patterns`` select layers by name. The layer that produces the model's output (the head) is left alone unless
    ``heads`` is set or a pattern without wildcards names it. ``alpha`` defaults to the rank, that is, a scale of one.
    """
    if rank < 1:
        raise OptionError("lora", rank, "the rank must be at least 1")
    chosen = _targets(graph, patterns, heads)
    if rank > (most := max(_largest_rank(graph, op) for op in chosen)):
        raise OptionError("lora", rank, f"no layer that gets an adapter has a rank above {most:,}")
    builder, renamed = with_roots(graph, lambda tensor: replace(tensor, trainable=False))
    scale = (rank if alpha is None else alpha) / rank
    for op in graph.ops:
        replay_op(builder, graph, op, renamed)
        if op in chosen:
            renamed[op.outputs[0]] = _adapter(builder, graph, op, renamed, rank, scale)
    return builder.build([renamed[name] for name in graph.outputs])


def _targets(graph: Graph, patterns: Sequence[str], heads: bool) -> set[Op]:
    """The layers that get adapters; every pattern has to choose some."""
    layers = [op for op in graph.ops if _is_layer(graph, op)]
    found: set[Op] = set()
    for pattern in patterns:
        named = {op for op in layers if fnmatchcase(op.layer, pattern)}
        chosen = {op for op in named if heads or op.layer == pattern or not _is_head(graph, op)}
        if not chosen:
            hint = f"the head gets one only by its name: {', '.join(sorted(op.layer for op in named))}"
            if not named:
                hint = nearest(pattern, {op.layer for op in layers}) if layers else f"{graph.name} has none"
            raise OptionError("lora_targets", pattern, f"matches no linear layer or convolution; {hint}")
        found |= chosen
    return found


def _largest_rank(graph: Graph, op: Op) -> int:
    """The rank that the weight of a layer can have at most: that of adapters of rank one, inputs or outputs."""
    rule = kind_named(op.kind).low_rank
    assert rule is not None  # of a layer
    return min(math.prod(factor.shape) for factor in rule(call_of(graph, op), 1))


def _is_layer(graph: Graph, op: Op) -> bool:
    adaptable = kind_named(op.kind).low_rank is not None
    return adaptable and graph.tensors[op.inputs[1]].role is Role.PARAMETER and not is_inplace(graph, op)


def _is_head(graph: Graph, op: Op) -> bool:
    """Whether only views lie between this operator and an output of the model."""
    names = set(op.outputs)
    while names:
        if names & set(graph.outputs):
            return True
        readers = {reader for name in names for reader in graph.consumers[name]}
        names = {out for reader in readers if kind_named(reader.kind).family is Family.VIEW for out in reader.outputs}
    return False


def _adapter(builder: GraphBuilder, graph: Graph, op: Op, renamed: dict[str, str], rank: int, scale: float) -> str:
    rule = kind_named(op.kind).low_rank
    assert rule is not None  # of a layer
    low, dtype = renamed[op.inputs[0]], graph.tensors[op.inputs[1]].dtype
    with builder.scope(op.layer):
        factors = dict(zip(("lora_a", "lora_b"), rule(call_of(graph, op), rank), strict=True))
        weights = {name: builder.parameter(f"{name}.weight", factor.shape, dtype) for name, factor in factors.items()}
        for name, factor in factors.items():
            low = builder.emit(op.kind, low, weights[name], name=name, **factor.attrs)
        if scale != 1.0:
            low = builder.emit("scale", low, name="lora_scale", factor=scale)
        return builder.emit("add", renamed[op.outputs[0]], low, name="lora_add")
