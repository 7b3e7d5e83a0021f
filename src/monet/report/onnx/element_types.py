"""Element types as ONNX names them, which operators of the opset accept them, and arrays as ONNX tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from monet.errors import MonetError
from monet.formats import FORMATS
from monet.graph.kind import Array

OPSET = 22  # the first opset whose convolutions and pools take bf16
IR_VERSION = 10  # the format version that belongs to it; nodes may carry metadata


def element_type(dtype: str) -> int:
    """The ONNX element type of ``dtype``."""
    name = FORMATS[stored_type(dtype)].onnx
    if not name:
        raise MonetError(f"ONNX has no element type for {dtype}")
    number: int = getattr(onnx.TensorProto, name)
    return number


def stored_type(dtype: str) -> str:
    """The dtype that ``dtype`` has in an ONNX file: ``bit`` becomes ``bool``, as ONNX packs no bits, and what shares
    scales becomes the numbers themselves."""
    if FORMATS[dtype].element:
        return "fp64"
    return "bool" if dtype == "bit" else dtype


def tensor_proto(name: str, array: Array, dtype: str) -> Any:
    """``array`` rounded to ``dtype``, as an ONNX tensor."""
    data = FORMATS[dtype].cast(np.ascontiguousarray(array))
    if data.dtype.byteorder == ">":
        data = data.byteswap()
    return onnx.TensorProto(
        name=name, data_type=element_type(dtype), dims=np.asarray(array).shape, raw_data=data.tobytes()
    )


def accepts(op_type: str, dtype: str) -> bool:
    """Whether the first input of a standard operator may have ``dtype``."""
    schema = onnx.defs.get_schema(op_type, OPSET, "")
    parameter = schema.inputs[0].type_str
    for constraint in schema.type_constraints:
        if constraint.type_param_str == parameter:
            return f"tensor({FORMATS[stored_type(dtype)].onnx.lower()})" in constraint.allowed_type_strs
    return False
