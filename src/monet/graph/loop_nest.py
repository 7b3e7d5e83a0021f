"""Loop nests: iteration dimensions with sizes, and for each operand an affine map from them to its axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from monet.formats import format_named, whole_bytes


@dataclass(frozen=True, slots=True)
class Index:
    """An affine expression over dimensions: Σ coefficient · dimension + offset. It addresses one axis of an operand."""

    terms: tuple[tuple[str, int], ...]
    offset: int = 0

    def __str__(self) -> str:
        parts = [name if coefficient == 1 else f"{coefficient}{name}" for name, coefficient in self.terms]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return "+".join(parts).replace("+-", "-")

    def extent(self, sizes: dict[str, int]) -> int:
        """How many consecutive positions a tile of ``sizes`` spans on this axis (halo included, edges not clipped)."""
        return 1 + sum(abs(coefficient) * (sizes[name] - 1) for name, coefficient in self.terms)

    def within(self, length: int, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """(offset, positions) of this axis of ``length`` in a part of the nest, where dimensions run over ``ranges``
        (start, end): the part has the positions it touches, clipped as its windows lie, and counts from their first."""
        origin = low = high = self.offset
        for name, factor in self.terms:
            start, end = ranges[name]
            origin += factor * start
            low += factor * (start if factor > 0 else end - 1)
            high += factor * (end - 1 if factor > 0 else start)
        first = max(0, low)
        return origin - first, max(1, min(length - 1, high) - first + 1)


@dataclass(frozen=True, slots=True)
class Picks:
    """Positions of an ``axis`` of an operand that are looked up, by data: every point of ``dims`` picks one."""

    axis: int
    dims: tuple[str, ...]

    def within(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
        """What is read of an operand of some shape, at most, where dimensions have these sizes."""
        many = math.prod(sizes[name] for name in self.dims)
        return (*shape[: self.axis], min(shape[self.axis], many), *shape[self.axis + 1 :])


@dataclass(frozen=True)
class Operand:
    """One tensor of an operator as the nest sees it.

    ``slot`` is its position in (*op.inputs, *op.outputs). ``shape`` clips windows that reach into padding. A written
    operand whose indices leave out a dimension is reduced over it; one whose indices are windows (input gradient of a
    convolution) is accumulated by scatter.

    ``picks``: of an axis that no index moves a part is read that data says; ``shape`` has its size, not its place.

    ``bits_per_element`` are those of the whole tensor (see ``Format``): a part of an operand, which has a smaller
    shape, keeps them, so that all parts together are as large as the whole. Not given: those of this shape.
    """

    name: str
    slot: int
    dtype: str
    shape: tuple[int, ...]
    indices: tuple[Index, ...]
    written: bool
    bits_per_element: float = 0
    picks: Picks | None = None

    def __post_init__(self) -> None:
        if not self.bits_per_element:
            object.__setattr__(self, "bits_per_element", format_named(self.dtype).bits_per_element(self.shape))

    @cached_property
    def dims(self) -> frozenset[str]:
        """Names of the dimensions that are relevant to this operand."""
        found = frozenset(name for index in self.indices for name, coefficient in index.terms if coefficient)
        return found | frozenset(self.picks.dims) if self.picks else found

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return whole_bytes(math.prod(self.shape) * self.bits_per_element)

    def grain(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Dimensions along which elements share a scale, and how many of them do. Groups never lie along windows; of an
        axis of blocks side by side (channels of groups of a convolution) they lie inside these."""
        held, found = format_named(self.dtype), dict[str, int]()
        if held.element is None or held.group is None:
            return found
        extents = held.group.aligned(self.shape)[1][-len(self.indices) :]
        for index, extent in zip(self.indices, extents, strict=True):
            terms = [(name, factor) for name, factor in index.terms if sizes.get(name, 1) > 1]
            inner = [name for name, factor in terms if abs(factor) == 1]
            apart = all(factor % extent == 0 for name, factor in terms if name not in inner)
            if extent > 1 and len(inner) == 1 and apart:
                found[inner[0]] = extent
        return found

    def part(self, ranges: Mapping[str, tuple[int, int]], sizes: Mapping[str, int]) -> Operand:
        """What a part of the nest has of this operand; see ``LoopNest.part``."""
        if not self.dims & ranges.keys():
            return self
        everything = {name: ranges.get(name, (0, size)) for name, size in sizes.items()}
        shape, indices = list(self.shape), list(self.indices)
        for axis, index in enumerate(self.indices):
            if any(name in ranges for name, _ in index.terms):
                offset, shape[axis] = index.within(shape[axis], everything)
                indices[axis] = Index(index.terms, offset)
        if self.picks:
            lengths = {name: end - start for name, (start, end) in everything.items()}
            shape = list(self.picks.within(tuple(shape), lengths))
        return replace(self, shape=tuple(shape), indices=tuple(indices))

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.indices))}]:{self.dtype}"


