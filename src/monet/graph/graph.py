"""Graph: tensors and operators in execution order. Immutable; transforms return a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from monet.display import Displayed
from monet.graph.kind import Family, kind_named
from monet.graph.op import Op, Phase
from monet.graph.recipe import Recipe
from monet.graph.tensor import Role, Tensor


@dataclass(frozen=True, repr=False)
class Graph(Displayed):
    """A model, or a whole training step. ``ops`` are in a valid execution order.

    ``values`` holds arrays that are part of the program (masks, tables); parameters carry no values here, so a graph
    of any size takes megabytes. ``gradients`` maps a parameter (or a differentiated input) to its complete gradient;
    ``usual_loss`` is the loss that a model is trained with unless another is asked for. ``recipe`` says how it was
    made, if that is known; a graph made from this one by ``replace`` has none.
    """

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    loss: str = ""
    values: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    gradients: Mapping[str, str] = field(default_factory=dict)
    usual_loss: str = "cross-entropy"
    recipe: Recipe | None = field(default=None, init=False, compare=False, repr=False)

    def made_by(self, recipe: Recipe | None) -> Graph:
        """The same graph, with how it was made."""
        graph = replace(self)
        object.__setattr__(graph, "recipe", recipe)
        return graph

    @cached_property
    def producer(self) -> dict[str, Op]:
        """Tensor name → the operator that writes it (roots are absent)."""
        return {name: op for op in self.ops for name in op.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[Op, ...]]:
        """Tensor name → the operators that read it, in order."""
        readers: dict[str, list[Op]] = {name: [] for name in self.tensors}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                readers[name].append(op)
        return {name: tuple(ops) for name, ops in readers.items()}

    def role(self, role: Role) -> tuple[Tensor, ...]:
        """All tensors of one role that no operator produces, in order of appearance."""
        return tuple(
            tensor for tensor in self.tensors.values() if tensor.role is role and tensor.name not in self.producer
        )

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """The model's parameters, each once, tied ones included once."""
        return self.role(Role.PARAMETER)

    def phase(self, phase: Phase) -> tuple[Op, ...]:
        """The operators of one phase, in order."""
        return tuple(op for op in self.ops if op.phase is phase)

    @cached_property
    def updated(self) -> dict[str, str]:
        """Parameter, state or buffer → the tensor that holds its value after the step."""
        roots = {tensor.storage: name for name, tensor in self.tensors.items() if name not in self.producer}
        kept = (Role.PARAMETER, Role.STATE, Role.BUFFER)
        return {
            roots[self.tensors[name].storage]: name
            for op in self.ops
            if kind_named(op.kind).family is not Family.VIEW  # a view of a buffer is not its new value
            for name in op.outputs
            if self.tensors[name].role in kept and self.tensors[name].storage in roots
        }

    @cached_property
    def analyses(self) -> dict[type, object]:
        """What later stages have worked out of this graph, by its type: a graph never changes, so it stays true."""
        return {}

    def storage_of(self, name: str) -> Tensor:
        """The tensor that owns the storage ``name`` lives in."""
        return self.tensors[self.tensors[name].storage]

    def __str__(self) -> str:
        from monet.graph.text import format_graph  # printing is needed only here

        return format_graph(self)
