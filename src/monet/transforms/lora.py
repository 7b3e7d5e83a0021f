"""Low-rank adaptation: freeze the model, add a trained low-rank path beside every linear layer and convolution.

y = W·x + (alpha / rank)·B·A·x. For a convolution A has the layer's own window, stride and padding and B is 1×1; the
counts are those of the MONET precursor's LoRA graph of ResNet-18 (reference figures: 286,424 trained elements).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from monet.errors import OptionError
from monet.graph import Graph, GraphBuilder, Op, Role
from monet.graph.rewrite import copy_root, is_inplace, replay_op

ADAPTED = ("linear", "conv")


def add_lora(graph: Graph, rank: int, alpha: float | None = None, pattern: str = "*", heads: bool = False) -> Graph:
    """A forward graph whose adapters are the only trained parameters.

    ``pattern`` selects layers by name. The layer that produces the model's output (the head) is left alone unless
    ``heads`` is set. ``alpha`` defaults to the rank, that is, a scale of one.
    """
    if rank < 1:
        raise OptionError("lora", rank, "the rank must be at least 1")
    builder = GraphBuilder(graph.name)
    builder.usual_loss = graph.usual_loss
    renamed: dict[str, str] = {}
    for name, tensor in graph.tensors.items():
        if name not in graph.producer:
            renamed[name] = copy_root(builder, graph, replace(tensor, trainable=False))
    scale = (rank if alpha is None else alpha) / rank
    adapted = 0
    for op in graph.ops:
        chosen = _is_layer(graph, op) and fnmatchcase(op.layer, pattern) and (heads or not _is_head(graph, op))
        replay_op(builder, graph, op, renamed)
        if chosen:
            adapted += 1
            renamed[op.outputs[0]] = _adapter(builder, graph, op, renamed, rank, scale)
    if not adapted:
        raise OptionError("lora", rank, f"no linear layer or convolution matches {pattern!r}")
    return builder.build([renamed[name] for name in graph.outputs])


def _is_layer(graph: Graph, op: Op) -> bool:
    return op.kind in ADAPTED and graph.tensors[op.inputs[1]].role is Role.PARAMETER and not is_inplace(graph, op)


def _is_head(graph: Graph, op: Op) -> bool:
    """Whether only views lie between this operator and an output of the model."""
    names = set(op.outputs)
    while names:
        if names & set(graph.outputs):
            return True
        readers = {reader for name in names for reader in graph.consumers[name]}
        names = {out for reader in readers if reader.kind in ("reshape", "transpose") for out in reader.outputs}
    return False


def _adapter(builder: GraphBuilder, graph: Graph, op: Op, renamed: dict[str, str], rank: int, scale: float) -> str:
    x, weight = renamed[op.inputs[0]], graph.tensors[op.inputs[1]]
    base = renamed[op.outputs[0]]
    with builder.scope(op.layer):
        maker: Callable[..., str] = _linear_path if op.kind == "linear" else _conv_path
        low = maker(builder, graph, op, x, weight.dtype, rank)
        if scale != 1.0:
            low = builder.emit("scale", low, name="lora_scale", factor=scale)
        return builder.emit("add", base, low, name="lora_add")


def _linear_path(builder: GraphBuilder, graph: Graph, op: Op, x: str, dtype: str, rank: int) -> str:
    width, out = graph.tensors[op.inputs[0]].shape[-1], graph.tensors[op.outputs[0]].shape[-1]
    a = builder.parameter("lora_a.weight", (rank, width), dtype)
    b = builder.parameter("lora_b.weight", (out, rank), dtype)
    low = builder.emit("linear", x, a, name="lora_a", transpose=False)
    return builder.emit("linear", low, b, name="lora_b", transpose=False)


def _conv_path(builder: GraphBuilder, graph: Graph, op: Op, x: str, dtype: str, rank: int) -> str:
    weight = graph.tensors[op.inputs[1]]
    axes = len(weight.shape) - 2
    channels = graph.tensors[op.inputs[0]].shape[1]
    a = builder.parameter("lora_a.weight", (rank, channels, *weight.shape[2:]), dtype)
    b = builder.parameter("lora_b.weight", (weight.shape[0], rank, *([1] * axes)), dtype)
    plain: dict[str, Any] = {"stride": (1,) * axes, "padding": ((0, 0),) * axes, "dilation": (1,) * axes, "groups": 1}
    low = builder.emit("conv", x, a, name="lora_a", **{**op.attrs, "groups": 1})
    return builder.emit("conv", low, b, name="lora_b", **plain)
