"""A part of a tensor that one of several ranks has: how an axis is cut, and the parts of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from monet.graph.kind import Array


class Part(NamedTuple):
    """One axis cut into ``size`` equal parts, one for each rank of ``group``.

    ``segments`` are lengths that add up to the axis, each cut by itself: of a joint projection of query, key and value
    a rank has its part of all three.
    """

    group: str
    size: int
    axis: int
    segments: tuple[int, ...]

    @classmethod
    def plain(cls, group: str, size: int, axis: int, length: int) -> Part:
        """An axis cut as one."""
        return cls(group, size, axis, (length,))

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """What is left of a shape."""
        return (*whole[: self.axis], whole[self.axis] // self.size, *whole[self.axis + 1 :])

    def positions(self, rank: int) -> Array:
        """Positions of the axis that a rank has, in its order."""
        starts = np.cumsum((0, *self.segments[:-1]))
        pieces = zip(starts, self.segments, strict=True)
        return np.concatenate(
            [
                start + np.arange(rank * (length // self.size), (rank + 1) * (length // self.size))
                for start, length in pieces
            ]
        )

    def take(self, whole: Array, rank: int) -> Array:
        """A rank's part of an array."""
        return np.take(whole, self.positions(rank), axis=self.axis)

    def join(self, parts: list[Array]) -> Array:
        """The array that all ranks' parts make."""
        shape = list(parts[0].shape)
        shape[self.axis] = sum(self.segments)
        whole = np.empty(shape, parts[0].dtype)
        for rank, part in enumerate(parts):
            at: list[Any] = [slice(None)] * len(shape)
            at[self.axis] = self.positions(rank)
            whole[tuple(at)] = part
        return whole


def parts_of(attrs: Any) -> tuple[Part, ...]:
    """The cuts that an operator's attribute ``parts`` tells of."""
    return tuple(Part(*values) for values in attrs.get("parts", ()))


def whole_shape(shape: tuple[int, ...], parts: tuple[Part, ...]) -> tuple[int, ...]:
    """The shape that was cut into parts of this one."""
    sizes = list(shape)
    for part in parts:
        sizes[part.axis] *= part.size
    return tuple(sizes)


def own_part(whole: Array, attrs: Any) -> Array:
    """What the rank that executes an operator has of ``whole``: its attribute ``ranks`` has a place for each of the
    ``parts``."""
    for part, rank in zip(parts_of(attrs), attrs["ranks"], strict=True):
        whole = part.take(whole, rank)
    return whole
