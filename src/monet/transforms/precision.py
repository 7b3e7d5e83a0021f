"""Precision policies: which number format parameters, activations and master weights have."""

from __future__ import annotations

from dataclasses import dataclass, replace

from monet.errors import OptionError, nearest
from monet.formats import FORMATS, format_named
from monet.graph import Graph
from monet.graph.rewrite import replay_op, with_roots


@dataclass(frozen=True, slots=True)
class Precision:
    """``working`` is the format of weights, activations and gradients; ``master`` that of the copy the optimizer keeps.

    Norm statistics, log-sum-exp and losses stay in fp32 under every policy, as do optimizer states.
    """

    name: str
    working: str
    master: str = ""

    def __post_init__(self) -> None:
        for name in filter(None, (self.working, self.master)):
            format_named(name)

    @property
    def trainable(self) -> bool:
        """Whether a model can be trained under it."""
        return FORMATS[self.working].may_train


POLICIES = {
    policy.name: policy
    for policy in (
        Precision("fp64", "fp64"),
        Precision("fp32", "fp32"),
        Precision("bf16", "bf16", master="fp32"),
        Precision("fp16", "fp16", master="fp32"),
        Precision("int16", "int16"),
        Precision("int8", "int8"),
    )
}


def precision_named(name: str) -> Precision:
    """The policy called ``name``."""
    try:
        return POLICIES[name]
    except KeyError:
        raise OptionError("precision", name, nearest(name, POLICIES)) from None


def set_precision(graph: Graph, precision: Precision) -> Graph:
    """A forward graph with every floating-point root, and all that is computed from them, in the working format."""

    def narrowed(dtype: str) -> str:
        return precision.working if FORMATS[dtype].is_float else dtype

    if all(
        narrowed(tensor.dtype) == tensor.dtype for tensor in graph.tensors.values() if tensor.name not in graph.producer
    ):
        return graph
    builder, renamed = with_roots(graph, lambda tensor: replace(tensor, dtype=narrowed(tensor.dtype)))
    for op in graph.ops:
        attrs = {**op.attrs}
        if "dtype" in attrs:
            attrs["dtype"] = narrowed(attrs["dtype"])
        replay_op(builder, graph, op, renamed, attrs)
    return builder.build([renamed[name] for name in graph.outputs])
