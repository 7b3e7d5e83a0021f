"""GraphBuilder: write a graph operator by operator; shapes are inferred and names are made as you go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS, format_named
from monet.graph.graph import Graph
from monet.graph.kind import Output, kind_named
from monet.graph.op import Attributes, Op, Phase
from monet.graph.tensor import Role, Tensor, contiguous


class GraphBuilder:
    """Collects tensors and operators; ``build`` freezes them into a Graph.

    Names are made from the scope and the operator kind, so equal programs give equal names.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.values: dict[str, np.ndarray[Any, Any]] = {}
        self.inputs: list[str] = []
        self.usual_loss = "cross-entropy"
        self._rewritten: dict[str, str] = {}
        self._scope: tuple[str, ...] = ()
        self._phase = Phase.FORWARD
        self._micro_batch = 0
        self._used: Counter[str] = Counter()
        self._prefix = ""

    # --- roots ---------------------------------------------------------------------------------------------------

    def root(self, name: str, shape: Sequence[int], dtype: str, role: Role, trainable: bool = False) -> str:
        """Declare a tensor that no operator produces, under exactly this name."""
        sizes = tuple(int(size) for size in shape)
        if any(size < 1 for size in sizes):
            raise ModelError(f"{role} {name!r} has shape {list(sizes)}; every size must be at least 1")
        if name in self.tensors:
            raise ModelError(f"two tensors are called {name!r}")
        format_named(dtype)
        self.tensors[name] = Tensor(name, sizes, dtype, role, name, contiguous(sizes), "", trainable)
        self._used[name] += 1
        return name

    def input(self, name: str, shape: Sequence[int], dtype: str = "fp32", differentiated: bool = False) -> str:
        """Declare a model input; ``differentiated``: a training step has its gradient."""
        self.inputs.append(self.root(name, shape, dtype, Role.INPUT, differentiated and FORMATS[dtype].may_train))
        return name

    def label(self, name: str, shape: Sequence[int], dtype: str) -> str:
        """Declare what the loss compares with."""
        self.inputs.append(self.root(name, shape, dtype, Role.LABEL))
        return name

    def parameter(self, name: str, shape: Sequence[int], dtype: str = "fp32", trainable: bool = True) -> str:
        """Declare a parameter, named below the current scope."""
        return self.root(self._scoped(name), shape, dtype, Role.PARAMETER, trainable and FORMATS[dtype].may_train)

    def buffer(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> str:
        """Declare a buffer (running statistics): kept between steps, not trained."""
        return self.root(self._scoped(name), shape, dtype, Role.BUFFER)

    def current(self, buffer: str) -> str:
        """The tensor that holds the value of ``buffer`` now: a layer used twice reads what its first use left."""
        return self._rewritten.get(buffer, buffer)

    def state(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> str:
        """Declare optimizer state."""
        return self.root(name, shape, dtype, Role.STATE)

    def constant(self, name: str, value: np.ndarray[Any, Any], dtype: str) -> str:
        """Embed an array that is part of the program."""
        unique = self._unique(self._scoped(name))
        self._used[unique] -= 1
        self.values[unique] = value
        return self.root(unique, value.shape, dtype, Role.CONSTANT)

    # --- scopes --------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Name everything emitted inside below ``name``."""
        saved = self._scope
        self._scope = (*saved, name)
        try:
            yield
        finally:
            self._scope = saved

    @contextmanager
    def at(self, phase: Phase, layer: str = "", prefix: str = "", micro_batch: int | None = None) -> Iterator[None]:
        """Emit into ``phase`` on behalf of ``layer``; operator names start with ``prefix``."""
        saved = self._phase, self._scope, self._prefix, self._micro_batch
        self._phase, self._scope, self._prefix = phase, (layer,) if layer else (), prefix
        if micro_batch is not None:
            self._micro_batch = micro_batch
        try:
            yield
        finally:
            self._phase, self._scope, self._prefix, self._micro_batch = saved

    def _scoped(self, name: str) -> str:
        return ".".join((*self._scope, name)) if name else ".".join(self._scope)

    def _unique(self, name: str) -> str:
        self._used[name] += 1
        while self._used[name] > 1:
            candidate = f"{name}_{self._used[name]}"
            if candidate not in self._used:
                self._used[candidate] += 1
                return candidate
            self._used[name] += 1
        return name

    # --- operators -----------------------------------------------------------------------------------------------

    def emit(self, kind: str, *inputs: str, name: str = "", inplace: bool = False, **attrs: Any) -> str:
        """Append an operator, return its first output; ``inplace``: it takes over the first input's storage."""
        return self.emit_all(kind, *inputs, name=name, inplace=inplace, **attrs)[0]

    def emit_all(self, kind: str, *inputs: str, name: str = "", inplace: bool = False, **attrs: Any) -> tuple[str, ...]:
        """Append an operator and return all its outputs."""
        entry = kind_named(kind)
        attributes = Attributes(attrs)
        arguments = tuple(self._lookup(kind, operand) for operand in inputs)
        base = self._prefix + "/" + (name or kind) if self._prefix else self._scoped(name or kind)
        try:
            outputs = entry.infer(arguments, attributes)
        except ModelError as error:
            shapes = ", ".join(f"{tensor.name}: {tensor}" for tensor in arguments)
            raise ModelError(f"operator {base!r} ({kind}) on ({shapes}): {error}") from None
        op_name = self._unique(base)
        names = tuple(self._declare(op_name, output, arguments, inplace and i == 0) for i, output in enumerate(outputs))
        layer = ".".join(self._scope) if self._prefix else op_name
        self.ops.append(
            Op(op_name, kind, tuple(inputs), names, attributes, self._phase, layer, micro_batch=self._micro_batch)
        )
        return names

    def _lookup(self, kind: str, name: str) -> Tensor:
        try:
            return self.tensors[name]
        except KeyError:
            raise ModelError(f"operator {kind!r} reads {name!r}, which nothing has produced yet") from None

    def _declare(self, op_name: str, output: Output, arguments: tuple[Tensor, ...], inplace: bool) -> str:
        if any(size < 1 for size in output.shape):
            raise ModelError(f"operator {op_name!r} gives an empty tensor of shape {list(output.shape)}")
        name = f"{op_name}:{output.label}" if output.label else op_name
        default = Role.GRADIENT if self._phase is Phase.BACKWARD else Role.ACTIVATION
        alias = 0 if inplace else output.alias
        storage, strides = name, output.strides or contiguous(output.shape)
        role, offset = output.role or default, 0
        if alias is not None:
            storage, offset = arguments[alias].storage, arguments[alias].offset + output.offset
            owner = self.tensors[storage].role
            role = output.role or (arguments[alias].role if owner in _KEPT else default)
            if output.role is Role.BUFFER:
                self._rewritten[storage] = name
        self.tensors[name] = Tensor(name, output.shape, output.dtype, role, storage, strides, offset=offset)
        return name

    def mark_gradient(self, name: str, of: str) -> None:
        """Record that ``name`` was computed as the gradient of ``of``; one that is passed on keeps its first mark."""
        tensor = self.tensors[name]
        if not tensor.gradient_of:
            self.tensors[name] = replace(tensor, gradient_of=of, role=Role.GRADIENT)

    @classmethod
    def resume(cls, graph: Graph) -> GraphBuilder:
        """A builder that already holds everything in ``graph`` and appends to it."""
        builder = cls(graph.name)
        builder.tensors, builder.ops = dict(graph.tensors), list(graph.ops)
        builder.values, builder.inputs = dict(graph.values), list(graph.inputs)
        builder.usual_loss = graph.usual_loss
        builder._used.update(graph.tensors)
        builder._used.update(op.name for op in graph.ops if op.name not in graph.tensors)
        return builder

    def build(self, outputs: Sequence[str], loss: str = "", gradients: Mapping[str, str] | None = None) -> Graph:
        """Freeze what was collected."""
        return Graph(
            name=self.name,
            tensors=dict(self.tensors),
            ops=tuple(self.ops),
            inputs=tuple(self.inputs),
            outputs=tuple(outputs),
            loss=loss,
            values=dict(self.values),
            gradients=dict(gradients or {}),
            usual_loss=self.usual_loss,
        )


_KEPT = (Role.PARAMETER, Role.BUFFER, Role.STATE, Role.INPUT, Role.LABEL, Role.CONSTANT)
