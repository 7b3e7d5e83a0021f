"""What a gradient rule sees: the forward operator, the gradients of its outputs, and a way to emit operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from monet.graph.builder import GraphBuilder
from monet.graph.op import Attributes, Op
from monet.graph.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Backward:
    """The context of one gradient rule. ``needs[i]`` says whether the gradient of input i is wanted.

    A rule returns one tensor name (or None) per input. What it reads of the forward pass is thereby saved.
    """

    builder: GraphBuilder
    op: Op
    gradients: tuple[str | None, ...]
    needs: tuple[bool, ...]

    @property
    def gradient(self) -> str:
        """Gradient of the first output."""
        name = self.gradients[0]
        if name is None:
            raise ValueError(f"{self.op.name}: no gradient reaches its first output")
        return name

    @property
    def attrs(self) -> Attributes:
        """Attributes of the forward operator."""
        return self.op.attrs

    @property
    def inputs(self) -> tuple[str, ...]:
        """Input names of the forward operator."""
        return self.op.inputs

    @property
    def output(self) -> str:
        """First output of the forward operator."""
        return self.op.outputs[0]

    def tensor(self, name: str) -> Tensor:
        """Look up a tensor."""
        return self.builder.tensors[name]

    def shape(self, position: int) -> tuple[int, ...]:
        """Shape of forward input ``position``."""
        return self.tensor(self.inputs[position]).shape

    def emit(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Emit a backward operator with one output."""
        return self.builder.emit(kind, *inputs, **attrs)

    def emit_all(self, kind: str, *inputs: str, **attrs: Any) -> tuple[str, ...]:
        """Emit a backward operator with several outputs."""
        return self.builder.emit_all(kind, *inputs, **attrs)

    def sum_to(self, name: str, shape: tuple[int, ...]) -> str:
        """Undo broadcasting: sum ``name`` down to ``shape``."""
        current = self.tensor(name).shape
        if current == shape:
            return name
        lead = len(current) - len(shape)
        axes = tuple(a for a in range(len(current)) if a < lead or (shape[a - lead] == 1 and current[a] != 1))
        if axes:
            name = self.emit("reduce_sum", name, axes=axes, keepdims=False)
        return name if self.tensor(name).shape == shape else self.emit("reshape", name, shape=shape)
