"""Tensor: name, shape, number format, role, and the storage it lives in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from monet.formats import FORMATS


class Role(StrEnum):
    """What a tensor is for; decides its memory category and whether it counts as saved for backward."""

    INPUT = "input"
    LABEL = "label"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    STATE = "state"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A typed array. Views and in-place results carry the ``storage`` of the tensor they alias.

    ``strides`` (in elements) tell whether a later reshape is a view or a copy, as in the framework; a view's first
    element lies ``offset`` elements behind its storage's. ``gradient_of``
    names the tensor whose gradient this is. ``trainable``: of a parameter, that training changes it; of an
    input, that training works out its gradient.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    storage: str
    strides: tuple[int, ...]
    gradient_of: str = ""
    trainable: bool = False
    offset: int = 0

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of this tensor's own elements (a view may live in a larger storage)."""
        return FORMATS[self.dtype].bytes_of(self.shape)

    @property
    def bits_per_element(self) -> float:
        """Bits that move with each element (see ``Format.bits_per_element``)."""
        return FORMATS[self.dtype].bits_per_element(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return all(
            size == 1 or stride == expected
            for size, stride, expected in zip(self.shape, self.strides, contiguous(self.shape), strict=True)
        )

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides of ``shape``, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def view_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], new_shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides that let ``new_shape`` view the same elements without a copy, or None if a copy is needed.

    Each run of axes that is laid out as one block may be split and merged freely; runs may not be joined.
    """
    runs: list[tuple[int, int]] = []  # (elements, stride of the innermost axis), outermost first
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    result = [1] * len(new_shape)
    axis = len(new_shape) - 1
    for elements, stride in reversed(runs):
        covered = 1
        while covered < elements:
            if axis < 0:
                return None
            result[axis] = stride * covered
            covered *= new_shape[axis]
            axis -= 1
        if covered != elements:
            return None
    return tuple(result)
