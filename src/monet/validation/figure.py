"""Figure: one published or measured number, how we arrive at ours, and how far apart they may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from monet.errors import MonetError


class Rule(StrEnum):
    """How ours is held against the published value."""

    WITHIN = "within"  # |ours / published − 1| ≤ tolerance
    AT_MOST = "at most"  # ours ≤ published · (1 + tolerance): a search may be better than the published one
    BESIDE = "beside"  # printed with its error; no tolerance has been set


class Verdict(StrEnum):
    """What came of a comparison."""

    OK = "ok"
    EXCEEDED = "EXCEEDED"
    BESIDE = "beside"  # no tolerance has been set
    NOT_RUN = "not run"  # ours cannot be computed (yet): the reason stands in the row


class NotComputable(MonetError):
    """A figure needs a part of monet that is not there."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number somebody else published or measured. ``tolerance`` is relative; ``ours`` computes our value."""

    topic: str
    name: str
    unit: str
    published: float
    tolerance: float
    source: str
    ours: Callable[[], float]
    rule: Rule = Rule.WITHIN
    note: str = ""
    parts: Callable[[], str] | None = None  # what ours is made of, in words; asked for after ``ours``


@dataclass(frozen=True, slots=True)
class CheckedFigure:
    """A figure and what we got. ``ours`` and ``error`` are None where the figure could not be computed."""

    figure: Figure
    ours: float | None
    reason: str = ""
    parts: str = ""

    @property
    def error(self) -> float | None:
        """Ours against the published value, signed: +0.01 is one per cent more."""
        if self.ours is None:
            return None
        if self.figure.published == 0:
            return 0.0 if self.ours == 0 else float("inf")
        return self.ours / self.figure.published - 1

    @property
    def verdict(self) -> Verdict:
        """Whether the stated tolerance holds."""
        if self.error is None:
            return Verdict.NOT_RUN
        if self.figure.rule is Rule.BESIDE:
            return Verdict.BESIDE
        error = self.error if self.figure.rule is Rule.AT_MOST else abs(self.error)
        return Verdict.OK if error <= self.figure.tolerance + 1e-12 else Verdict.EXCEEDED

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        said = ("topic", "name", "unit", "source", "published", "rule", "tolerance", "note")
        ours = {
            "ours": self.ours,
            "error": self.error,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "parts": self.parts,
        }
        return {name: getattr(self.figure, name) for name in said} | ours


def check(figure: Figure) -> CheckedFigure:
    """Compute ours. A part that is missing, or an input that monet refuses, is a row that says so."""
    try:
        ours = float(figure.ours())
        return CheckedFigure(figure, ours, parts=figure.parts() if figure.parts else "")
    except MonetError as error:
        return CheckedFigure(figure, None, str(error).splitlines()[0])
