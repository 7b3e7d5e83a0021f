"""Translation: walk a file's nodes and emit our operators. What rules look at while they do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.frontends.onnx.element_types import dtype_of_array
from monet.frontends.onnx.file import File, Node, execution_order, read_node
from monet.frontends.onnx.folding import Array, Known, fold
from monet.frontends.onnx.tables import LookedUp
from monet.frontends.onnx.weights import Weights, made_up
from monet.graph import GraphBuilder
from monet.graph.op import Phase
from monet.graph.tensor import Tensor
from monet.registry import Registry

Value = Known | str
Rule = Callable[["Translation", Node], "Value | tuple[Value, ...]"]
RULES: Registry[Rule] = Registry("ONNX operator")
reads = RULES.entry


class Unsupported(Exception):
    """A rule cannot express this node; the message says which form of the operator it is."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a parameter's value is: an initializer (or an array of the program), and how it is laid out here."""

    initializer: str
    layout: Callable[[Array], Array]
    array: Array | None = None


MOST_AXES = 1024  # of a tensor, and so of a list of sizes, steps or pads
_NOT_KNOWN = object()
_NOT_FOLDED = {  # drawn anew each time, or known from shapes alone
    "Dropout", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial",
    "Shape", "Size",
}  # fmt: skip


class Translation:
    """One pass over a file at given input shapes. ``stored_shapes`` are those of an earlier pass at the file's own."""

    def __init__(self, file: File, name: str, stored_shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self.file = file
        self.builder = GraphBuilder(name)
        self.weights = Weights(file)
        self.stored_shapes = stored_shapes
        self.grown: dict[int, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.sources: dict[str, Source] = {}
        self.missing: dict[str, tuple[int, str]] = {}
        self.layers: dict[str, int] = {}
        self.folded_norms: dict[str, int] = {}  # module → channels, where a bias may be lost
        self.tables: dict[str, LookedUp] = {}
        self._values: dict[str, Value | object] = {}
        self._roots: dict[tuple[str, str], str] = {}
        self._made: dict[str, str] = {}

    # --- driver ------------------------------------------------------------------------------------------------------

    def run(self, node: Node) -> None:
        """Translate one node: fold it if everything it reads is known, else apply its rule."""
        if node.op == "Identity" and node.outputs[0] in self.weights:
            return  # a parameter of its own, of which the exporter wrote the values only once
        blocked = any(name and self._values.get(name) is _NOT_KNOWN for name in node.inputs)
        if not blocked and self._fold(node):
            return
        outcome: tuple[Value, ...] = ()
        try:
            if node.label not in RULES:
                self._miss(node, node.label)
            elif not blocked:
                outcome = self._applied(node)
        except Unsupported as reason:
            self._miss(node, f"{node.label} ({reason})")
        except ModelError as error:
            raise ModelError(f"{self.file.path}: {node.place!r} ({node.label}): {error}") from None
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            reason_text = f"{type(error).__name__}: {error}"
            raise ModelError(
                f"{self.file.path}: {node.place!r} ({node.label}) is not well formed: {reason_text}"
            ) from None
        self._store(node, outcome)

    def _applied(self, node: Node) -> tuple[Value, ...]:
        """What the rule of a node gives; an attribute that it did not look at must say nothing."""
        outcome = RULES[node.label](self, node)
        if ignored := node.ignored(self.file.opset):
            raise Unsupported(", ".join(f"{name} = {value}" for name, value in ignored.items()))
        return outcome if isinstance(outcome, tuple) else (outcome,)

    def _store(self, node: Node, outcome: tuple[Value, ...]) -> None:
        for position, name in enumerate(node.outputs):
            if not name:
                continue
            value = outcome[position] if position < len(outcome) else _NOT_KNOWN
            self._values[name] = value
            if isinstance(value, str):
                self.shapes[name] = self.builder.tensors[value].shape
            elif isinstance(value, Known):
                self.shapes[name] = value.array.shape

    def _miss(self, node: Node, what: str) -> None:
        count, place = self.missing.get(what, (0, node.place))
        self.missing[what] = (count + 1, place)

    def _fold(self, node: Node) -> bool:
        if node.op in _NOT_FOLDED or any(attribute.HasField("g") for attribute in node.proto.attribute):
            return False
        given = [self.value(name) if name else None for name in node.inputs]
        if any(isinstance(value, str) for value in given):
            return False
        known = [value if isinstance(value, Known) else None for value in given]
        arrays = fold(node, tuple(value.array if value else None for value in known), self.file.versions)
        if arrays is None:
            return False
        if node.op == "Identity" and known[0] is not None:
            self._store(node, (known[0],))
            return True
        follows = any(value.follows_shapes for value in known if value)
        literal = not node.inputs
        maker = None if literal else node
        named = zip(node.outputs, arrays, strict=False)
        self._store(node, tuple(Known(array, name, maker, follows, literal) for name, array in named))
        return True

    def inline(self, graph: Any) -> tuple[Value, ...]:
        """Translate a subgraph (a branch that is always taken) in place and return its outputs."""
        for entry in graph.initializer:
            from onnx import numpy_helper  # only branches need it here

            self._values[entry.name] = Known(np.asarray(numpy_helper.to_array(entry)), entry.name, literal=True)
        nodes = [read_node(proto, position) for position, proto in enumerate(graph.node)]
        known = {*self._values, *self.weights}
        for node in execution_order(self.file.path, nodes, known):
            self.run(node)
        return tuple(self.value(value.name) for value in graph.output)

    # --- what a rule reads -------------------------------------------------------------------------------------------

    def value(self, name: str) -> Value:
        """The value under an ONNX name: known, or the name of one of our tensors."""
        if name in self._values:
            value = self._values[name]
            if value is _NOT_KNOWN:
                raise Unsupported(f"reads {name!r}, which is not translated")
            return value  # type: ignore[return-value]
        if name in self.weights and self.weights.role(name) == "constant":
            array = self.weights.array(name)
            if array is not None:
                known = Known(array, name, literal=made_up(name))
                self._values[name] = known
                return known
        if name in self.weights:
            return name  # a parameter or buffer, declared when a rule asks for its tensor
        raise ModelError(f"{name!r} is read before anything gives it")

    def set_input(self, name: str, tensor: str) -> None:
        """Enter a model input."""
        self._values[name] = tensor
        self.shapes[name] = self.builder.tensors[tensor].shape
        for was, now in zip((self.stored_shapes or {}).get(name, ()), self.shapes[name], strict=False):
            if was != now:
                self.grown[was] = now

    def operand(self, node: Node, position: int) -> Value | None:
        """An input of a node; parameters as tensors; None if it is left out."""
        name = node.input(position)
        if not name:
            return None
        value = self.value(name)
        if isinstance(value, Known):
            return value
        return self._declared(name, node) if value in self.weights and name not in self._values else value

    def known(self, node: Node, position: int) -> Array | None:
        """The known value of an input, or None."""
        value = self.operand(node, position) if node.input(position) else None
        return value.array if isinstance(value, Known) else None

    def required(self, node: Node, position: int, what: str) -> Array:
        """A known input that the rule cannot do without."""
        array = self.known(node, position)
        if array is None:
            raise Unsupported(f"{what} that depends on data")
        return array

    def integers(self, node: Node, position: int, what: str, attribute: str) -> tuple[int, ...] | None:
        """A known list of integers, which older versions have as ``attribute``; None if it is left out."""
        if node.input(position):
            found = self.required(node, position, what)
            if found.size > MOST_AXES:
                raise ModelError(f"{what} of {found.size:,} numbers, one for each axis is expected")
            return tuple(int(entry) for entry in found.ravel())
        values = node.get(attribute)
        return None if values is None else tuple(int(entry) for entry in np.atleast_1d(values))

    def number(self, node: Node, position: int, what: str, attribute: str = "", default: float = 0.0) -> float:
        """A known number, which older versions have as ``attribute``; the default if it is left out."""
        if node.input(position):
            return float(self.required(node, position, what).flat[0])
        return float(node.get(attribute, default))

    def tensor(self, node: Node, position: int) -> str:
        """An input as one of our tensors; a known value is made into one."""
        value = self.operand(node, position)
        if value is None:
            raise ModelError(f"input {position} is missing")
        return self.make(value)

    def of(self, tensor: str) -> Tensor:
        """Our tensor of that name."""
        return self.builder.tensors[tensor]

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Its shape."""
        return self.builder.tensors[tensor].shape

    def shape_of(self, value: Value) -> tuple[int, ...]:
        """Shape of a value, known or not."""
        return value.array.shape if isinstance(value, Known) else self.shape(value)

    def emit(self, node: Node, kind: str, *inputs: str, **attrs: Any) -> str:
        """Emit an operator with one output on behalf of ``node``."""
        return self.emit_all(node, kind, *inputs, **attrs)[0]

    def emit_all(self, node: Node, kind: str, *inputs: str, **attrs: Any) -> tuple[str, ...]:
        """Emit an operator and return all its outputs."""
        with self.builder.at(Phase.FORWARD, node.scope):
            return self.builder.emit_all(kind, *inputs, **attrs)

    def reshape(self, node: Node, x: str, shape: tuple[int, ...]) -> str:
        """View with another shape; nothing is emitted if it has that shape already."""
        return x if self.shape(x) == shape else self.emit(node, "reshape", x, shape=shape)

    def is_zero(self, value: Value | None) -> bool:
        """Whether a value is left out, or known to be zero everywhere."""
        if value is None or isinstance(value, Known):
            return value is None or (value.is_uniform and value.scalar == 0)
        storage = self.of(value).storage
        return any(op.kind == "fill" and op.outputs[0] == storage and op.attrs["value"] == 0 for op in self.builder.ops)

    # --- sizes the file was written with -----------------------------------------------------------------------------

    def fitted(self, node: Node, left: str, right: str) -> tuple[str, str]:
        """Two operands of an element-wise operator; one that still has the file's own batch is cut to broadcast."""
        if self.stored_shapes is None:
            return left, right
        return self.thinned(node, left, self.shape(right)), self.thinned(node, right, self.shape(left))

    def thinned(self, node: Node, name: str, other: tuple[int, ...]) -> str:
        """``name`` cut to one row on every axis where it is stale against ``other`` and the same in all rows."""
        shape = self.shape(name)
        if self.stored_shapes is None or len(other) < len(shape):
            return name
        stale = [
            axis
            for axis, (size, wanted) in enumerate(zip(shape, other[len(other) - len(shape) :], strict=True))
            if size > 1 and self.grown.get(size) == wanted and self._is_constant_along(name, axis)
        ]
        if not stale:
            return name
        count = len(stale)
        return self.emit(
            node, "slice", name, axes=tuple(stale), starts=(0,) * count, stops=(1,) * count, steps=(1,) * count
        )

    def _is_constant_along(self, name: str, axis: int) -> bool:
        """Whether all rows of a tensor along an axis are provably equal."""
        tensor = self.builder.tensors[name]
        if tensor.strides[axis] == 0:
            return True
        if name in self.sources:
            source = self.sources[name]
            array = self.weights.array(source.initializer) if source.array is None else source.array
            return array is not None and _same_rows(source.layout(array), axis)
        if name in self.builder.values:
            return _same_rows(self.builder.values[name], axis)
        op = next((op for op in reversed(self.builder.ops) if name in op.outputs), None)
        if op is None:
            return False
        if op.kind == "embedding" and axis < len(tensor.shape) - 1:
            return self._is_constant_along(op.inputs[1], axis)
        return op.kind == "fill"

    # --- parameters --------------------------------------------------------------------------------------------------

    def declare(
        self, name: str, shape: tuple[int, ...], dtype: str, initializer: str, layout: Callable[[Array], Array],
        array: Array | None = None, buffer: bool = False,
    ) -> str:  # fmt: skip
        """Declare a parameter or buffer under ``name`` (made unique) and remember where its value is."""
        unique, count = name, 1
        while unique in self.builder.tensors:
            count += 1
            unique = f"{name}_{count}"
        declare = self.builder.buffer if buffer else self.builder.parameter
        self.sources[unique] = Source(initializer, layout, array)
        with self.builder.at(Phase.FORWARD):
            return declare(unique, shape, dtype)

    def _declared(self, name: str, node: Node) -> str:
        """The parameter an initializer stands for, as read by ``node``."""
        own = self._own_name(name, node)
        key = (name, own)
        if key not in self._roots:
            self._roots[key] = self._declare_initializer(name, own, node)
        return self._roots[key]

    def _own_name(self, name: str, node: Node) -> str:
        """The name under which ``node`` reads an initializer.

        The dynamo exporter writes equal initializers once. Modules that use one in the same way (two layers copied from
        one another, two norms that both start at one) have a parameter each; uses in different ways (a table looked up
        here and multiplied there) are one tied parameter.
        """
        if not node.proto.metadata_props or not node.scope:
            return name
        module, _, leaf = name.rpartition(".")
        readers = self.weights.uses[name]
        owners = [reader for reader, _ in readers if reader.scope == module] or [readers[0][0]]
        if owners[0].scope == node.scope or all(owner.op != node.op for owner in owners):
            return name
        return f"{node.scope}.{name if made_up(name) else leaf}"

    def _declare_initializer(self, name: str, own: str, node: Node) -> str:
        shape, dtype = self.weights.shape(name), self.weights.dtype(name)
        buffer = self.weights.role(name) != "parameter"
        if node.op == "PRelu" and len(shape) > 1:  # one slope per channel, stretched to sit beside the channels
            title = f"{self.weights.module(node)}.weight" if made_up(name) else own
            vector = self.declare(title, (math.prod(shape),), dtype, name, np.ravel)
            return self.emit(node, "reshape", vector, shape=shape)
        if not made_up(name):
            return self.declare(own, shape, dtype, name, _as_stored, buffer=buffer)
        if (found := self.weights.looked_up(name)) is not None:
            return self._declare_looked_up(name, dtype, found, node)
        leaf = _LEAVES.get((node.op, node.inputs.index(name)), _LEAVES.get((node.op, -1), ""))
        module = self.weights.module(node)
        title = f"{module}.{leaf}" if leaf and module else _plain(name)
        if node.op == "MatMul" and len(shape) == 2 and node.inputs.index(name) == 1 and not buffer:
            tied = self.weights.tied(name)
            parameter = (
                self._declared(tied, node) if tied else self.declare(title, shape[::-1], dtype, name, np.transpose)
            )
            return self.emit(node, "transpose", parameter, order=(1, 0))
        if len(shape) > 1 and set(shape[1:]) == {1} and node.op in ("Mul", "Add"):
            vector = self.declare(title, shape[:1], dtype, name, np.ravel, buffer=buffer)
            return self.emit(node, "reshape", vector, shape=shape)
        return self.declare(title, shape, dtype, name, _as_stored, buffer=buffer)

    def _declare_looked_up(self, name: str, dtype: str, found: LookedUp, node: Node) -> str:
        """The trained table, and its look-up at the positions that were fixed when the file was written."""
        self.tables[name] = found
        table = self.declare(f"{_plain(name)}.table", found.rows.shape, dtype, "", _as_stored, found.rows)
        index = self.builder.constant(f"{_plain(name)}.positions", np.asarray(found.positions, np.int64), "int64")
        rows = self.emit(node, "embedding", table, index)
        last = len(self.shape(rows)) - 1
        order = tuple(
            axis if axis < found.axis else last if axis == found.axis else axis - 1 for axis in range(last + 1)
        )
        return rows if found.axis == last else self.emit(node, "transpose", rows, order=order)

    def weight(self, node: Node, position: int) -> str:
        """An input in the place of a weight: an array of the program is declared a parameter there."""
        value = self.operand(node, position)
        if isinstance(value, Known) and value.literal and value.array.size > 1 and not value.is_uniform:
            leaf = _LEAVES.get((node.op, position), "weight")
            title = ".".join(part for part in (self.weights.module(node), leaf) if part)
            if value.name not in self._made:
                dtype = dtype_of_array(value.array)
                self._made[value.name] = self.declare(title, value.array.shape, dtype, "", _as_stored, value.array)
            return self._made[value.name]
        return self.tensor(node, position)

    # --- known values as tensors -------------------------------------------------------------------------------------

    def make(self, value: Value) -> str:
        """A value as one of our tensors. What the program computes each step is computed each step here too."""
        if isinstance(value, str):
            return value
        if value.name not in self._made:
            self._made[value.name] = self._make(value)
        return self._made[value.name]

    def _make(self, value: Known) -> str:
        if value.array.size == 0:
            raise Unsupported("a constant without elements")
        if value.node is not None or value.literal:
            made = self._recognise(value)
            if made is None and value.node is not None:
                made = self._recompute(value, value.node)
            if made is not None:
                return made
        dtype = dtype_of_array(value.array)
        with self.builder.at(Phase.FORWARD):
            return self.builder.constant(_plain(value.name), np.asarray(value.array, FORMATS[dtype].numpy), dtype)

    def _recognise(self, value: Known) -> str | None:
        """Fills, counting sequences and causal masks as the operators that make them."""
        array, dtype = value.array, dtype_of_array(value.array)
        scope = value.node.scope if value.node is not None else ""
        with self.builder.at(Phase.FORWARD, scope):
            emit = self.builder.emit
            if value.is_uniform:
                return emit("fill", shape=array.shape, value=value.scalar, dtype=dtype)
            if array.ndim == 1 and array.dtype.kind == "i":
                steps = np.diff(array)
                if (steps == steps[0]).all():
                    return emit("iota", size=array.size, start=int(array[0]), step=int(steps[0]), dtype=dtype)
            if array.dtype == np.bool_ and is_causal(array):
                mask = emit("causal_mask", rows=array.shape[-2], columns=array.shape[-1])
                return mask if array.ndim == 2 else emit("reshape", mask, shape=array.shape)
        return None

    def _recompute(self, value: Known, node: Node) -> str | None:
        """Emit the operator that computes a known value, or None if no rule can."""
        if node.label not in RULES:
            return None
        marks = len(self.builder.ops), dict(self.builder.tensors), dict(self._made)
        try:
            result = self._applied(node)[node.outputs.index(value.name)]
        except (Unsupported, ModelError):
            del self.builder.ops[marks[0] :]
            self.builder.tensors, self._made = marks[1], marks[2]
            return None
        return result if isinstance(result, str) and self.shape(result) == value.array.shape else None


def _same_rows(array: Array, axis: int) -> bool:
    return bool((array == np.take(array, [0], axis=axis)).all())


def is_causal(masked: Array) -> bool:
    """Whether a boolean array is True exactly where a query may not look ahead; leading axes must be one."""
    if masked.ndim < 2 or masked.size != masked.shape[-1] * masked.shape[-2] or masked.shape[-1] < 2:
        return False
    rows, columns = masked.shape[-2:]
    return np.array_equal(
        masked.reshape(rows, columns), np.triu(np.ones((rows, columns), np.bool_), 1 + columns - rows)
    )


def _as_stored(array: Array) -> Array:
    return array


def _plain(name: str) -> str:
    return name.rpartition("::")[2].strip("/").replace("/", ".")


_LAYERS = (
    "Conv", "ConvTranspose", "Gemm", "BatchNormalization", "LayerNormalization", "InstanceNormalization",
    "GroupNormalization", "RMSNormalization",
)  # fmt: skip
_LEAVES = {
    **{(op, slot): leaf for op in _LAYERS for slot, leaf in ((1, "weight"), (2, "bias"))},
    ("MatMul", 0): "weight", ("MatMul", 1): "weight", ("Gather", 0): "weight", ("PRelu", 1): "weight",
    ("Mul", -1): "weight", ("Add", -1): "bias", ("BatchNormalization", 3): "running_mean",
    ("BatchNormalization", 4): "running_var",
}  # fmt: skip
