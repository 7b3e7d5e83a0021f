"""Files whose weights were stripped: those left as inputs, or as nothing but a shape, become initializers again.

An input counts as a weight if it is read in the place of one (a convolution's filter, a norm's scale, a looked-up
table, …), directly or through layout operators, or if it is not the first input and its name is a module's parameter
name. A name that nothing gives counts as a weight if the file states its shape.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from onnx import TensorProto

_LAYOUT = ("Identity", "Transpose", "Slice", "Concat", "Unsqueeze", "Squeeze", "Reshape", "Cast", "Split")
_NORMS = ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization")
_PLACES = {
    ("Gather", 0),
    ("MatMul", 1),
    ("PRelu", 1),
    *((op, slot) for op in ("Conv", "ConvTranspose", "Gemm") for slot in (1, 2)),
    *((op, slot) for op in _NORMS for slot in (1, 2, 3, 4)),
    *((op, slot) for op in ("LSTM", "GRU", "RNN") for slot in (1, 2, 3)),
}
_PARAMETER_NAMES = (
    "weight", "bias", "gamma", "beta", "running_mean", "running_var", "embedding", "embeddings", "token",
)  # fmt: skip
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def restore_weights(model: Any) -> None:
    """Give ``model`` an initializer without values for every weight that was stripped from it."""
    graph = model.graph
    readers: dict[str, list[tuple[Any, int]]] = defaultdict(list)
    for node in graph.node:
        for slot, name in enumerate(node.input):
            readers[name].append((node, slot))
    given = {entry.name for entry in graph.initializer} | {name for node in graph.node for name in node.output}
    given |= {entry.values.name for entry in graph.sparse_initializer}
    inputs = {entry.name: entry for entry in graph.input}
    stated = {entry.name: entry for entry in graph.value_info}
    stripped = [stated[name] for name in readers if name in stated and name not in given and name not in inputs]
    for position, (name, entry) in enumerate(inputs.items()):
        if name in given or not _is_float_array(entry) or len(inputs) == 1:
            continue
        if _in_weight_place(name, readers) or (position and _has_parameter_name(name)):
            stripped.append(entry)
            graph.input.remove(entry)
    for entry in stripped:
        kind = entry.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        graph.initializer.append(TensorProto(name=entry.name, data_type=kind.elem_type, dims=sizes))


def _is_float_array(entry: Any) -> bool:
    kind = entry.type.tensor_type
    return kind.elem_type in _FLOATS and bool(kind.shape.dim) and all(dim.dim_value > 0 for dim in kind.shape.dim)


def _in_weight_place(name: str, readers: dict[str, list[tuple[Any, int]]]) -> bool:
    places = readers[name]
    return bool(places) and all(
        (node.op_type, slot) in _PLACES
        or (node.op_type in _LAYOUT and all(_in_weight_place(out, readers) for out in node.output))
        for node, slot in places
    )


def _has_parameter_name(name: str) -> bool:
    last = name.rpartition(".")[2].lower()
    return last in _PARAMETER_NAMES or any(last.endswith(f"_{word}") for word in _PARAMETER_NAMES)
