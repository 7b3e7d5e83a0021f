"""Number formats: the one table of what a tensor may hold. What an arithmetic unit costs is in ``hardware.technology``.

A format says how many bytes a tensor of some *shape* takes, what NumPy computes with and how values are rounded to it,
what it may be used for, and what ONNX and PyTorch call it. ``docs/adding-a-format.md`` says what a new one touches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from monet.errors import MonetError, nearest

if TYPE_CHECKING:  # hardware reads this table too, and does without NumPy
    import numpy as np

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]


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
        sizes, steps = ((1,) * (rank - len(extents)) + extents for extents in (shape, self.shape))
        return math.prod(-(-size // step) for size, step in zip(sizes, steps, strict=True))


@dataclass(frozen=True, slots=True)
class Format:
    """One number format.

    ``bits`` are of one element, without its share of a scale. ``significand_bits`` is the width of the multiplier's
    operand (floats: hidden bit included); 0: nothing published to derive a unit from, so a core must give energy and
    area. ``numpy_name`` is the type that holds and computes the values; where it can hold more than the format does,
    ``quantise`` rounds. ``onnx`` and ``torch`` are empty where there is no such type.
    """

    name: str
    bits: int
    numpy_name: str
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

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that holds the values."""
        return _numpy(self.numpy_name)

    def cast(self, values: Array) -> Array:
        """Values rounded to the format, in its NumPy type."""
        import numpy as np

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
        return self.significand_bits > 1 and self.numpy_name != "bool"

    def __str__(self) -> str:
        return self.name


@cache
def _numpy(name: str) -> np.dtype[Any]:
    import ml_dtypes  # noqa: F401  NumPy then knows its types by name
    import numpy as np

    return np.dtype(name)


def _to_tf32(values: Array) -> Array:
    """Rounded to 10 bits of fraction, ties to even; infinities and NaN stay. float32 holds the result."""
    import numpy as np

    wide = np.asarray(values, np.float32)
    bits = wide.view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(wide), rounded.astype(np.uint32).view(np.float32), wide)


_NO_GROUPS = "formats whose elements share a scale are not in the table of formats yet"
_MICROSCALING = (
    "mxint8", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "nvfp4", "mx9", "mx6", "mx4",
)  # fmt: skip

FORMATS: dict[str, Format] = {
    number_format.name: number_format
    for number_format in (
        Format("fp64", 64, "float64", True, 53, "DOUBLE", "float64"),
        Format("fp32", 32, "float32", True, 24, "FLOAT", "float32"),
        Format("tf32", 32, "float32", True, 11, quantise=_to_tf32),
        Format("bf16", 16, "bfloat16", True, 8, "BFLOAT16", "bfloat16"),
        Format("fp16", 16, "float16", True, 11, "FLOAT16", "float16"),
        Format("fp8_e4m3", 8, "float8_e4m3fn", True, 4, "FLOAT8E4M3FN", "float8_e4m3fn"),
        Format("fp8_e5m2", 8, "float8_e5m2", True, 3, "FLOAT8E5M2", "float8_e5m2"),
        Format("int64", 64, "int64", False, 64, "INT64", "int64"),
        Format("int32", 32, "int32", False, 32, "INT32", "int32"),
        Format("int16", 16, "int16", False, 16, "INT16", "int16"),
        Format("int8", 8, "int8", False, 8, "INT8", "int8"),
        Format("uint8", 8, "uint8", False, 8, "UINT8", "uint8"),
        Format("int4", 4, "int4", False, 4),
        Format("bool", 8, "bool", False, 8, "BOOL", "bool"),
        Format("bit", 1, "bool", False, 1),
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
