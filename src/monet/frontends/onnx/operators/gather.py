"""Table look-ups: embeddings, selections, gathers, one-hot encodings."""

from __future__ import annotations

import math

import numpy as np

from monet.formats import FORMATS
from monet.frontends.onnx.element_types import dtype_of, dtype_of_array
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Known
from monet.frontends.onnx.translation import Translation, Unsupported, Value, reads
from monet.graph.tensor import Role


@reads("Gather")
def _gather(t: Translation, node: Node) -> Value:
    x = t.tensor(node, 0)
    shape = t.shape(x)
    axis, positions = node.get("axis", 0) % max(len(shape), 1), t.operand(node, 1)
    if isinstance(positions, Known):
        array = np.where(positions.array < 0, positions.array + shape[axis], positions.array)
        if array.ndim == 0:
            return _select(t, node, x, axis, int(array))
        positions = Known(
            array.astype(np.int64), positions.name, positions.node, positions.follows_shapes, positions.literal
        )
    index = t.make(positions) if positions is not None else ""
    table = t.of(x)
    if axis == 0 and len(shape) == 2 and table.role in (Role.PARAMETER, Role.BUFFER, Role.CONSTANT):
        return t.emit(node, "embedding", x, index)
    return t.emit(node, "gather", x, index, axis=axis)


def _select(t: Translation, node: Node, x: str, axis: int, position: int) -> str:
    """One position of an axis, which disappears: a view, as in the framework."""
    shape = t.shape(x)
    if shape[axis] > 1:
        x = t.emit(node, "slice", x, axes=(axis,), starts=(position,), stops=(position + 1,), steps=(1,))
    return t.reshape(node, x, (*shape[:axis], *shape[axis + 1 :]))


@reads("GatherElements")
def _gather_elements(t: Translation, node: Node) -> str:
    x, positions = t.tensor(node, 0), t.tensor(node, 1)
    axis = node.get("axis", 0) % len(t.shape(x))
    sizes = zip(t.shape(x), t.shape(positions), strict=True)
    cut = tuple(other for other, (have, want) in enumerate(sizes) if other != axis and want < have)
    if cut:
        stops = tuple(t.shape(positions)[other] for other in cut)
        x = t.emit(node, "slice", x, axes=cut, starts=(0,) * len(cut), stops=stops, steps=(1,) * len(cut))
    return t.emit(node, "gather_elements", x, positions, axis=axis, keeps_input=True)


@reads("GatherND")
def _gather_nd(t: Translation, node: Node) -> str:
    """The leading axes are looked up together: merge them, and merge the coordinates into one position."""
    if node.get("batch_dims", 0):
        raise Unsupported("batch_dims")
    return t.emit(node, "gather", *merged(t, node), axis=0)


def merged(t: Translation, node: Node) -> tuple[str, str]:
    """The first input with the axes looked up together as one, and positions on it."""
    x, positions = t.tensor(node, 0), t.operand(node, 1)
    shape, places = t.shape(x), t.shape_of(positions) if positions is not None else ()
    depth = places[-1]
    steps = [math.prod(shape[axis + 1 : depth]) for axis in range(depth)]
    if isinstance(positions, Known):
        wrapped = np.where(positions.array < 0, positions.array + np.asarray(shape[:depth]), positions.array)
        flat = t.make(Known((wrapped * steps).sum(-1).astype(np.int64), f"{positions.name}.flat"))
    else:
        flat = _flat_positions(t, node, str(positions), steps)
    return t.reshape(node, x, (math.prod(shape[:depth]), *shape[depth:])), flat


def _flat_positions(t: Translation, node: Node, positions: str, steps: list[int]) -> str:
    """Coordinates on the last axis merged into one number each."""
    depth, shape = len(steps), t.shape(positions)
    parts = t.emit_all(node, "split", positions, sizes=(1,) * depth, axis=len(shape) - 1) if depth > 1 else (positions,)
    flat = ""
    for part, step in zip(parts, steps, strict=True):
        scaled = t.emit(node, "scale", part, factor=step) if step > 1 else part
        flat = t.emit(node, "add", flat, scaled) if flat else scaled
    return t.reshape(node, flat, shape[:-1])


@reads("OneHot")
def _one_hot(t: Translation, node: Node) -> str:
    index = t.tensor(node, 0)
    depth = int(t.required(node, 1, "a depth").flat[0])
    values = t.required(node, 2, "values")
    off, on = (entry.item() for entry in values.ravel())
    shape = t.shape(index)
    axis = node.get("axis", -1) % (len(shape) + 1)
    wide = t.reshape(node, index, (*shape[:axis], 1, *shape[axis:]))
    classes = t.emit(node, "iota", size=depth, dtype=t.of(index).dtype)
    classes = t.reshape(node, classes, (depth, *([1] * (len(shape) - axis))))
    hot = t.emit(node, "cast", t.emit(node, "equal", wide, classes), dtype=dtype_of_array(values))
    if on - off != 1:
        hot = t.emit(node, "scale", hot, factor=on - off)
    return t.emit(node, "shift", hot, offset=off) if off else hot


@reads("Range")
def _range(t: Translation, node: Node) -> Value:
    start, limit, step = (t.required(node, position, "a bound").flat[0].item() for position in range(3))
    dtype = dtype_of_array(t.required(node, 0, "a bound"))
    size = max(0, math.ceil((limit - start) / step))
    return t.emit(node, "iota", size=size, start=start, step=step, dtype=dtype)


@reads("ConstantOfShape")
def _constant_of_shape(t: Translation, node: Node) -> str:
    from onnx import numpy_helper  # the only attribute that is a tensor

    shape = tuple(int(size) for size in t.required(node, 0, "a shape").ravel())
    value = node.get("value")
    array = np.zeros(1, np.float32) if value is None else np.asarray(numpy_helper.to_array(value))
    return t.emit(node, "fill", shape=shape, value=array.flat[0].item(), dtype=dtype_of_array(array))


@reads("EyeLike")
def _eye_like(t: Translation, node: Node) -> Value:
    like = t.of(t.tensor(node, 0))
    dtype = like.dtype if node.get("dtype") is None else dtype_of(node.get("dtype"), "the result")
    rows, columns = like.shape
    array = np.eye(rows, columns, k=node.get("k", 0), dtype=FORMATS[dtype].numpy)
    return Known(array, node.outputs[0])
