"""Types of arrays that kernels read: element type and number of dimensions, all C-contiguous; and tables of rows."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

# mypy sees the element type; ``compiled.kernel`` also takes the number of dimensions from here
I64 = Annotated[NDArray[np.int64], 1]
I64x2 = Annotated[NDArray[np.int64], 2]
I64x3 = Annotated[NDArray[np.int64], 3]
I32x2 = Annotated[NDArray[np.int32], 2]
F64 = Annotated[NDArray[np.float64], 1]
F64x2 = Annotated[NDArray[np.float64], 2]
F64x3 = Annotated[NDArray[np.float64], 3]
F64x4 = Annotated[NDArray[np.float64], 4]
F64x5 = Annotated[NDArray[np.float64], 5]
U8 = Annotated[NDArray[np.uint8], 1]
U8x2 = Annotated[NDArray[np.uint8], 2]
U8x3 = Annotated[NDArray[np.uint8], 3]
Column = Annotated[NDArray[np.int64], 1, "A"]  # of a table: its elements are not next to each other
Bool = Annotated[NDArray[np.bool_], 1]


class _Column:
    """A column of a table, as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, table: Table, owner: type[Table]) -> I64:
        column: I64 = table.view(np.ndarray)[self.name]
        if type(table.base) is np.ndarray:  # the column holds that, not the table: nobody collects such a ring
            table.__dict__[self.name] = column  # where the next access finds it, without coming here
        return column


class Table(np.ndarray[tuple[int], np.dtype[np.void]]):
    """Rows of 64-bit integers whose columns have names, row by row in memory: a kernel reads most of a row at a time.

    A subclass declares its columns (``kind: I64``). In kernels and outside, ``table.kind`` is a column.
    """

    row: ClassVar[np.dtype[np.void]]

    def __init_subclass__(cls) -> None:
        cls.row = np.dtype([(name, np.int64) for name in cls.__annotations__], align=True)
        for name in cls.__annotations__:
            setattr(cls, name, _Column(name))

    @classmethod
    def empty(cls, rows: int) -> Self:
        """So many rows, not initialised."""
        return np.empty(rows, cls.row).view(cls)

    @classmethod
    def zeros(cls, rows: int) -> Self:
        """So many rows of zeros."""
        return np.zeros(rows, cls.row).view(cls)

    @classmethod
    def of(cls, plain: I64x2) -> Self:
        """The rows of a two-dimensional array, in the same memory."""
        return np.ndarray.__new__(cls, len(plain), cls.row, plain)  # a view takes three times as long

    def copied(self) -> Self:
        """A copy."""
        return self.of(self.plain.copy())

    @property
    def plain(self) -> I64x2:
        """The rows as a two-dimensional array, in the same memory: NumPy copies, chooses and joins these far faster."""
        return np.ndarray((len(self), self.row.itemsize // 8), np.int64, self)

    def some(self, chosen: slice | I64 | Bool) -> Self:
        """Some rows; a slice of them stays in the same memory."""
        if isinstance(chosen, slice) and chosen.step not in (None, 1):
            return cast(Self, self[chosen])
        return self.of(self.plain[chosen])
