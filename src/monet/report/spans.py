"""When operators and phases run, as a result has it (``monet.schedule.measurement.spans`` says what counts)."""

from __future__ import annotations

from dataclasses import dataclass

from monet.schedule.result import Result


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in seconds."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def operator_spans(result: Result) -> dict[str, Span]:
    """Operator → its tiles, and the transfers right beside them."""
    return {str(row["name"]): Span(float(row["start_s"]), float(row["end_s"])) for row in result.operators}


def phase_spans(result: Result) -> dict[str, Span]:
    """Phase → from the first of its operators to the last."""
    return {name: Span(float(row["start_s"]), float(row["end_s"])) for name, row in result.phases.items()}
