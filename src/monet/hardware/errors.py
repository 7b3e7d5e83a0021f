"""Errors in a hardware description; every problem of a file is reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monet.errors import MonetError


class HardwareError(MonetError):
    """A hardware description is missing, invalid, or asked for something it does not have."""


@dataclass(frozen=True, slots=True)
class DescriptionProblem:
    """One thing wrong with a description: where it stands, what was given, and what is allowed there."""

    path: str
    message: str
    given: str = ""

    def __str__(self) -> str:
        given = f" (given: {self.given})" if self.given else ""
        return f"  {self.path or '(top)'}: {self.message}{given}"


class DescriptionError(HardwareError):
    """A description with one or more problems; ``problems`` holds all of them, the message prints all of them."""

    def __init__(self, source: str, problems: Sequence[DescriptionProblem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{source}: {count}\n" + "\n".join(map(str, self.problems)))
