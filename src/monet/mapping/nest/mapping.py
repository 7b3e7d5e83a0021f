"""Mapping: how one loop nest runs on one core. Unrolling over the array, one temporal loop order, and for every operand
and level the place in that order where its tile is cut (operands may be cut at different places: uneven mappings)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Unrolled:
    """``factor`` neighbouring values of a dimension side by side on an array axis (``unit``: inside a MAC unit)."""

    axis: str
    dim: str
    factor: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A temporal loop. Loops of one dimension, from inner to outer, step over ever larger tiles of it."""

    dim: str
    trips: int


@dataclass(frozen=True, slots=True)
class Cut:
    """``level`` keeps, for ``slot``, the tile that ``loops[position:]`` and the unrolling run over."""

    slot: str
    level: str
    position: int


@dataclass(frozen=True, slots=True)
class Binding:
    """Which operand of the nest sits in which slot of the core."""

    I: str  # noqa: E741 - the field's names of the slots
    W: str
    O: str  # noqa: E741

    def operand(self, slot: str) -> str:
        """Name of the operand in a slot."""
        return {"I": self.I, "W": self.W, "O": self.O}[slot]

    def slot(self, operand: str) -> str:
        """The slot of an operand."""
        return {self.I: "I", self.W: "W", self.O: "O"}[operand]


@dataclass(frozen=True)
class Mapping:
    """A complete mapping. ``loops`` run from the outermost to the innermost; all of them are inside the border, where
    operands are resident. Levels of a slot that are not cut (its top) keep the whole operand."""

    mode: str
    binding: Binding
    unrolled: tuple[Unrolled, ...]
    loops: tuple[Loop, ...]
    cuts: tuple[Cut, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.mode, self.binding, self.unrolled, self.loops, self.cuts))

    def __hash__(self) -> int:
        return self._hash  # what a mapping costs is looked up by it, and it is deep

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # differs between processes

    def factor(self, dim: str) -> int:
        """Values of a dimension that run side by side."""
        return math.prod(unrolling.factor for unrolling in self.unrolled if unrolling.dim == dim)

    def tile(self, position: int) -> dict[str, int]:
        """Steps of every dimension inside ``loops[position:]`` (dimensions without a loop there are absent)."""
        return trips_by_dim(self.loops[position:])

    def cut(self, slot: str, level: str) -> Cut | None:
        """The cut of a slot at a level, if it has one."""
        return next((cut for cut in self.cuts if cut.slot == slot and cut.level == level), None)


def trips_by_dim(loops: Iterable[Loop]) -> dict[str, int]:
    """Product of the trip counts of each dimension."""
    tile: dict[str, int] = {}
    for loop in loops:
        tile[loop.dim] = tile.get(loop.dim, 1) * loop.trips
    return tile
