"""Initializers: which are trained, which are buffers, which are constants; what each is called; their values.

The rule, in order:

1. integers, booleans and rank-0 floats are constants, and so is whatever only sets a size, a bound or a ratio;
2. running statistics of a batch norm are buffers, and so are its scale and shift if others of their own follow;
3. masks and tables are not trained: values that are infinite or very negative, only zeros and ones, an arithmetic or
   geometric progression, sines, cosines or the angles of them; or, where values are absent, a name that says so;
4. uniform scales and shifts of a norm (other than batch norm) under a made-up name stand for one without parameters;
5. a vector under a made-up name is trained only in the place of a weight or bias;
6. everything else is a parameter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
from onnx import external_data_helper, numpy_helper

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.frontends.onnx.element_types import dtype_of
from monet.frontends.onnx.file import File, Node
from monet.frontends.onnx.places import NORMS, STATISTICS, Places
from monet.frontends.onnx.tables import LookedUp, is_table, looked_up

Array = np.ndarray[Any, Any]

_MADE_UP = re.compile(
    r"^(onnx::.*|/.*|.*/.*|\d+|_?val_?\d*|const\w*|lifted_tensor\w*|c_lifted\w*|scalar\w*|_to_copy\w*|.*_output_\d+"
    r"|(embedding|triu|tril|mul|add|sub|div|cos|sin|arange|expand|view|permute|transpose|t|full|ones|zeros|unsqueeze"
    r"|slice|select|cat|where|eq|lt|gt|le|ge|pow|rsqrt|reciprocal|masked_fill|logical_\w+|bitwise_\w+)(_\d+)?)$"
)
_TABLE_WORDS = {
    "mask", "masks", "freq", "freqs", "cos", "sin", "cached", "tril", "triu", "causal", "sinusoid", "sinusoidal",
}  # fmt: skip
_CONSTANT_SLOTS = {
    *(("Resize", slot) for slot in (1, 2, 3)), ("Upsample", 1), ("Pad", 2), ("Clip", 1), ("Clip", 2), ("Dropout", 1),
    ("Pow", 1), ("OneHot", 2), *(("Range", slot) for slot in (0, 1, 2)),
}  # fmt: skip


class Weights:
    """The initializers of a file. Values are read only when something needs them, and may be absent."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._protos = {entry.name: entry for entry in file.graph.initializer}
        self._arrays: dict[str, Array | None] = {}
        self._roles: dict[str, str] = {}
        self.uses: dict[str, list[tuple[Node, int]]] = defaultdict(list)
        for node in file.nodes:
            for slot, name in enumerate(node.inputs):
                self.uses[name].append((node, slot))
        self._places = Places(((node.op, node.inputs, node.outputs) for node in file.nodes), self._protos)
        self._alias_identities()
        self._prefixes = self._scope_prefixes()

    def _alias_identities(self) -> None:
        """The tracing exporter writes equal initializers once and gives the others' names to Identity nodes."""
        for node in self._file.nodes:
            if node.op == "Identity" and node.inputs[0] in self._protos:
                self._protos[node.outputs[0]] = self._protos[node.inputs[0]]

    def _scope_prefixes(self) -> dict[tuple[str, ...], str]:
        """What the tracing exporter leaves out of scopes: containers that are never called, by their parameters."""
        found: dict[tuple[str, ...], str] = {}
        for name in self._protos:
            module = name.rpartition(".")[0]
            for node, _ in self.uses[name] if module and not made_up(name) else ():
                if node.scope and module.endswith(f".{node.scope}"):
                    parts, missing = node.scope.split("."), module[: -len(node.scope)]
                    for length in range(1, len(parts) + 1):
                        found.setdefault(tuple(parts[:length]), missing)
        return found

    def module(self, node: Node) -> str:
        """The module path of a node, whole; a product takes that of the named bias added to it."""
        if node.op == "MatMul":
            for reader, slot in self.uses[node.outputs[0]]:
                other = reader.input(1 - slot)
                named = other.removesuffix(".bias")
                biased = reader.op == "Add" and other in self._protos and not made_up(other) and named != other
                if biased and named.endswith(node.scope):  # else it is a copied layer's, written once for both
                    return named
        parts = node.scope.split(".")
        for length in range(len(parts), 0, -1):
            if tuple(parts[:length]) in self._prefixes:
                return self._prefixes[tuple(parts[:length])] + node.scope
        return node.scope

    def __contains__(self, name: str) -> bool:
        return name in self._protos

    def __iter__(self) -> Any:
        return iter(self._protos)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape as stored, values present or not."""
        return tuple(int(size) for size in self._protos[name].dims)

    def dtype(self, name: str) -> str:
        """Element type."""
        return dtype_of(self._protos[name].data_type, f"initializer {name!r}")

    def array(self, name: str) -> Array | None:
        """Values, or None if they are in a file that is not there."""
        if name not in self._arrays:
            self._arrays[name] = self._read(name)
        return self._arrays[name]

    def _read(self, name: str) -> Array | None:
        proto = self._protos[name]
        try:
            if external_data_helper.uses_external_data(proto):
                copy = type(proto)()
                copy.CopyFrom(proto)
                external_data_helper.load_external_data_for_tensor(copy, str(self._file.path.parent))
                proto = copy
            elif not _has_values(proto):
                return None
            return np.asarray(numpy_helper.to_array(proto))
        except (OSError, ValueError, TypeError) as error:
            if external_data_helper.uses_external_data(proto):
                return None
            raise ModelError(f"{self._file.path}: initializer {name!r} cannot be read: {error}") from None
        except Exception:  # onnx's own checker reports a missing data file with a type of its own
            return None

    # --- roles -------------------------------------------------------------------------------------------------------

    def role(self, name: str) -> str:
        """ "constant", "buffer" or "parameter"."""
        if name not in self._roles:
            self._roles[name] = self._decide(name)
        return self._roles[name]

    def _decide(self, name: str) -> str:
        shape, slots = self.shape(name), [(node.op, slot) for node, slot in self.uses[name]]
        if not FORMATS[self.dtype(name)].is_float or not shape or 0 in shape:
            return "constant"
        if slots and all(slot in _CONSTANT_SLOTS for slot in slots):
            return "constant"
        readers = self._places.readers(name)
        if readers and all(
            reader.place in STATISTICS or (self._places.is_rescaled(reader) and reader.slot) for reader in readers
        ):
            return "buffer"
        in_place = self._in_place(name) and not self._is_matmul_table(name, slots)
        if not in_place and self._is_table(name, slots):
            return "constant" if self.array(name) is not None else "buffer"
        if made_up(name):
            norm = any(op in NORMS and op != "BatchNormalization" for op, _ in slots)
            if norm and self.is_uniform(name):
                return "constant"
            if not in_place and (len([size for size in shape if size > 1]) < 1 or not self._looks_folded(name)):
                return "constant" if self.array(name) is not None else "buffer"
        return "parameter"

    def _in_place(self, name: str) -> bool:
        return any(self._places.is_weight(reader) for reader in self._places.seen_through_layout(name))

    def _looks_folded(self, name: str) -> bool:
        """A folded parameter: not uniform, and of two axes, or a vector stretched to sit beside channels."""
        return (len(self.shape(name)) > 1 and not self.is_uniform(name)) or self._channel_vector(name)

    def _channel_vector(self, name: str) -> bool:
        shape = self.shape(name)
        return len(shape) > 2 and shape[0] > 1 and set(shape[1:]) == {1}

    def _is_matmul_table(self, name: str, slots: list[tuple[str, int]]) -> bool:
        return all(op == "MatMul" for op, _ in slots) and (len(self.shape(name)) != 2 or self._is_table(name, slots))

    def _is_table(self, name: str, slots: list[tuple[str, int]]) -> bool:
        if slots and all(op in ("Sin", "Cos") for op, _ in slots):  # angles
            return True
        words = set(re.split(r"[._]", name.rpartition(".")[2].lower()))
        if words & _TABLE_WORDS:
            return True
        array = self.array(name)
        return array is not None and is_table(array, looked_up=("Gather", 0) in slots)

    def looked_up(self, name: str) -> LookedUp | None:
        """The table whose rows a folded parameter repeats; None if it is no such thing."""
        array = self.array(name) if made_up(name) and self.role(name) == "parameter" else None
        if array is None or self._in_place(name):
            return None
        return looked_up(array)

    def is_uniform(self, name: str) -> bool:
        """Whether all values are equal; False if they are absent."""
        array = self.array(name)
        return array is not None and array.size > 0 and bool((array == array.flat[0]).all())

    def tied(self, name: str) -> str:
        """The named table of which ``name`` holds the transposed (or the same) values, or "".

        Only for initializers under a made-up name, and only if the values are not all equal: the exporter folds the
        transpose of a tied head into a copy of the table.
        """
        shape = self.shape(name)
        if not made_up(name) or len(shape) != 2 or self.is_uniform(name) or self.array(name) is None:
            return ""
        mine = self.array(name)
        for other in map(str, self._protos):
            if made_up(other) or self.shape(other) != shape[::-1] or self.role(other) != "parameter":
                continue
            theirs = self.array(other)
            if mine is not None and theirs is not None and np.array_equal(mine, theirs.T):
                return other
        return ""


def _has_values(proto: Any) -> bool:
    size = int(np.prod(proto.dims)) if len(proto.dims) else 1
    fields = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    return size == 0 or bool(proto.raw_data) or any(len(getattr(proto, entry)) for entry in fields)


def made_up(name: str) -> bool:
    """Whether the exporter invented this name, so that no module has a parameter called so."""
    return _MADE_UP.match(name) is not None
