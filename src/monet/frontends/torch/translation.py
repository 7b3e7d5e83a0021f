"""Translation: what a rule for one ATen operator sees, and the table the rules are kept in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from monet.formats import FORMATS
from monet.frontends.torch.library import dtype_name
from monet.graph import GraphBuilder, Op
from monet.graph.kind import kind_named
from monet.graph.tensor import Tensor, view_strides
from monet.registry import Registry


class Ref(str):
    """The name of a tensor in the graph, told apart from other strings an operator may be given."""

    __slots__ = ()


class Unsupported(Exception):
    """A rule cannot express this use of its operator; the text says which use."""


Rule = Callable[["Translation", Any], Any]
RULES: Registry[Rule] = Registry("ATen operator")  # by overload, such as ``conv2d.default``
aten = RULES.entry

# Kinds that prepare the operands of a layer's own operator, which is the one that bears the layer's name.
_PREPARATION = frozenset({"copy", "reshape", "transpose", "slice", "expand", "split", "cast", "fill", "pad"})


class Translation:
    """The graph being built, and the ATen call being written into it.

    Rules take tensors as ``Ref`` and everything else as the plain Python value; they return a Ref, a tuple of them, or
    None when nothing is computed. ``overwrites`` is the tensor an in-place call changes, else empty; ``name`` is what
    to call the operators of the call, empty to call them by their kind.
    """

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.producers: dict[str, Op] = {}
        self.meta: Any = None
        self.layouts: dict[str, tuple[int, ...]] = {}
        self.overwrites = ""
        self.name = ""
        self.copied: dict[str, set[int]] = {}  # operator → operands the framework writes out before it reads them

    # --- looking -----------------------------------------------------------------------------------------------------

    def tensor(self, x: str) -> Tensor:
        """The tensor behind a reference."""
        return self.builder.tensors[x]

    def shape(self, x: str) -> tuple[int, ...]:
        """Its shape."""
        return self.tensor(x).shape

    def rank(self, x: str) -> int:
        """Its number of axes."""
        return len(self.shape(x))

    def is_float(self, x: str) -> bool:
        """Whether its elements are floating-point."""
        return FORMATS[self.tensor(x).dtype].is_float

    def axis(self, x: str, dim: int) -> int:
        """A possibly negative axis of ``x``, counted from the front."""
        return dim % max(1, self.rank(x))

    def axes(self, x: str, dims: int | Sequence[int] | None) -> tuple[int, ...]:
        """Axes counted from the front; None or nothing means all of them."""
        if dims is None or (not isinstance(dims, int) and not len(dims)):
            return tuple(range(self.rank(x)))
        every = (dims,) if isinstance(dims, int) else dims
        return tuple(self.axis(x, dim) for dim in every)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the first result, as the framework has it."""
        return tuple(int(size) for size in self._first.shape)

    @property
    def out_dtype(self) -> str:
        """Element type of the first result."""
        name = dtype_name(self._first.dtype)
        if not name:
            raise Unsupported(f"{str(self._first.dtype).removeprefix('torch.')} values")
        return name

    @property
    def _first(self) -> Any:
        return self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta

    def is_contiguous(self, x: str) -> bool:
        """Whether the framework holds ``x`` in row-major order; element-wise results there keep their inputs' order."""
        strides = self.layouts.get(x, self.tensor(x).strides)
        return view_strides(self.shape(x), strides, (math.prod(self.shape(x)),)) is not None

    def can_view(self, x: str, shape: tuple[int, ...]) -> bool:
        """Whether the framework gives ``x`` another shape without copying."""
        return view_strides(self.shape(x), self.layouts.get(x, self.tensor(x).strides), shape) is not None

    def source(self, x: str) -> Op | None:
        """The operator that wrote ``x``; None for roots."""
        return self.producers.get(x)

    # --- emitting ----------------------------------------------------------------------------------------------------

    def emit(self, kind: str, *inputs: str, **attrs: Any) -> Ref:
        """Append an operator and return its first output."""
        return self.emit_all(kind, *inputs, **attrs)[0]

    def emit_all(self, kind: str, *inputs: str, **attrs: Any) -> tuple[Ref, ...]:
        """Append an operator and return all its outputs."""
        inplace = self._in_place(kind, inputs)
        name = f"{self.name}.{kind}" if self.name and kind in _PREPARATION else self.name
        names = self.builder.emit_all(kind, *inputs, name=name, inplace=inplace, **attrs)
        self.producers.update(dict.fromkeys(names, self.builder.ops[-1]))
        return tuple(map(Ref, names))

    def _in_place(self, kind: str, inputs: tuple[str, ...]) -> bool:
        if not self.overwrites or not kind_named(kind).in_place or inputs[0] != self.overwrites:
            return False
        return self.shape(inputs[0]) == self.out_shape and self.tensor(inputs[0]).dtype == self.out_dtype

    def fill(self, value: float, shape: Sequence[int], dtype: str) -> Ref:
        """A new tensor with one value everywhere."""
        number = float(value) if FORMATS[dtype].is_float else int(value)
        return self.emit("fill", shape=tuple(shape), value=number, dtype=dtype)

    def cast(self, x: str, dtype: str) -> Ref:
        """``x`` in another element type."""
        return Ref(x) if self.tensor(x).dtype == dtype else self.emit("cast", x, dtype=dtype)

    def operand(self, x: Any, dtype: str) -> Ref:
        """A tensor or a Python number as a tensor of ``dtype``."""
        return self.cast(x, dtype) if isinstance(x, Ref) else self.fill(x, (), dtype)

    def reshape(self, x: str, shape: Sequence[int]) -> Ref:
        """``x`` in another shape: a view where the framework's layout allows it, else a copy."""
        target = tuple(int(size) for size in shape)
        if target == self.shape(x):
            return Ref(x)
        if not self.can_view(x, target) and self.tensor(x).is_contiguous:
            x = self.emit("copy", x)
        return self.emit("reshape", x, shape=target)

    def transpose(self, x: str, order: Sequence[int]) -> Ref:
        """``x`` with permuted axes, a view."""
        if tuple(order) == tuple(range(self.rank(x))):
            return Ref(x)
        return self.emit("transpose", x, order=tuple(order))

    def slice(self, x: str, axis: int, start: int, stop: int, step: int = 1) -> Ref:
        """A part of one axis, a view."""
        if (start, stop, step) == (0, self.shape(x)[axis], 1):
            return Ref(x)
        return self.emit("slice", x, axes=(axis,), starts=(start,), stops=(stop,), steps=(step,))

    def select(self, x: str, axis: int, position: int) -> Ref:
        """One position of an axis, which disappears."""
        cut = self.slice(x, axis, position, position + 1)
        shape = self.shape(x)
        return self.emit("reshape", cut, shape=(*shape[:axis], *shape[axis + 1 :]))

    def expand(self, x: str, shape: Sequence[int]) -> Ref:
        """``x`` broadcast to ``shape``, a view."""
        return Ref(x) if tuple(shape) == self.shape(x) else self.emit("expand", x, shape=tuple(shape))

    def reduce(self, kind: str, x: str, axes: Sequence[int], keepdims: bool = False) -> Ref:
        """A reduction; over no axes it is the tensor itself."""
        return self.emit(kind, x, axes=tuple(axes), keepdims=keepdims) if axes else Ref(x)

    def scale(self, x: str, factor: float) -> Ref:
        """``x`` times a number."""
        return Ref(x) if factor == 1 else self.emit("scale", x, factor=factor)


def defaulted(schema_arguments: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> SimpleNamespace:
    """The arguments of a call by name, those not given at their defaults."""
    values: dict[str, Any] = {argument.name: argument.default_value for argument in schema_arguments}
    values.update(zip((argument.name for argument in schema_arguments), args, strict=False))
    values.update(kwargs)
    return SimpleNamespace(**values)
