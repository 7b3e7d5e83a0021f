"""Element types as ONNX names them, which operators of the opset accept them, and arrays as ONNX tensors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx

from monet.graph.dtypes import DTYPES
from monet.graph.kind import Array

OPSET = 22  # the first opset whose convolutions and pools take bf16
IR_VERSION = 10  # the format version that belongs to it; nodes may carry metadata

_NAMES = {
    "fp64": ("DOUBLE", "double"),
    "fp32": ("FLOAT", "float"),
    "bf16": ("BFLOAT16", "bfloat16"),
    "fp16": ("FLOAT16", "float16"),
    "fp8_e4m3": ("FLOAT8E4M3FN", "float8e4m3fn"),
    "fp8_e5m2": ("FLOAT8E5M2", "float8e5m2"),
    "int64": ("INT64", "int64"),
    "int32": ("INT32", "int32"),
    "int16": ("INT16", "int16"),
    "int8": ("INT8", "int8"),
    "uint8": ("UINT8", "uint8"),
    "bool": ("BOOL", "bool"),
    "bit": ("BOOL", "bool"),  # ONNX has no packed bits
}


def element_type(dtype: str) -> int:
    """The ONNX element type of ``dtype``."""
    number: int = getattr(onnx.TensorProto, _NAMES[dtype][0])
    return number


def stored(dtype: str) -> str:
    """The dtype that ``dtype`` has in an ONNX file: ``bit`` becomes ``bool``."""
    return "bool" if dtype == "bit" else dtype


def tensor_proto(name: str, array: Array, dtype: str) -> Any:
    """``array`` rounded to ``dtype``, as an ONNX tensor."""
    data = np.ascontiguousarray(array).astype(DTYPES[dtype].numpy)
    if data.dtype.byteorder == ">":
        data = data.byteswap()
    return onnx.TensorProto(
        name=name, data_type=element_type(dtype), dims=np.asarray(array).shape, raw_data=data.tobytes()
    )


@cache
def accepts(op_type: str, dtype: str) -> bool:
    """Whether the first input of a standard operator may have ``dtype``."""
    schema = onnx.defs.get_schema(op_type, OPSET, "")
    parameter = schema.inputs[0].type_str
    for constraint in schema.type_constraints:
        if constraint.type_param_str == parameter:
            return f"tensor({_NAMES[dtype][1]})" in constraint.allowed_type_strs
    return False
