"""Body: an operator written down in standard ONNX operators, and the values it is written with.

A writer reads ``body.inputs`` (floats widened to the type the operator computes in), combines them with Python's
operators and ``body.node``, and returns its outputs; rounding to the declared types is added at the end and what
nothing reads is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from monet.formats import FORMATS
from monet.graph.kind import Array, Call
from monet.report.onnx.element_types import accepts, element_type, stored_type, tensor_proto

Number = float | int | bool


def _operator(op_type: str, dtype: str = "") -> Callable[[Value, Operand], Value]:
    return lambda value, other: value.body.binary(op_type, value, other, dtype)


def _reflected(op_type: str) -> Callable[[Value, Operand], Value]:
    return lambda value, other: value.body.binary(op_type, other, value)


@dataclass(frozen=True, slots=True)
class Value:
    """A named value inside a body, with its element type."""

    body: Body
    name: str
    dtype: str

    __add__, __radd__ = _operator("Add"), _reflected("Add")
    __sub__, __rsub__ = _operator("Sub"), _reflected("Sub")
    __mul__, __rmul__ = _operator("Mul"), _reflected("Mul")
    __truediv__, __rtruediv__ = _operator("Div"), _reflected("Div")
    __pow__ = _operator("Pow")
    __gt__, __lt__, __le__ = _operator("Greater", "bool"), _operator("Less", "bool"), _operator("LessOrEqual", "bool")

    def __neg__(self) -> Value:
        return self.body.node("Neg", self)

    def __and__(self, other: Value) -> Value:
        return self.body.node("And", self, other)

    def same_as(self, other: Operand) -> Value:
        """Element-wise equality."""
        return self.body.binary("Equal", self, other, "bool")

    def cast(self, dtype: str) -> Value:
        """The same numbers in another type."""
        if self.dtype == stored_type(dtype):
            return self
        return self.body.node("Cast", self, dtype=dtype, to=element_type(dtype))

    def reshape(self, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        return self.body.node("Reshape", self, self.body.integers(*shape))

    def transpose(self, order: Sequence[int]) -> Value:
        """Permuted axes."""
        if tuple(order) == tuple(range(len(order))):
            return self
        return self.body.node("Transpose", self, perm=list(order))

    def expand(self, shape: Sequence[int]) -> Value:
        """Broadcast to ``shape``."""
        return self.body.node("Expand", self, self.body.integers(*shape))

    def unsqueeze(self, *axes: int) -> Value:
        """Axes of extent one put in."""
        return self.body.node("Unsqueeze", self, self.body.integers(*axes))

    def reduce(self, op_type: str, axes: Sequence[int], keepdims: bool = False) -> Value:
        """A standard reduction over ``axes``; over none it changes nothing."""
        if not axes:
            return self
        return self.body.node(op_type, self, self.body.integers(*axes), keepdims=int(keepdims))

    def sum(self, axes: Sequence[int], keepdims: bool = False) -> Value:
        """Sum over ``axes``."""
        return self.reduce("ReduceSum", axes, keepdims)

    def mean(self, axes: Sequence[int], keepdims: bool = False) -> Value:
        """Mean over ``axes``."""
        return self.reduce("ReduceMean", axes, keepdims)

    def pad(self, before: Sequence[int], after: Sequence[int]) -> Value:
        """Zeros added (or, where negative, elements removed) at both ends of every axis."""
        if not any(before) and not any(after):
            return self
        return self.body.node("Pad", self, self.body.integers(*before, *after), mode="constant")


Operand = Value | Number


@dataclass(frozen=True, slots=True)
class Node:
    """One standard ONNX operator."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A finished body: its nodes in order and the constants they read."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: dict[str, tuple[Array, str]]


