"""Shapes of a file's inputs: what it says, what the options change, and which option settles what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from monet.errors import ModelError, OptionError, nearest
from monet.formats import FORMATS
from monet.frontends.onnx.element_types import dtype_of
from monet.frontends.onnx.file import File


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the caller asks for; None leaves the file's own size."""

    batch: int | None = None
    image: int | None = None
    sequence: int | None = None
    dimensions: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class InputShape:
    """One model input: element type, shape asked for, and the file's own shape if every size of it is fixed."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stored_shape: tuple[int, ...] | None


_BATCH_WORDS = ("batch", "n", "bs", "b")
_RECURRENT = ("LSTM", "GRU", "RNN")


def input_shapes(file: File, sizes: Sizes) -> list[InputShape]:
    """Shapes of every model input with ``sizes`` applied. Anything still open is one error."""
    _check(sizes)
    initializers = {entry.name for entry in file.graph.initializer}
    entries = [entry for entry in file.graph.input if entry.name not in initializers]
    if not entries:
        raise ModelError(f"{file.path}: the graph has no inputs")
    found, first = [], _first_batch(file, entries)
    for entry in entries:
        if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape"):
            raise ModelError(f"{file.path}: input {entry.name!r} is not a tensor of known rank")
        dtype = dtype_of(entry.type.tensor_type.elem_type, f"input {entry.name!r}")
        dims = list(entry.type.tensor_type.shape.dim)
        batch_axis = _batch_axis(file, entry.name, len(dims))
        roles = [_role(axis, len(dims), dtype, dim, batch_axis) for axis, dim in enumerate(dims)]
        shape = tuple(
            _size(file, entry.name, axis, dim, role, sizes, first)
            for axis, (dim, role) in enumerate(zip(dims, roles, strict=True))
        )
        fixed = all(dim.dim_value > 0 for dim in dims)
        found.append(InputShape(entry.name, dtype, shape, tuple(int(dim.dim_value) for dim in dims) if fixed else None))
    return found


def _check(sizes: Sizes) -> None:
    asked = {"batch": sizes.batch, "image": sizes.image, "sequence": sizes.sequence, **(sizes.dimensions or {})}
    for option, size in asked.items():
        if size is not None and size < 1:
            raise OptionError(option, size, "a size must be at least 1")


def check_names(file: File, dimensions: Mapping[str, int]) -> None:
    """Every dimension asked for must exist: an axis is called by the file's name for it, or ``input:axis``."""
    known = set()
    for entry in file.graph.input:
        for axis, dim in enumerate(entry.type.tensor_type.shape.dim):
            known |= {f"{entry.name}:{axis}", dim.dim_param} - {""}
    for name in dimensions:
        if name not in known:
            raise OptionError("dimensions", name, f"no axis of {file.path} is called so; {nearest(name, known)}")


def _batch_axis(file: File, name: str, rank: int) -> int:
    """The first axis, or the second where the input enters a recurrent layer as (time, batch, …)."""
    names = {name}
    for node in file.nodes:
        if node.op in ("Gather", "Cast", "Identity") and names & set(node.inputs):
            names.update(node.outputs)
        if node.op in _RECURRENT and node.input(0) in names and not node.get("layout", 0) and rank > 1:
            return 1
    return 0


def _first_batch(file: File, entries: list[Any]) -> int:
    """The batch size the file was written with: that of its first input; 0 if open."""
    dims = entries[0].type.tensor_type.shape.dim
    axis = _batch_axis(file, entries[0].name, len(dims))
    return int(dims[axis].dim_value) if len(dims) > axis else 0


def _role(axis: int, rank: int, dtype: str, dim: Any, batch_axis: int) -> str:
    words = [word for word in dim.dim_param.lower().replace("-", "_").split("_") if word]
    if axis == batch_axis or (words and words[0] in _BATCH_WORDS):
        return "batch"
    if any(word.startswith(("seq", "tok", "len", "time")) for word in words):
        return "sequence"
    if rank >= 4 and axis >= 2 and FORMATS[dtype].is_float:
        return "image"
    if (rank == 2 and not FORMATS[dtype].is_float) or (rank == 3 and axis == 1 - batch_axis):
        return "sequence"
    return ""


def _size(file: File, name: str, axis: int, dim: Any, role: str, sizes: Sizes, first: int) -> int:
    given = {"batch": sizes.batch, "image": sizes.image, "sequence": sizes.sequence}.get(role)
    named = (sizes.dimensions or {}).get(dim.dim_param or f"{name}:{axis}")
    if named is not None:
        return named
    if dim.dim_value > 0:
        if given is None or (role == "batch" and dim.dim_value != first):
            return int(dim.dim_value)
        return given
    if given is not None:
        return given
    key = dim.dim_param or f"{name}:{axis}"
    option = f"--{role} N" if role else f"--dimension {key}=N"
    called = f" ({dim.dim_param!r})" if dim.dim_param else ""
    raise ModelError(f"{file.path}: axis {axis}{called} of input {name!r} has no fixed size; set it with {option}")


def changed(inputs: list[InputShape]) -> Iterator[InputShape]:
    """Inputs whose fixed size in the file is not the one asked for."""
    return (entry for entry in inputs if entry.stored_shape is not None and entry.stored_shape != entry.shape)
