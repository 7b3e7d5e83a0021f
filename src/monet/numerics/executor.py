"""NumPy executor: runs a graph and returns its tensors. This is what makes a training step checkable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from monet.errors import MonetError, nearest
from monet.formats import FORMATS
from monet.graph import Family, Graph, Op, Role
from monet.graph.counts import call_of
from monet.graph.kind import Array, kind_named
from monet.graph.op import Attributes
from monet.graph.parts import parts_of


def execute(
    graph: Graph, values: Mapping[str, Array], *, want: Iterable[str] | None = None, compute: Any = np.float64
) -> dict[str, Array]:
    """Run ``graph`` on ``values`` (every input, label, parameter, buffer and state by name).

    Returns the tensors named in ``want``; by default outputs, loss, gradients and updated values. Floats are computed
    in ``compute`` whatever their declared dtype; with ``compute=None`` every tensor is rounded to its own. Values are
    dropped after their last reader, so memory follows the graph's liveness.
    """
    run = Run(graph, values, want=want, compute=compute)
    for _ in run.over(graph.ops):
        raise AssertionError("an operator of one device waits for nobody")
    return run.results


class Exchange(NamedTuple):
    """A collective that a rank has come to, and what it brings; it goes on with what is sent back."""

    op: Op
    arrays: tuple[Array, ...]


class Run:
    """A graph while it is run: the values that are live, and those that are wanted.

    ``ranks`` has the place of the rank in each group, if it is one of several; ``over`` then stops at every operator
    between ranks, and whoever runs all of them sends back its outputs.
    """

    def __init__(
        self,
        graph: Graph,
        values: Mapping[str, Array],
        *,
        want: Iterable[str] | None = None,
        compute: Any = np.float64,
        ranks: Mapping[str, int] | None = None,
    ) -> None:
        self.graph, self.compute, self.ranks = graph, compute, ranks
        self.wanted = set(_default_wants(graph) if want is None else want)
        unknown = self.wanted - set(graph.tensors)
        if unknown:
            name = min(unknown)
            raise MonetError(f"no tensor is called {name!r}; {nearest(name, graph.tensors)}")
        self.live = _roots(graph, values, compute)
        self.uses = Counter(name for op in graph.ops for name in op.inputs)
        self.results: dict[str, Array] = {name: self.live[name] for name in self.wanted if name in self.live}

    def over(self, ops: Iterable[Op]) -> Generator[Exchange, tuple[Array, ...], None]:
        """Run ``ops``, the next of the graph."""
        for op in ops:
            arrays = tuple(self.live[name] for name in op.inputs)
            if self.ranks is not None and kind_named(op.kind).family is Family.COLLECTIVE:
                outcome: Array | tuple[Array, ...] = yield Exchange(op, arrays)
            else:
                with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                    outcome = kind_named(op.kind).evaluate(self._attrs(op), *arrays)
            self._keep(op, outcome if isinstance(outcome, tuple) else (outcome,))

    def _attrs(self, op: Op) -> Attributes:
        """What an operator of one rank of several is told besides: which one."""
        if self.ranks is None or "parts" not in op.attrs:
            return op.attrs
        return Attributes({**op.attrs, "ranks": tuple(self.ranks[part.group] for part in parts_of(op.attrs))})

    def _keep(self, op: Op, arrays: tuple[Array, ...]) -> None:
        for name, array in zip(op.outputs, arrays, strict=True):
            self.live[name] = _made(array, self.graph.tensors[name].dtype, self.compute)
            if name in self.wanted:
                self.results[name] = self.live[name]
        for name in op.inputs:
            self.uses[name] -= 1
            if not self.uses[name]:
                self.live.pop(name, None)


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
