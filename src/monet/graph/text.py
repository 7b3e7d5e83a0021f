"""The readable text form of a graph: one line per operator, grouped by phase."""

from __future__ import annotations

from collections.abc import Iterator

from monet.graph.graph import Graph
from monet.graph.op import Op
from monet.graph.tensor import Role


def format_op(graph: Graph, op: Op) -> str:
    """One operator as ``outputs = kind(inputs) {attributes}``."""
    outputs = ", ".join(f"%{name}: {graph.tensors[name]}" for name in op.outputs)
    inputs = ", ".join(f"%{name}" for name in op.inputs)
    attrs = f" {{{op.attrs!r}}}" if op.attrs else ""
    again = " (again)" if op.recompute else ""
    return f"{outputs} = {op.kind}({inputs}){attrs}{again}"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"graph {graph.name} {{"
    for role in (Role.INPUT, Role.LABEL, Role.PARAMETER, Role.BUFFER, Role.STATE, Role.CONSTANT):
        for tensor in graph.role(role):
            frozen = " frozen" if role is Role.PARAMETER and not tensor.trainable else ""
            wanted = " differentiated" if role is Role.INPUT and tensor.trainable else ""
            yield f"  {role} %{tensor.name}: {tensor}{frozen}{wanted}"
    phase = None
    for op in graph.ops:
        if op.phase is not phase:
            phase = op.phase
            yield f"  {phase}:"
        yield f"    {format_op(graph, op)}"
    yield f"  return {', '.join(f'%{name}' for name in graph.outputs)}"
    yield "}"


def format_graph(graph: Graph) -> str:
    """The whole graph as text; equal graphs print equally."""
    return "\n".join(_lines(graph))
