"""ONNX element types in our words."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from monet.errors import ModelError
from monet.graph.dtypes import DTYPES

_NAMES = {
    TensorProto.FLOAT: "fp32",
    TensorProto.DOUBLE: "fp64",
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.FLOAT8E4M3FN: "fp8_e4m3",
    TensorProto.FLOAT8E5M2: "fp8_e5m2",
    TensorProto.INT64: "int64",
    TensorProto.INT32: "int32",
    TensorProto.INT16: "int16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "int32",  # unsigned indices: the next wider signed type holds them
    TensorProto.UINT32: "int64",
    TensorProto.UINT64: "int64",
    TensorProto.BOOL: "bool",
}
_BY_NUMPY = {dtype.numpy: name for name, dtype in DTYPES.items() if name != "bit"}


def dtype_of(element_type: int, what: str) -> str:
    """Our name of an ONNX element type; ``what`` has it."""
    try:
        return _NAMES[element_type]
    except KeyError:
        name = TensorProto.DataType.Name(element_type) if element_type in TensorProto.DataType.values() else "unknown"
        raise ModelError(f"{what} has element type {name}, which is not supported") from None


def dtype_of_array(array: np.ndarray[Any, Any]) -> str:
    """Our name of an array's element type."""
    wider = {np.dtype(np.uint16): "int32", np.dtype(np.uint32): "int64", np.dtype(np.uint64): "int64"}
    name = _BY_NUMPY.get(array.dtype) or wider.get(array.dtype)
    if name is None:
        raise ModelError(f"a constant of element type {array.dtype} is not supported")
    return name
