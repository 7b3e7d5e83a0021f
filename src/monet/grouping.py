"""Elements that share a scale: what an element is, how many share one and in what shape. No NumPy here."""

from __future__ import annotations

import math
from dataclasses import dataclass

Shape = tuple[int, ...]

VECTORS, SQUARES = (16, 32), (8, 16, 32)  # extents that a run and a square of elements may have


@dataclass(frozen=True, slots=True)
class Element:
    """A narrow number whose group has a scale: sign and magnitude (``twos_complement``: one more negative value).

    Magnitudes of at least 2^``least_exponent`` have ``fraction_bits`` after the leading one, smaller ones are
    subnormal; the largest lies in [2^``largest_exponent``, 2^(``largest_exponent`` + 1)). ``specials`` names the codes
    that are no numbers. A fixed-point number is one whose every magnitude below 2 is subnormal.
    """

    bits: int
    largest_exponent: int
    least_exponent: int
    fraction_bits: int
    maximum: float
    specials: tuple[str, ...] = ()
    twos_complement: bool = False

    @property
    def least(self) -> float:
        """The smallest magnitude above zero."""
        return 2.0 ** (self.least_exponent - self.fraction_bits)


@dataclass(frozen=True, slots=True)
class Group:
    """Elements that share a scale: ``shape`` covers the last axes of a tensor, (32,) a run along the last one, (32, 1)
    along the one before it, (8, 8) a square. A tensor is padded to whole groups. ``tensor_bits`` are kept once.

    ``scale`` says what the scale is: "e8m0" a power of two, "e4m3" an 8-bit float below an fp32 one of the tensor.
    ``micro``: so many neighbours have one more exponent bit of their own (2 × 2 of them in a square).
    """

    shape: Shape
    scale_bits: int
    tensor_bits: int = 0
    scale: str = "e8m0"
    micro: int = 0

    @property
    def extents(self) -> Shape:
        """The shape without axes along which nothing is shared: (32,) for any run, (8, 8) for any such square."""
        return tuple(size for size in self.shape if size > 1) or (1,)

    @property
    def is_square(self) -> bool:
        """Whether a group is its own transpose, so that both readings of a tensor have the same groups."""
        return len(self.extents) > 1

    @property
    def shared_bits(self) -> int:
        """Bits of all that the elements of one group share."""
        own = math.prod(self.shape) // self.micro ** len(self.extents) if self.micro else 0
        return self.scale_bits + own

    def count(self, shape: Shape) -> int:
        """Groups of a tensor, padded ones included."""
        sizes, steps = self.aligned(shape)
        return math.prod(-(-size // step) for size, step in zip(sizes, steps, strict=True))

    def padded(self, shape: Shape) -> int:
        """Elements of a tensor with what pads it to whole groups."""
        return self.count(shape) * math.prod(self.shape)

    def aligned(self, shape: Shape) -> tuple[Shape, Shape]:
        """Sizes of a tensor and extents of its groups, axis by axis."""
        rank = max(len(shape), len(self.shape))
        return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(self.shape)) + self.shape

    def transposed(self, order: Shape) -> Shape:
        """The group's shape after the axes of its tensor have been put in ``order``."""
        _, steps = self.aligned((1,) * len(order))
        return tuple(steps[axis] for axis in order)


def problem_with(shape: Shape) -> str:
    """Why elements cannot share a scale in this shape, or nothing."""
    extents = tuple(size for size in shape if size > 1)
    wide = len(extents) == 1 and extents[0] in VECTORS
    square = len(extents) == 2 and extents[0] == extents[1] and extents[0] in SQUARES
    if shape and min(shape) >= 1 and (wide or square):
        return ""
    allowed = [f"1x{size}" for size in VECTORS] + [f"{size}x{size}" for size in SQUARES]
    return f"a group is {', '.join(allowed[:-1])} or {allowed[-1]} (32x1, 8x8x1x1: axes of 1 share nothing)"
