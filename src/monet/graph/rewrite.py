"""Rebuild graphs: replay operators through a builder with other roots, and drop what nothing needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
from monet.graph.kind import Family, kind_named
from monet.graph.op import Op
from monet.graph.tensor import Role, Tensor

LASTING = (Role.PARAMETER, Role.BUFFER, Role.STATE)


def copy_root(builder: GraphBuilder, graph: Graph, tensor: Tensor, name: str = "") -> str:
    """Declare a root of ``graph`` again, optionally under another name."""
    target = builder.root(name or tensor.name, tensor.shape, tensor.dtype, tensor.role, tensor.trainable)
    if tensor.role in (Role.INPUT, Role.LABEL):
        builder.inputs.append(target)
    if tensor.name in graph.values:
        builder.values[target] = graph.values[tensor.name]
    return target


def with_roots(
    graph: Graph, change: Callable[[Tensor], Tensor] = lambda tensor: tensor
) -> tuple[GraphBuilder, dict[str, str]]:
    """A builder that holds the roots of ``graph``, each as ``change`` makes it, and what each is called there."""
    builder = GraphBuilder(graph.name)
    builder.usual_loss = graph.usual_loss
    roots = [tensor for name, tensor in graph.tensors.items() if name not in graph.producer]
    return builder, {tensor.name: copy_root(builder, graph, change(tensor)) for tensor in roots}


def is_inplace(graph: Graph, op: Op) -> bool:
    """Whether the operator was told to overwrite its first input (its kind alone would not alias it)."""
    if not op.inputs or graph.tensors[op.outputs[0]].storage != graph.tensors[op.inputs[0]].storage:
        return False
    inputs = tuple(graph.tensors[name] for name in op.inputs)
    return kind_named(op.kind).infer(inputs, op.attrs)[0].alias is None


def replay_op(
    builder: GraphBuilder, graph: Graph, op: Op, renamed: dict[str, str], attrs: Mapping[str, Any] | None = None
) -> None:
    """Emit ``op`` again on renamed inputs, and record what its outputs are called now."""
    with builder.at(op.phase):
        names = builder.emit_all(
            op.kind,
            *(renamed[name] for name in op.inputs),
            name=op.name,
            inplace=is_inplace(graph, op),
            **(op.attrs if attrs is None else attrs),
        )
    builder.ops[-1] = replace(builder.ops[-1], layer=op.layer)
    renamed.update(zip(op.outputs, names, strict=True))


def prune(graph: Graph) -> Graph:
    """Remove operators whose results nobody needs: no output, no lasting value, no input of a live operator."""
    live = {*graph.outputs, *graph.gradients.values(), graph.loss}
    kept: list[Op] = []
    for op in reversed(graph.ops):
        lasting = any(
            graph.tensors[name].role in LASTING and graph.tensors[name].storage != name for name in op.outputs
        )
        if (lasting and kind_named(op.kind).family is not Family.VIEW) or any(name in live for name in op.outputs):
            kept.append(op)
            live.update(op.inputs)
    if len(kept) == len(graph.ops):
        return graph
    written = {name for op in kept for name in op.outputs}
    roots = (Role.PARAMETER, Role.BUFFER, Role.STATE, Role.INPUT, Role.LABEL)
    tensors = {
        name: tensor
        for name, tensor in graph.tensors.items()
        if name in written or (name not in graph.producer and (name in live or tensor.role in roots))
    }
    return replace(graph, tensors=tensors, ops=tuple(reversed(kept)))


def map_parameters(graph: Graph, change: Callable[[Tensor], Tensor]) -> Graph:
    """Apply ``change`` to every parameter."""
    roots = {tensor.name for tensor in graph.parameters}
    tensors = {name: change(tensor) if name in roots else tensor for name, tensor in graph.tensors.items()}
    return replace(graph, tensors=tensors)
