"""Verifier: what makes a graph valid. Run after construction and after every transform, in tests and on user input."""

from __future__ import annotations

from monet.errors import ModelError
from monet.graph.graph import Graph
from monet.graph.kind import Family, kind_named
from monet.graph.op import Op
from monet.graph.tensor import Role


def problems(graph: Graph) -> list[str]:
    """Everything that is wrong with ``graph``; empty if it is valid."""
    found: list[str] = []
    written = {name for name in graph.tensors if name not in graph.producer}
    made = (graph.tensors[name] for name in written)
    found += [  # a gradient of earlier passes says whose it is
        f"root tensor {tensor.name!r} has role {tensor.role}"
        for tensor in made
        if tensor.role is Role.ACTIVATION or (tensor.role is Role.GRADIENT and not tensor.gradient_of)
    ]
    overwritten: dict[str, str] = {}
    seen_names: set[str] = set()
    for op in graph.ops:
        if op.name in seen_names:
            found.append(f"two operators are called {op.name!r}")
        seen_names.add(op.name)
        for name in op.inputs:
            if name not in graph.tensors:
                found.append(f"{op.name} reads {name!r}, which does not exist")
            elif name not in written:
                found.append(f"{op.name} reads {name!r} before it is written (or through a cycle)")
            elif name in overwritten and op.name != overwritten[name]:
                found.append(f"{op.name} reads {name!r} after {overwritten[name]} overwrote it in place")
        found += _shape_problems(graph, op)
        for name in op.outputs:
            if name in written:
                found.append(f"{op.name} writes {name!r}, which is already written")
            written.add(name)
        overwritten.update(_overwritten(graph, op))
    found += [f"output {name!r} is never written" for name in graph.outputs if name not in written]
    return found


def _shape_problems(graph: Graph, op: Op) -> list[str]:
    inputs = tuple(graph.tensors[operand] for operand in op.inputs if operand in graph.tensors)
    if len(inputs) != len(op.inputs):
        return []
    try:
        expected = kind_named(op.kind).infer(inputs, op.attrs)
    except ModelError as error:
        return [f"{op.name}: {error}"]
    declared = [(graph.tensors[output].shape, graph.tensors[output].dtype) for output in op.outputs]
    if [(output.shape, output.dtype) for output in expected] != declared:
        return [
            f"{op.name}: outputs are declared {declared}, its shape rule gives {[(o.shape, o.dtype) for o in expected]}"
        ]
    return []


def _overwritten(graph: Graph, op: Op) -> dict[str, str]:
    """Tensors whose elements this operator replaced: inputs that share storage with an output it computed in place."""
    if kind_named(op.kind).family is Family.VIEW:
        return {}
    storages = {graph.tensors[output].storage for output in op.outputs}
    known = (name for name in op.inputs if name in graph.tensors)
    return {name: op.name for name in known if graph.tensors[name].storage in storages}


def verify(graph: Graph) -> Graph:
    """Return ``graph`` if it is valid, else raise one error that lists every problem."""
    found = problems(graph)
    if found:
        shown = "\n".join(f"  {line}" for line in found[:20])
        more = f"\n  … and {len(found) - 20} more" if len(found) > 20 else ""
        raise ModelError(f"graph {graph.name!r} is not valid:\n{shown}{more}")
    return graph
