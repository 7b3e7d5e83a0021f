"""ONNX element types in our words."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from monet.errors import ModelError
from monet.formats import FORMATS

_NAMES: dict[int, str] = {
    getattr(TensorProto, number_format.onnx): name for name, number_format in FORMATS.items() if number_format.onnx
}
_NAMES |= {TensorProto.UINT16: "int32", TensorProto.UINT32: "int64", TensorProto.UINT64: "int64"}  # wider signed ones
_BY_NUMPY = {number_format.numpy: name for name, number_format in FORMATS.items() if number_format.onnx}


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