@dataclass(slots=True, eq=False)
class Body:
    """Collects the nodes of one operator. ``exact`` asks for the executor's very numbers where randomness enters."""

    call: Call
    exact: bool = False
    _nodes: list[Node] = field(default_factory=list)
    _constants: dict[str, tuple[Array, str]] = field(default_factory=dict)
    _named: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    # --- what the operator is applied to ------------------------------------------------------------------------------

    @property
    def compute(self) -> str:
        """The type the operator computes in: fp64 if anything is, else fp32."""
        tensors = (*self.call.inputs, *self.call.outputs)
        return "fp64" if any(tensor.dtype == "fp64" for tensor in tensors) else "fp32"

    @property
    def raw(self) -> tuple[Value, ...]:
        """The inputs as they are."""
        return tuple(
            Value(self, f"input{slot}", stored_type(tensor.dtype)) for slot, tensor in enumerate(self.call.inputs)
        )

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs, numbers widened to the type computed in; indices, labels and masks stay as they are."""
        return tuple(
            value.cast(self.compute) if FORMATS[value.dtype].is_float or value.dtype == "int8" else value
            for value in self.raw
        )

    def native(self, op_type: str) -> tuple[Value, ...]:
        """The inputs as they are if ``op_type`` accepts them so, else brought to one type that it accepts."""
        dtypes = {value.dtype for value in self.raw}
        if len(dtypes) == 1 and accepts(op_type, min(dtypes)):
            return self.raw
        whole = not any(FORMATS[dtype].is_float for dtype in dtypes) and accepts(op_type, "int64")
        common = "int64" if whole else self.compute
        return tuple(value.cast(common) for value in self.raw)

    def shape(self, slot: int) -> tuple[int, ...]:
        """Shape of an input."""
        return self.call.inputs[slot].shape

    # --- nodes and constants ------------------------------------------------------------------------------------------

    def node(self, op_type: str, *inputs: Value | None, dtype: str = "", **attributes: Any) -> Value:
        """Append a standard operator with one output, of its first input's type unless ``dtype`` says otherwise."""
        first = next((value.dtype for value in inputs if value is not None), "")
        return self.node_all(op_type, *inputs, dtypes=(dtype or first,), **attributes)[0]

    def node_all(
        self, op_type: str, *inputs: Value | None, dtypes: Sequence[str], **attributes: Any
    ) -> tuple[Value, ...]:
        """Append a standard operator with one output per entry of ``dtypes``."""
        start = len(self._nodes)
        names = tuple(f"{op_type.lower()}{start}" + (f"_{i}" if i else "") for i in range(len(dtypes)))
        operands = tuple("" if value is None else value.name for value in inputs)
        self._nodes.append(Node(op_type, operands, names, attributes))
        return tuple(Value(self, name, stored_type(dtype)) for name, dtype in zip(names, dtypes, strict=True))

    def binary(self, op_type: str, left: Operand, right: Operand, dtype: str = "") -> Value:
        """A broadcasting operator; a number takes the type of the other side."""
        return self.node(op_type, *self._alike(left, right), dtype=dtype)

    def _alike(self, left: Operand, right: Operand) -> tuple[Value, ...]:
        """Both sides as values, a number in the type of the other side."""
        dtype = next((side.dtype for side in (left, right) if isinstance(side, Value)), self.compute)
        return tuple(side if isinstance(side, Value) else self.scalar(side, dtype) for side in (left, right))

    def array(self, array: Any, dtype: str) -> Value:
        """A constant; equal ones are written once."""
        data, kind = np.asarray(array), FORMATS[dtype].numpy
        if data.dtype.kind == "f" and kind.kind in "iu":  # an infinity among integers is their extreme
            data = np.clip(data, np.iinfo(kind).min, np.iinfo(kind).max)
        data = data.astype(kind)
        key = (stored_type(dtype), data.shape, data.tobytes())
        if key not in self._named:
            self._named[key] = name = f"constant{len(self._named)}"
            self._constants[name] = (data, stored_type(dtype))
        return Value(self, self._named[key], stored_type(dtype))

    def scalar(self, number: Number, dtype: str) -> Value:
        """A constant without axes."""
        return self.array(np.asarray(number), dtype)

    def integers(self, *numbers: int) -> Value:
        """A list of integers: axes, sizes, positions."""
        return self.array(np.asarray(numbers, np.int64), "int64")

    def full(self, shape: Sequence[int], number: Number, dtype: str) -> Value:
        """A tensor of one number, made when the model runs."""
        value = tensor_proto("", np.full(1, number), dtype)
        return self.node("ConstantOfShape", self.integers(*shape), dtype=dtype, value=value)

    def counted(self, count: int, dtype: str = "int64") -> Value:
        """0, 1, … count − 1, made when the model runs."""
        start, limit, step = (self.scalar(number, "int64") for number in (0, count, 1))
        return self.node("Range", start, limit, step).cast(dtype)

    def where(self, condition: Value, left: Operand, right: Operand) -> Value:
        """``left`` where ``condition`` holds, else ``right``."""
        parts = self._alike(left, right)
        return self.node("Where", condition.cast("bool"), *parts, dtype=parts[0].dtype)

    def slice(self, value: Value, cuts: dict[int, tuple[int, int, int]]) -> Value:
        """Cut ``axis: (start, stop, step)`` out of a value."""
        if not cuts:
            return value
        starts, stops, steps = zip(*cuts.values(), strict=True)
        return self.node("Slice", value, *(self.integers(*numbers) for numbers in (starts, stops, tuple(cuts), steps)))

    def scatter_rows(self, rows: int, positions: Value, updates: Value, rest: Sequence[int]) -> Value:
        """A tensor (rows, rest…) of zeros with ``updates[i]`` added to row ``positions[i]``."""
        zeros = self.full((rows, *rest), 0, updates.dtype)
        return self.node("ScatterND", zeros, positions.unsqueeze(-1), updates, reduction="add")

    # --- finishing ----------------------------------------------------------------------------------------------------

    def finish(self, results: Value | tuple[Value, ...]) -> Written:
        """Round the results to the declared types, give them the names of the outputs, drop what nothing reads."""
        values = results if isinstance(results, tuple) else (results,)
        renamed: dict[str, str] = {}
        for slot, (value, tensor) in enumerate(zip(values, self.call.outputs, strict=True)):
            value = value.cast(tensor.dtype)
            produced = any(value.name in node.outputs for node in self._nodes)
            if not produced or value.name in renamed:
                value = self.node("Identity", value)
            renamed[value.name] = f"output{slot}"
        outputs = tuple(f"output{slot}" for slot in range(len(values)))
        nodes = _live([_rename(node, renamed) for node in self._nodes], set(outputs))
        read = {name for node in nodes for name in node.inputs}
        constants = {name: entry for name, entry in self._constants.items() if name in read}
        return Written(tuple(value.name for value in self.raw), outputs, tuple(nodes), constants)


Writer = Callable[[Body], Value | tuple[Value, ...]]


def _rename(node: Node, renamed: dict[str, str]) -> Node:
    return replace(
        node,
        inputs=tuple(renamed.get(name, name) for name in node.inputs),
        outputs=tuple(renamed.get(name, name) for name in node.outputs),
    )


def _live(nodes: list[Node], wanted: set[str]) -> list[Node]:
    kept: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]
