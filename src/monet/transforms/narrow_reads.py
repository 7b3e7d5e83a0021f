"""Products that read their operands in a narrower format than memory holds them in, as tensor cores read fp32 as TF32:
rounded on the way into the multiplier, so there is no copy, and nothing else of the step changes."""

from __future__ import annotations

from dataclasses import replace

from monet.formats import FORMATS
from monet.graph import Attributes, Graph, GraphBuilder, Op
from monet.graph.kind import Family, kind_named


def narrow_reads(graph: Graph, wide: str, narrow: str) -> Graph:
    """``graph`` (a forward pass or a whole training step), whose products read what is ``wide`` as ``narrow``. Both
    have the same width in memory. Results keep their format."""
    assert FORMATS[wide].bits == FORMATS[narrow].bits, f"{narrow} is no way to read {wide}"
    builder = GraphBuilder.resume(graph)
    builder.ops = []
    views: dict[str, str] = {}

    def read(op: Op, name: str) -> str:
        if graph.tensors[name].dtype != wide:
            return name
        if name not in views:
            with builder.at(op.phase, op.layer, name, op.micro_batch):
                views[name] = builder.emit("read_as", name, dtype=narrow)
        return views[name]

    for op in graph.ops:
        many = multiplied(op)
        if many:
            inputs = (*(read(op, name) for name in op.inputs[:many]), *op.inputs[many:])
            told = {**op.attrs, "dtype": graph.tensors[op.outputs[0]].dtype}
            op = replace(op, inputs=inputs, attrs=Attributes(told))
        builder.ops.append(op)
    return builder.build(graph.outputs, graph.loss, graph.gradients)


def multiplied(op: Op) -> int:
    """How many of an operator's first inputs are operands of products."""
    kind = kind_named(op.kind)
    if kind.contraction is not None:
        return 2
    if kind.family is Family.ATTENTION:
        return 4 if op.kind == "attention_gradient" else 3  # the incoming gradient, query, key and value
    return 0
