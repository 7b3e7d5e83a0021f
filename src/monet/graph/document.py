"""A graph as plain values that JSON can hold, and back without loss: what a result keeps of a graph with no recipe."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.graph.graph import Graph
from monet.graph.op import Attributes, Op, Phase
from monet.graph.tensor import Role, Tensor, contiguous


def graph_document(graph: Graph) -> dict[str, Any]:
    """Everything in a graph but its recipe, as plain values."""
    return {
        "name": graph.name,
        "tensors": [_tensor(tensor) for tensor in graph.tensors.values()],
        "ops": [_op(op) for op in graph.ops],
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "loss": graph.loss,
        "values": {name: _array(array) for name, array in graph.values.items()},
        "gradients": dict(graph.gradients),
        "usual_loss": graph.usual_loss,
    }


def graph_from(document: Mapping[str, Any]) -> Graph:
    """The graph that ``graph_document`` wrote; ``ModelError`` if it is not one."""
    try:
        tensors = [_tensor_from(*entry) for entry in document["tensors"]]
        return Graph(
            name=document["name"],
            tensors={tensor.name: tensor for tensor in tensors},
            ops=tuple(_op_from(*entry) for entry in document["ops"]),
            inputs=tuple(document["inputs"]),
            outputs=tuple(document["outputs"]),
            loss=document["loss"],
            values={name: _array_from(**entry) for name, entry in document["values"].items()},
            gradients=dict(document["gradients"]),
            usual_loss=document["usual_loss"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"not a graph as monet writes it: {type(error).__name__}: {error}") from None


def _tensor(tensor: Tensor) -> list[Any]:
    storage = "" if tensor.storage == tensor.name else tensor.storage
    strides = None if tensor.strides == contiguous(tensor.shape) else list(tensor.strides)
    shape, role = list(tensor.shape), tensor.role.value
    return [
        tensor.name,
        shape,
        tensor.dtype,
        role,
        storage,
        strides,
        tensor.gradient_of,
        tensor.trainable,
        tensor.offset,
    ]


def _tensor_from(
    name: str, shape: list[int], dtype: str, role: str, storage: str, strides: list[int] | None, *rest: Any
) -> Tensor:
    laid = contiguous(tuple(shape)) if strides is None else tuple(strides)
    return Tensor(name, tuple(shape), dtype, Role(role), storage or name, laid, *rest)


def _op(op: Op) -> list[Any]:
    attrs = {name: _plain(value) for name, value in op.attrs.items()}
    rest = [op.phase.value, op.layer, op.recompute, op.micro_batch]
    return [op.name, op.kind, list(op.inputs), list(op.outputs), attrs, *rest]


def _op_from(
    name: str, kind: str, inputs: list[str], outputs: list[str], attrs: dict[str, Any], phase: str, *rest: Any
) -> Op:
    read = Attributes({key: _exact(value) for key, value in attrs.items()})
    return Op(name, kind, tuple(inputs), tuple(outputs), read, Phase(phase), *rest)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelError(f"an attribute {value!r} is neither a number, a text nor a tuple of them")


def _exact(value: Any) -> Any:
    return tuple(_exact(element) for element in value) if isinstance(value, list) else value


def _array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def _array_from(dtype: str, shape: list[int], data: str) -> np.ndarray[Any, Any]:
    import ml_dtypes  # noqa: F401  # gives NumPy the narrow floats by name

    return np.frombuffer(zlib.decompress(base64.b64decode(data)), np.dtype(dtype)).reshape(shape)
