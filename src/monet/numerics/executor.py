"""NumPy executor: runs a graph and returns its tensors. This is what makes a training step checkable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from monet.errors import MonetError, nearest
from monet.formats import FORMATS
from monet.graph import Family, Graph, Role
from monet.graph.counts import call_of
from monet.graph.kind import Array, kind_named


def execute(
    graph: Graph, values: Mapping[str, Array], *, want: Iterable[str] | None = None, compute: Any = np.float64
) -> dict[str, Array]:
    """Run ``graph`` on ``values`` (every input, label, parameter, buffer and state by name).

    Returns the tensors named in ``want``; by default outputs, loss, gradients and updated values. Floats are computed
    in ``compute`` whatever their declared dtype; with ``compute=None`` every tensor is rounded to its own. Values are
    dropped after their last reader, so memory follows the graph's liveness.
    """
    wanted = set(_default_wants(graph) if want is None else want)
    unknown = wanted - set(graph.tensors)
    if unknown:
        name = min(unknown)
        raise MonetError(f"no tensor is called {name!r}; {nearest(name, graph.tensors)}")
    live = _roots(graph, values, compute)
    uses = Counter(name for op in graph.ops for name in op.inputs)
    results: dict[str, Array] = {name: live[name] for name in wanted if name in live}
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for op in graph.ops:
            outcome = kind_named(op.kind).evaluate(op.attrs, *(live[name] for name in op.inputs))
            arrays = outcome if isinstance(outcome, tuple) else (outcome,)
            for name, array in zip(op.outputs, arrays, strict=True):
                live[name] = _made(array, graph.tensors[name].dtype, compute)
                if name in wanted:
                    results[name] = live[name]
            for name in op.inputs:
                uses[name] -= 1
                if not uses[name]:
                    live.pop(name, None)
    return results


def _default_wants(graph: Graph) -> list[str]:
    names = [*graph.outputs, *graph.gradients.values(), *graph.updated.values()]
    return [*names, graph.loss] if graph.loss else names


def _made(array: Array, dtype: str, compute: Any) -> Array:
    """A result in its type. What shares scales was rounded by the operator that made it, by rules of its own."""
    entry = FORMATS[dtype]
    return np.asarray(array, entry.numpy) if entry.element else _typed(array, dtype, compute)


def _typed(array: Array, dtype: str, compute: Any) -> Array:
    entry = FORMATS[dtype]
    if entry.is_float and compute is not None:
        return np.asarray(array, compute)
    return entry.cast(array)


def _roots(graph: Graph, values: Mapping[str, Array], compute: Any) -> dict[str, Array]:
    live: dict[str, Array] = {}
    missing = []
    for name, tensor in graph.tensors.items():
        if name in graph.producer:
            continue
        given = graph.values.get(name, values.get(name))
        if given is None:
            missing.append(name)
            continue
        array = np.asarray(given)
        if array.shape != tensor.shape:
            raise MonetError(f"value of {name!r} has shape {list(array.shape)}, the graph says {list(tensor.shape)}")
        live[name] = _typed(array, tensor.dtype, compute)
    if missing:
        raise MonetError(f"no value given for {len(missing)} tensor(s): {', '.join(missing[:5])}")
    return live


def random_values(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Plausible values for every root: small random weights, unit norms, zero state, labels in range."""
    generator = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for name, tensor in graph.tensors.items():
        if name in graph.producer or tensor.role is Role.CONSTANT:
            continue
        if not FORMATS[tensor.dtype].is_float:
            values[name] = generator.integers(0, _range_of(graph, name), tensor.shape)
        elif tensor.role is Role.STATE:
            values[name] = np.zeros(tensor.shape)
        elif name.endswith("running_var"):
            values[name] = np.ones(tensor.shape)
        else:
            values[name] = generator.standard_normal(tensor.shape) * (0.05 if tensor.role is Role.PARAMETER else 1.0)
    for name, tensor in graph.tensors.items():  # an fp32 master copy starts as its weight
        if tensor.role is Role.STATE and name.endswith(".master"):
            values[name] = values[name.removesuffix(".master")]
    return values


def _range_of(graph: Graph, name: str) -> int:
    """How many values an integer root may take: rows of the table it looks up, classes it selects."""
    limits = [2]
    for op in graph.consumers[name]:
        kind = kind_named(op.kind)
        if kind.positions is not None:
            limits.append(kind.positions(call_of(graph, op)))
        elif kind.family is Family.VIEW or op.kind == "cast":
            limits += [_range_of(graph, output) for output in op.outputs]
    return max(limits)
