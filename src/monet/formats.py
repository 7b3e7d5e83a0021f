"""Number formats: the one table of what a tensor may hold. What an arithmetic unit costs is in ``hardware.technology``.

A format says how many bytes a tensor of some *shape* takes, what NumPy computes with and how values are rounded to it,
what it may be used for, and what ONNX and PyTorch call it. ``docs/adding-a-format.md`` says what a new one touches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from monet.errors import MonetError, nearest
from monet.grouping import Element, Group, Shape, problem_with

if TYPE_CHECKING:  # hardware reads this table too, and does without NumPy
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Format:
    """One number format.

    ``bits`` are of one element, without its share of a scale. ``significand_bits`` is the width of the multiplier's
    operand (floats: hidden bit included); 0: nothing published to derive a unit from, so a core must give energy and
    area. ``numpy_name`` is the type that holds and computes the values; where it can hold more than the format does,
    ``quantise`` rounds. ``onnx`` and ``torch`` are empty where there is no such type.

    A microscaling format has an ``element`` and a ``group``: ``mxfp8_e4m3`` shares a scale along the last axis as its
    standard says, ``mxfp8_e4m3[8x8]`` in another shape (see ``Group``). They are the operands of products, made by
    ``quantize``; no parameter has one.
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
    element: Element | None = None

    # --- storage ------------------------------------------------------------------------------------------------------

    def _stored_bits(self, shape: Shape) -> int:
        if self.group is None:
            return math.prod(shape) * self.bits
        each = math.prod(self.group.shape) * self.bits + self.group.shared_bits
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

        array = np.asarray(values)
        if self.quantise is not None:
            array = self.quantise(array)
        elif self.element is not None and self.group is not None:
            from monet.block_scaling import quantise

            array = quantise(array, self.element, self.group)
        return array.astype(self.numpy, copy=False)

    # --- groups -------------------------------------------------------------------------------------------------------

    @property
    def family(self) -> str:
        """The format without its group: ``mxfp8_e4m3`` of ``mxfp8_e4m3[8x8]``, a plain format's own name."""
        return self.name.partition("[")[0]

    @property
    def mode(self) -> str:
        """What an arithmetic unit sees: the group without the axes along which nothing is shared. Runs of 32 along any
        axis are ``…[1x32]``, squares of channels of a convolution ``…[8x8]``; a plain format's own name."""
        return self.family + _suffix(self.group.extents) if self.element and self.group else self.name

    def grouped(self, shape: Shape) -> Format:
        """The same elements and scale, shared in groups of another shape."""
        return format_named(self.family + _suffix(shape))

    def along(self, rank: int, summed: int, kept: int) -> Format:
        """The format of an operand with so many axes, for a product that sums over one of them: a run lies along that
        one, a square over it and the one across that the result keeps."""
        if self.group is None:
            return self
        shared = {summed % rank, kept % rank} if self.group.is_square else {summed % rank}
        size = self.group.extents[0]
        return self.grouped(tuple(size if axis in shared else 1 for axis in range(min(shared), rank)))

    # --- what it may be used for --------------------------------------------------------------------------------------

    @property
    def may_train(self) -> bool:
        """Whether gradients flow through values of it, so that parameters may have it."""
        return self.is_float and self.element is None

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


def _suffix(shape: Shape) -> str:
    """How a group's shape is written: (32,) as [1x32], leading axes of 1 left out otherwise."""
    first = next((axis for axis, size in enumerate(shape) if size > 1), len(shape) - 1)
    kept = shape[first:]
    return f"[{'x'.join(map(str, kept if len(kept) > 1 else (1, *kept)))}]"


def _scaled(
    name: str, element: Element, run: int = 32, scale: str = "e8m0", tensor_bits: int = 0, micro: int = 0
) -> Format:
    group = Group((run,), 8, tensor_bits, scale, micro)
    # float64: -2 · 2^127 of mxint8, and the three factors of nvfp4, are no float32
    return Format(name, element.bits, "float64", True, group=group, element=element)


def _signed(fraction_bits: int) -> Element:
    """Sign, one bit before the point and ``fraction_bits`` after it."""
    return Element(fraction_bits + 2, 0, 0, fraction_bits, 2 - 2.0**-fraction_bits)


_E2M1 = Element(4, 2, 0, 1, 6.0)

# OCP Microscaling Formats (MX) v1.0, tables 1 to 5; NVFP4: arXiv 2509.25149; MX9, MX6, MX4: arXiv 2302.08007, which are
# not OCP's (runs of 16, pairs with an exponent bit of their own, no leading one).
_MICROSCALING = (
    _scaled("mxfp8_e5m2", Element(8, 15, -14, 2, 57344.0, ("Inf", "NaN"))),
    _scaled("mxfp8_e4m3", Element(8, 8, -6, 3, 448.0, ("NaN",))),
    _scaled("mxfp6_e3m2", Element(6, 4, -2, 2, 28.0)),
    _scaled("mxfp6_e2m3", Element(6, 2, 0, 3, 7.5)),
    _scaled("mxfp4_e2m1", _E2M1),
    _scaled("mxint8", Element(8, 0, 0, 6, 2 - 2.0**-6, twos_complement=True)),
    _scaled("nvfp4", _E2M1, 16, "e4m3", tensor_bits=32),
    _scaled("mx9", _signed(6), 16, micro=2),
    _scaled("mx6", _signed(3), 16, micro=2),
    _scaled("mx4", _signed(1), 16, micro=2),
)

_GROUPED = re.compile(r"^\w+\[(?P<shape>\d{1,2}(?:x\d{1,2})+)\]$")


class _Table(dict[str, Format]):
    """Formats by name. A microscaling format in a group of another shape is made when it is first asked for."""

    def __missing__(self, name: str) -> Format:
        family = name.partition("[")[0]
        found = _regrouped(self[family], name) if family != name and family in self else None
        if found is None:
            raise KeyError(name)
        return found


@cache
def _regrouped(base: Format, name: str) -> Format | None:
    """The microscaling format called ``name``, made of the one without its group; None if there is no such group."""
    parts = _GROUPED.match(name)
    if parts is None or base.group is None or base.element is None:
        return None
    shape = tuple(map(int, parts["shape"].split("x")))
    if problem_with(shape) or parts["shape"] != _suffix(shape)[1:-1]:
        return None
    return replace(base, name=name, group=replace(base.group, shape=shape))


FORMATS: dict[str, Format] = _Table(
    (number_format.name, number_format)
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
        *_MICROSCALING,
    )
)


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


def is_format(name: str) -> bool:
    """Whether there is a format called ``name``; one in a group of another shape counts."""
    try:
        return bool(FORMATS[name])
    except KeyError:
        return False


def unknown_format(name: str) -> str:
    """Why ``name`` is no format that a tensor can have."""
    family, bracket, _ = name.partition("[")
    if not bracket or family not in FORMATS:
        return f"unknown number format {name!r}; {nearest(name, FORMATS)}"
    if FORMATS[family].element is None:
        return f"unknown number format {name!r}: elements of {family} share no scale, so they have no groups"
    return f"unknown number format {name!r}: {problem_with((0,))}"
