"""What is known of a point after it was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Point = tuple[tuple[str, Any], ...]  # a choice of values, sorted by name


@dataclass(frozen=True, slots=True)
class Record:
    """One evaluated point. ``status`` is ok, infeasible or failed; the latter two have a ``reason``."""

    values: Mapping[str, Any]
    status: str
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    attempts: int = 1
    version: str = ""

    @property
    def point(self) -> Point:
        """The values, to look things up by."""
        return tuple(sorted(self.values.items()))

    @property
    def ok(self) -> bool:
        """Whether the point has figures to compare."""
        return self.status == "ok"
