"""Files without their weights: those left as inputs, as nothing but a shape, or as fills, become initializers again.

A value counts as a weight if it is read in the place of one (a convolution's filter, a norm's scale, a looked-up
table, …), directly or through layout operators: an input, a constant of the program, or a fill of a fixed shape, as
files have that keep a network's structure without its weights. An input that is not the first counts as one too if its
name is a module's parameter name, and so does a name that nothing gives if the file states its shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from monet.frontends.onnx.places import LAYOUT, NORMS, STATISTICS, Places, Reader

_LAYOUT = (*LAYOUT, "Slice", "Concat", "Split")
_STRIPPED_SLOTS = {("Gather", 0), *((op, slot) for op in NORMS for slot in (3, 4))}
_PARAMETER_NAMES = (
    "weight", "bias", "gamma", "beta", "running_mean", "running_var", "embedding", "embeddings", "token",
)  # fmt: skip
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_DRAWN = ("RandomNormal", "RandomUniform")
_WRITTEN_OUT = 1 << 12  # elements up to which a fill keeps its values: ones and zeros may stand for a norm without any


def restore_weights(model: Any) -> None:
    """Give ``model`` an initializer for every weight that was stripped from it, without values if there are none."""
    graph = model.graph
    _restore_fills(graph)
    given = {entry.name for entry in graph.initializer} | {name for node in graph.node for name in node.output}
    given |= {entry.values.name for entry in graph.sparse_initializer}
    places = _places(graph)
    inputs = {entry.name: entry for entry in graph.input}
    stated = {entry.name: entry for entry in graph.value_info}
    read = dict.fromkeys(name for node in graph.node for name in node.input)
    stripped = [stated[name] for name in read if name in stated and name not in given and name not in inputs]
    for position, (name, entry) in enumerate(inputs.items()):
        if name in given or not _is_float_array(entry) or len(inputs) == 1:
            continue
        if _in_weight_place(name, places) or (position and _has_parameter_name(name)):
            stripped.append(entry)
            graph.input.remove(entry)
    for entry in stripped:
        kind = entry.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        graph.initializer.append(TensorProto(name=entry.name, data_type=kind.elem_type, dims=sizes))


def _places(graph: Any) -> Places:
    stored = {entry.name for entry in graph.initializer} | {
        node.output[0] for node in graph.node if node.op_type in ("Constant", "ConstantOfShape", *_DRAWN)
    }
    return Places(((node.op_type, tuple(node.input), tuple(node.output)) for node in graph.node), stored)


def _restore_fills(graph: Any) -> None:
    """Constants and fills of a fixed shape in the place of a weight, as initializers."""
    known = {entry.name: entry for entry in graph.initializer}
    known |= {node.output[0]: value for node in graph.node if (value := _constant(node)) is not None}
    places = _places(graph)
    found = []
    for node in graph.node:
        value = _value(node, known)
        if value is not None and value.data_type in _FLOATS and value.dims and _in_weight_place(value.name, places):
            found.append((node, value))
    for node, value in found:
        graph.node.remove(node)
        graph.initializer.append(value)


def _constant(node: Any) -> Any:
    """The tensor of a Constant under the name of its result; None if it holds none."""
    if node.op_type != "Constant":
        return None
    tensor = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    if tensor is None:
        return None
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = node.output[0]
    return copy


def _value(node: Any, known: dict[str, Any]) -> Any:
    """What a node without operands of its own makes: a tensor, without values if it is a large fill or is drawn."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Constant":
        return known.get(node.output[0])
    if node.op_type in _DRAWN and "shape" in attributes:
        kind = attributes["dtype"].i if "dtype" in attributes else TensorProto.FLOAT
        return TensorProto(name=node.output[0], data_type=kind, dims=attributes["shape"].ints)
    if node.op_type != "ConstantOfShape" or not node.input or node.input[0] not in known:
        return None
    try:
        sizes = [int(size) for size in np.ravel(numpy_helper.to_array(known[node.input[0]]))]
        fill = numpy_helper.to_array(attributes["value"].t).ravel()[:1] if "value" in attributes else np.zeros(1, "f4")
    except (ValueError, TypeError):  # a shape without its values
        return None
    kind = helper.np_dtype_to_tensor_dtype(fill.dtype)
    if fill.size != 1 or any(size < 1 for size in sizes) or np.prod(sizes, dtype=float) > _WRITTEN_OUT:
        return TensorProto(name=node.output[0], data_type=kind, dims=sizes)
    return numpy_helper.from_array(np.full(sizes, fill[0]), node.output[0])


def _is_float_array(entry: Any) -> bool:
    kind = entry.type.tensor_type
    return kind.elem_type in _FLOATS and bool(kind.shape.dim) and all(dim.dim_value > 0 for dim in kind.shape.dim)


def _in_weight_place(name: str, places: Places) -> bool:
    readers = places.readers(name)
    return bool(readers) and all(_holds_weight(reader, places) for reader in readers)


def _holds_weight(reader: Reader, places: Places) -> bool:
    if reader.place in _STRIPPED_SLOTS or reader.place in STATISTICS or places.is_weight(reader):
        return True
    return reader.op in _LAYOUT and all(_in_weight_place(out, places) for out in reader.outputs)


def _has_parameter_name(name: str) -> bool:
    last = name.rpartition(".")[2].lower()
    return last in _PARAMETER_NAMES or any(last.endswith(f"_{word}") for word in _PARAMETER_NAMES)
