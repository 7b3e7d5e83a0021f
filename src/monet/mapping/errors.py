"""Errors of the mapper: an operator that a core cannot run, or an operand that fits nowhere."""

from __future__ import annotations

from monet.errors import MonetError


class MappingError(MonetError):
    """No legal mapping exists, or a given one is not legal; says which operand, axis or level stands in the way."""


class DoesNotFit(MappingError):
    """An operand's smallest possible tile is larger than what a level offers; says by how many bytes."""

    def __init__(self, operand: str, level: str, needed_bytes: int, offered_bytes: int) -> None:
        self.operand, self.level = operand, level
        self.needed_bytes, self.offered_bytes = needed_bytes, offered_bytes
        super().__init__(
            f"operand {operand} does not fit level {level!r}: it needs {needed_bytes:,} bytes there, "
            f"{offered_bytes:,} are free, {needed_bytes - offered_bytes:,} bytes short"
        )
