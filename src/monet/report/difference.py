"""What changed between two results: headline, phases, levels, operators, time, memory, inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from monet.report.info import time_partition
from monet.report.info.phases import MEASURES
from monet.schedule.result import Result

HEADLINE: tuple[tuple[str, str, Callable[[Result], float]], ...] = (
    ("latency_s", "s", lambda result: result.latency_s),
    ("cycles", "cycles", lambda result: result.cycles),
    ("energy_j", "J", lambda result: result.energy_j),
    ("throughput_per_s", "sample/s", lambda result: result.throughput_per_s),
    ("utilisation", "", lambda result: result.utilisation),
    ("dram read", "B", lambda result: result.dram_bytes.read),
    ("dram write", "B", lambda result: result.dram_bytes.write),
    ("lower bound of latency", "s", lambda result: result.bounds.latency_s),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of two results. ``ratio`` is second over first; None where the first is nought, the second not."""

    name: str
    unit: str
    first: float
    second: float
    ratio: float | None


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """What is compared of an operator."""

    span_s: float
    energy_j: float
    dram_bytes: int


@dataclass(frozen=True, slots=True)
class ComparedOperator:
    """An operator that both results have, with other figures."""

    name: str
    first: OperatorFigures
    second: OperatorFigures


def row(name: str, unit: str, first: float, second: float) -> Compared:
    """One compared figure."""
    return Compared(name, unit, first, second, 1.0 if first == second else second / first if first else None)


def _phases(first: Result, second: Result) -> list[Compared]:
    return [
        row(
            f"{phase} {measure.key.partition('_')[0]}",
            measure.unit,
            *(
                float(measure.value(result.phases[phase])) if phase in result.phases else 0.0
                for result in (first, second)
            ),
        )
        for phase in dict.fromkeys((*first.phases, *second.phases))
        for measure in MEASURES
        if measure.key != "operators"
    ]


def _table(first: Mapping[str, float], second: Mapping[str, float], unit: str) -> list[Compared]:
    names = dict.fromkeys((*first, *second))
    return [row(name, unit, float(first.get(name, 0)), float(second.get(name, 0))) for name in names]


def _operators(first: Result, second: Result) -> dict[str, Any]:
    """Matched by name. Changed ones come with their figures, largest change of time first."""
    before, after = (
        {
            operator.name: OperatorFigures(operator.latency_s, operator.energy_j, operator.dram_bytes)
            for operator in result.operators
        }
        for result in (first, second)
    )
    both = [name for name in before if name in after]
    changed = [ComparedOperator(name, before[name], after[name]) for name in both if before[name] != after[name]]
    changed.sort(key=lambda operator: (-abs(operator.second.span_s - operator.first.span_s), operator.name))
    return {
        "only_first": [name for name in before if name not in after],
        "only_second": [name for name in after if name not in before],
        "same": len(both) - len(changed),
        "changed": changed,
    }


def _shares(result: Result) -> dict[str, float]:
    return {time_partition.words(part): share for part, share in time_partition.shares(result).items()}


def unequal(first: Any, second: Any, path: str = "", limit: int = 200) -> list[tuple[str, Any, Any]]:
    """Places where two plain values differ: (path, first, second); None stands for absent."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        found: list[tuple[str, Any, Any]] = []
        for key in dict.fromkeys((*first, *second)):
            place = f"{path}.{key}" if path else str(key)
            found += unequal(first.get(key), second.get(key), place, limit - len(found))
            if len(found) >= limit:
                break
        return found
    if isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            return [(f"{path} (length)", len(first), len(second))]
        found = []
        for index, (before, after) in enumerate(zip(first, second, strict=True)):
            if before is not after and before != after:
                found += unequal(before, after, f"{path}[{index}]", limit - len(found))
            if len(found) >= limit:
                break
        return found
    return [] if first == second else [(path, first, second)]


def shortened(value: Any, most: int, absent: str) -> str:
    """A value in at most so many characters."""
    text = absent if value is None else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def info(first: Result, second: Result) -> dict[str, Any]:
    """Every comparison: lists of ``Compared``, operators apart."""
    inputs = unequal(first.to_json()["inputs"], second.to_json()["inputs"])
    return {
        "titles": [f"{result.model} on {result.hardware}" for result in (first, second)],
        "inputs": [{"path": path, "first": before, "second": after} for path, before, after in inputs],
        "headline": [row(name, unit, of(first), of(second)) for name, unit, of in HEADLINE],
        "phases": _phases(first, second),
        "energy_by_level": _table(first.energy_breakdown.by_level, second.energy_breakdown.by_level, "J"),
        "memory_peak": _table(
            {name: peak.total for name, peak in first.memory_peak_bytes.items()},
            {name: peak.total for name, peak in second.memory_peak_bytes.items()},
            "B",
        ),
        "time_partition": _table(_shares(first), _shares(second), "share"),
        "operators": _operators(first, second),
    }
