"""Tuples that are a part of many keys."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

V = TypeVar("V", covariant=True)


class Hashed(tuple[V, ...]):
    """A tuple that knows its hash, however long it is. Where equal ones are also the same object, as far as possible,
    keys that hold it are found at once."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)  # a hash differs between processes
