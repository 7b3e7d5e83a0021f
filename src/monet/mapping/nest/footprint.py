"""What a tile of a loop nest touches of an operand: plain dimensions, and sliding windows with halo and padding.

An operand's axis is *plain* in a dimension when different values of it never meet (N, K, C, and G with C). It is a
*window* over two dimensions (a·u + b·v + offset) when they do meet, or when positions fall outside the tensor. Tiles
of a window overlap, and positions in the padding do not exist; both are counted exactly, from tables over tile sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from monet.arrays import I64x2, I64x3
from monet.graph.loop_nest import Index, LoopNest, Operand
from monet.mapping.errors import MappingError
from monet.mapping.nest.window_counts import Geometry, window_tables


@dataclass(frozen=True, slots=True)
class Window:
    """One axis of an operand addressed by a·u + b·v + offset, of ``length`` positions. ``v`` is empty if alone."""

    u: str
    v: str
    a: int
    b: int
    offset: int
    length: int

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions that slide over this axis."""
        return (self.u, self.v) if self.v else (self.u,)


@dataclass(frozen=True, slots=True)
class Footprint:
    """How an operand depends on the dimensions of its nest (those longer than one)."""

    operand: Operand
    plain: tuple[str, ...]
    windows: tuple[Window, ...]
    window_dims: frozenset[str]  # dimensions that overlap or reach into padding
    dims: frozenset[str]  # dimensions that are relevant to the operand


@lru_cache(maxsize=4096)
def footprints(nest: LoopNest) -> dict[str, Footprint]:
    """What each operand of a nest touches, by its name."""
    return {operand.name: _classify(nest, operand) for operand in nest.operands}


def _classify(nest: LoopNest, operand: Operand) -> Footprint:
    """Tell plain dimensions of an operand from windows."""
    plain: list[str] = []
    windows: list[Window] = []
    for axis, index in enumerate(operand.indices):
        terms = tuple((name, factor) for name, factor in index.terms if factor and nest.sizes[name] > 1)
        if _is_plain(terms, index.offset, operand.shape[axis], nest):
            plain.extend(name for name, _ in terms)
        else:
            windows.append(_window(terms, index, operand, axis))
    dims = [*plain, *(dim for window in windows for dim in window.dims)]
    if len(dims) != len(set(dims)):
        raise MappingError(f"operand {operand}: a dimension indexes two axes, which the mapper does not know")
    sliding = frozenset(dim for window in windows for dim in window.dims)
    return Footprint(operand, tuple(plain), tuple(windows), sliding, sliding | frozenset(plain))


def _is_plain(terms: tuple[tuple[str, int], ...], offset: int, length: int, nest: LoopNest) -> bool:
    """Whether distinct points touch distinct positions, all inside the tensor; an axis may be walked backwards."""
    reach, low = 0, offset
    for name, factor in sorted(terms, key=lambda term: abs(term[1])):
        if abs(factor) <= reach:
            return False
        span = abs(factor) * (nest.sizes[name] - 1)
        reach += span
        low -= span if factor < 0 else 0
    return low >= 0 and low + reach < length


def _window(terms: tuple[tuple[str, int], ...], index: Index, operand: Operand, axis: int) -> Window:
    if not 1 <= len(terms) <= 2 or any(factor < 0 for _, factor in terms):
        raise MappingError(f"operand {operand}: index {index} is not a window over one or two dimensions")
    (u, a), (v, b) = (*terms, ("", 0))[:2]
    return Window(u, v, a, b, index.offset, operand.shape[axis])


@dataclass(frozen=True, slots=True)
class Extent:
    """A dimension as seen from one level: its size, its unrolling over the array, and the part of it inside one
    instance of the level. ``steps`` are chunks of ``unrolled`` values; position i of chunk c is c·unrolled + i."""

    size: int
    unrolled: int = 1
    inside: int = 1

    @property
    def steps(self) -> int:
        """Temporal steps that cover the dimension."""
        return -(-self.size // self.unrolled)


@dataclass(frozen=True, slots=True)
class WindowTables:
    """Exact element counts on one window axis, for tiles of (i, j) = (tile of u, tile of v), in chunks.

    ``largest[i, j]``: positions of the largest tile. ``total[i, j]``: positions summed over all tiles and instances.
    ``kept_u[i, s, j]``: positions that stay when tiles slide along u within a span of tile s; ``kept_v[j, s, i]``
    likewise along v. ``points``: (u, v) pairs that fall inside the tensor. ``distinct``: positions touched at all.
    """

    largest: I64x2
    total: I64x2
    kept_u: I64x3
    kept_v: I64x3
    points: int
    distinct: int


@lru_cache(maxsize=8192)
def tables(window: Window, u: Extent, v: Extent, tiles_u: tuple[int, ...], tiles_v: tuple[int, ...]) -> WindowTables:
    """Tables of ``window`` for the given tile candidates (chunks)."""
    geometry = Geometry(
        window.a, window.b, window.offset, window.length,
        u.size, u.unrolled, u.inside, -(-u.size // u.unrolled), v.size, v.unrolled, v.inside, -(-v.size // v.unrolled),
    )  # fmt: skip
    largest, total, kept_u, kept_v, scalars = window_tables(geometry, np.array(tiles_u), np.array(tiles_v))
    return WindowTables(largest, total, kept_u, kept_v, int(scalars[0]), int(scalars[1]))


def window_counts(window: Window, sizes: dict[str, int]) -> WindowTables:
    """Tables of a window as a whole, for its ``points`` and ``distinct`` positions."""
    return tables(window, Extent(sizes[window.u]), Extent(sizes.get(window.v, 1)), (1,), (1,))


def divisors(number: int) -> tuple[int, ...]:
    """All divisors, ascending."""
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(low + [number // d for d in reversed(low) if d * d != number])
