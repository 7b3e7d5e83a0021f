"""Element types: how many bits a value occupies, and the NumPy type that computes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from monet.errors import MonetError, nearest


@dataclass(frozen=True, slots=True)
class DType:
    """One element type; ``bits`` is what is stored, which for ``bit`` is less than NumPy's."""

    name: str
    bits: int
    numpy: np.dtype[Any]
    is_float: bool

    def __str__(self) -> str:
        return self.name


def _dtype(name: str, bits: int, numpy: Any, is_float: bool = True) -> DType:
    return DType(name, bits, np.dtype(numpy), is_float)


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        _dtype("fp64", 64, np.float64),
        _dtype("fp32", 32, np.float32),
        _dtype("bf16", 16, ml_dtypes.bfloat16),
        _dtype("fp16", 16, np.float16),
        _dtype("fp8_e4m3", 8, ml_dtypes.float8_e4m3fn),
        _dtype("fp8_e5m2", 8, ml_dtypes.float8_e5m2),
        _dtype("int64", 64, np.int64, False),
        _dtype("int32", 32, np.int32, False),
        _dtype("int16", 16, np.int16, False),
        _dtype("int8", 8, np.int8, False),
        _dtype("uint8", 8, np.uint8, False),
        _dtype("bool", 8, np.bool_, False),
        _dtype("bit", 1, np.bool_, False),
    )
}


def dtype_named(name: str) -> DType:
    """The element type called ``name``."""
    try:
        return DTYPES[name]
    except KeyError:
        raise MonetError(f"unknown dtype {name!r}; {nearest(name, DTYPES)}") from None


def storage_bytes(elements: int, dtype: str) -> int:
    """Bytes that ``elements`` values of ``dtype`` occupy, packed."""
    return (elements * DTYPES[dtype].bits + 7) // 8
