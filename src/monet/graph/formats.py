"""Number formats: the one table of what a tensor may hold. What an arithmetic unit costs is in ``hardware.technology``.

A format says how many bytes a tensor of some *shape* takes, what NumPy computes with and how values are rounded to it,
what it may be used for, and what ONNX and PyTorch call it. ``docs/adding-a-format.md`` says what a new one touches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from monet.errors import MonetError, nearest

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Elements that share a scale: ``shape`` covers the last axes of a tensor, (32,) a run along the last one, (32, 1)
    along the one before it, (8, 8) a square. A tensor is padded to whole groups. ``tensor_bits`` are kept once."""

    shape: Shape
    scale_bits: int
    tensor_bits: int = 0

    def count(self, shape: Shape) -> int:
        """Groups of a tensor, padded ones included."""
        rank = max(len(shape), len(self.shape))
        sizes, steps = ((1,) * (rank - len(one)) + one for one in (shape, self.shape))
        return math.prod(-(-size // step) for size, step in zip(sizes, steps, strict=True))


@dataclass(frozen=True, slots=True)
class Format:
    """One number format.

    ``bits`` are of one element, without its share of a scale. ``significand_bits`` is the width of the multiplier's
    operand (floats: hidden bit included); 0: nothing published to derive a unit from, so a core must give energy and
    area. ``numpy`` holds and computes the values; where it can hold more than the format does, ``quantise`` rounds.
    ``onnx`` and ``torch`` are empty where there is no such type.
    """

    name: str
    bits: int
    numpy: np.dtype[Any]
    is_float: bool
    significand_bits: int = 0
    onnx: str = ""
    torch: str = ""
    group: Group | None = None
    quantise: Callable[[Array], Array] | None = None

    # --- storage ------------------------------------------------------------------------------------------------------

    def _stored_bits(self, shape: Shape) -> int:
        if self.group is None:
            return math.prod(shape) * self.bits
        each = math.prod(self.group.shape) * self.bits + self.group.scale_bits
        return self.group.count(shape) * each + self.group.tensor_bits

    def bytes_of(self, shape: Shape) -> int:
        """Bytes of a tensor: its elements packed; with groups, padding and scales included."""
        return -(-self._stored_bits(shape) // 8)

    def bits_per_element(self, shape: Shape) -> float:
        """Bits that move with an element of a tensor of this shape, over ports, links and DRAM.

        A whole number (an int) for plain formats. With groups the element's share of scales and padding is in it, so it
        is a fraction: all elements together are the tensor's bytes, whoever moves them in whatever parts.
        """
        elements = math.prod(shape)
        return self.bits if self.group is None or not elements else self._stored_bits(shape) / elements

    # --- values -------------------------------------------------------------------------------------------------------

    def cast(self, values: Array) -> Array:
        """Values rounded to the format, in its NumPy type."""
        array = np.asarray(values) if self.quantise is None else self.quantise(np.asarray(values))
        return array.astype(self.numpy, copy=False)

    # --- what it may be used for --------------------------------------------------------------------------------------

    @property
    def may_train(self) -> bool:
        """Whether gradients flow through values of it, so that parameters may have it."""
        return self.is_float

    @property
    def may_index(self) -> bool:
        """Whether it may number the rows of a table."""
        return self.numpy.kind in "iub" and not self.is_float

    @property
    def may_accumulate(self) -> bool:
        """Whether a unit can add up sums in it: a plain number with a known adder."""
        return self.significand_bits > 1 and self.numpy.kind != "b"

    def __str__(self) -> str:
        return self.name


def _to_tf32(values: Array) -> Array:
    """Rounded to 10 bits of fraction, ties to even; infinities and NaN stay. float32 holds the result."""
    wide = np.asarray(values, np.float32)
    bits = wide.view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(wide), rounded.astype(np.uint32).view(np.float32), wide)


def _float(name: str, bits: int, significand: int, numpy: Any, onnx: str = "", torch: str = "") -> Format:
    return Format(name, bits, np.dtype(numpy), True, significand, onnx, torch)


def _integer(name: str, bits: int, numpy: Any, onnx: str = "", torch: str = "") -> Format:
    return Format(name, bits, np.dtype(numpy), False, bits, onnx, torch)


_NO_GROUPS = "formats whose elements share a scale are not in the table of formats yet"
_MICROSCALING = (
    "mxint8", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "nvfp4", "mx9", "mx6", "mx4",
)  # fmt: skip

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        _float("fp64", 64, 53, np.float64, "DOUBLE", "float64"),
        _float("fp32", 32, 24, np.float32, "FLOAT", "float32"),
        Format("tf32", 32, np.dtype(np.float32), True, 11, quantise=_to_tf32),
        _float("bf16", 16, 8, ml_dtypes.bfloat16, "BFLOAT16", "bfloat16"),
        _float("fp16", 16, 11, np.float16, "FLOAT16", "float16"),
        _float("fp8_e4m3", 8, 4, ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FN", "float8_e4m3fn"),
        _float("fp8_e5m2", 8, 3, ml_dtypes.float8_e5m2, "FLOAT8E5M2", "float8_e5m2"),
        _integer("int64", 64, np.int64, "INT64", "int64"),
        _integer("int32", 32, np.int32, "INT32", "int32"),
        _integer("int16", 16, np.int16, "INT16", "int16"),
        _integer("int8", 8, np.int8, "INT8", "int8"),
        _integer("uint8", 8, np.uint8, "UINT8", "uint8"),
        _integer("int4", 4, ml_dtypes.int4),
        _integer("bool", 8, np.bool_, "BOOL", "bool"),
        _integer("bit", 1, np.bool_),
    )
}

# Known by name, but no graph can hold them.
NOT_HELD: dict[str, str] = dict.fromkeys(_MICROSCALING, _NO_GROUPS)


def whole_bytes(bits: float, *, down: bool = False) -> int:
    """Bytes that hold so many bits (``down``: that they fill). Shares of scales may have left a fraction of a bit."""
    exact = bits if isinstance(bits, int) else round(bits, 3)
    return int(exact // 8 if down else -(-exact // 8))


def format_named(name: str) -> Format:
    """The format called ``name``."""
    try:
        return FORMATS[name]
    except KeyError:
        raise MonetError(unknown_format(name)) from None


def unknown_format(name: str) -> str:
    """Why ``name`` is no format that a tensor can have."""
    if name in NOT_HELD:
        return f"no graph can hold {name}: {NOT_HELD[name]}; allowed: {', '.join(sorted(FORMATS))}"
    return f"unknown number format {name!r}; {nearest(name, FORMATS)}"