@dataclass(frozen=True)
class LoopNest:
    """A perfect nest of loops around one scalar operation (a multiply-accumulate, or ``function`` per point)."""

    dims: tuple[tuple[str, int], ...]
    operands: tuple[Operand, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.dims, self.operands))

    def __hash__(self) -> int:
        return self._hash  # nests are keys of many tables, and long

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # differs between processes

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Dimension name → trip count."""
        return dict(self.dims)

    @cached_property
    def points(self) -> int:
        """Iterations of the innermost statement."""
        return math.prod(size for _, size in self.dims)

    @property
    def reads(self) -> tuple[Operand, ...]:
        """Operands that are read."""
        return tuple(operand for operand in self.operands if not operand.written)

    @property
    def writes(self) -> tuple[Operand, ...]:
        """Operands that are written."""
        return tuple(operand for operand in self.operands if operand.written)

    @cached_property
    def reduced(self) -> frozenset[str]:
        """Dimensions that index no output: the nest sums over them."""
        written = frozenset().union(*(operand.dims for operand in self.writes))
        return frozenset(self.sizes) - written

    @cached_property
    def grain(self) -> dict[str, int]:
        """Dimensions along which elements of an operand share a scale, and how many positions stay together: tiles and
        pieces end at multiples of it."""
        found: dict[str, int] = {}
        for operand in self.operands:
            for dim, extent in operand.grain(self.sizes).items():
                found[dim] = math.lcm(found.get(dim, 1), extent)
        return found

    def granules(self, dim: str) -> int:
        """Positions of a dimension that a cut may part: groups where elements share a scale."""
        return -(-self.sizes[dim] // self.grain.get(dim, 1))

    def part(self, ranges: Mapping[str, tuple[int, int]]) -> LoopNest:
        """The nest over ``ranges`` (start, end) of some dimensions; the others are whole."""
        lengths = {name: end - start for name, (start, end) in ranges.items()}
        dims = tuple((name, lengths.get(name, size)) for name, size in self.dims)
        return LoopNest(dims, tuple(operand.part(ranges, self.sizes) for operand in self.operands))

    def canonical(self) -> tuple[object, ...]:
        """A content key: unit dimensions dropped, the others renamed by position. Equal keys cost the same."""
        kept = [(name, size) for name, size in self.dims if size != 1]  # a piece may be empty, which is not unit
        rename = {name: position for position, (name, _) in enumerate(kept)}
        operands = tuple(
            (
                operand.slot,
                operand.dtype,
                operand.bits_per_element,
                operand.written,
                operand.shape,
                tuple(
                    (tuple((rename[name], factor) for name, factor in index.terms if name in rename), index.offset)
                    for index in operand.indices
                ),
            )
            for operand in self.operands
        )
        return tuple(size for _, size in kept), operands

    def __str__(self) -> str:
        loops = " ".join(f"{name}:{size}" for name, size in self.dims)
        writes = ", ".join(map(str, self.writes))
        reads = ", ".join(map(str, self.reads))
        return f"for {loops}: {writes} <- {reads}"


@lru_cache(maxsize=16_384)
def known_nest(nest: LoopNest) -> LoopNest:
    """The first of equal nests: where they are one object, keys that hold one are found without comparing them."""
    return nest


def index(*terms: str | tuple[str, int], offset: int = 0) -> Index:
    """Write an affine index: ``index("n")``, ``index(("p", 2), ("r", 1), offset=-3)``."""
    return Index(tuple((term, 1) if isinstance(term, str) else term for term in terms), offset)
