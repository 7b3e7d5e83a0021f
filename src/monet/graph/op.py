"""Op: one operator application, and the attributes it carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """The part of a training step an operator belongs to, in execution order."""

    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    UPDATE = "update"


class Attributes(Mapping[str, Any]):
    """An immutable, hashable mapping of attribute values (numbers, strings, and tuples of them)."""

    __slots__ = ("_items",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._items = dict(sorted((values or {}).items()))

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __eq__(self, other: object) -> bool:
        return self._items == other._items if isinstance(other, Attributes) else super().__eq__(other)

    def __repr__(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self._items.items())


@dataclass(frozen=True, slots=True)
class Op:
    """One operator application. Inputs and outputs are tensor names; ``kind`` names an entry of the operator table.

    ``layer`` is the module path of the forward operator it came from, kept by its backward and update operators.
    ``micro_batch`` numbers the pass it belongs to when gradients are accumulated over several.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attributes
    phase: Phase = Phase.FORWARD
    layer: str = ""
    recompute: bool = False
    micro_batch: int = 0
