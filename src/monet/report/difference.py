"""What changed between two results: headline, phases, levels, operators, time, memory, inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monet.report.html import time_partition
from monet.report.spans import operator_spans, phase_spans
from monet.schedule.result import Result

HEADLINE = (
    ("latency_s", "s"),
    ("cycles", "cycles"),
    ("energy_j", "J"),
    ("throughput_per_s", "sample/s"),
    ("utilisation", ""),
)
PHASE_FIELDS = (("span_s", "s"), ("busy_s", "s"), ("energy_j", "J"), ("dram_bytes", "B"), ("macs", "MAC"))


def row(name: str, unit: str, first: float, second: float) -> dict[str, Any]:
    """One compared figure. ``ratio`` is second over first; None where the first is nought and the second is not."""
    ratio = 1.0 if first == second else second / first if first else None
    return {"name": name, "unit": unit, "first": first, "second": second, "ratio": ratio}


def _headline(first: Result, second: Result) -> list[dict[str, Any]]:
    rows = [row(name, unit, getattr(first, name), getattr(second, name)) for name, unit in HEADLINE]
    rows += [row(f"dram {part}", "B", first.dram_bytes[part], second.dram_bytes[part]) for part in ("read", "write")]
    rows.append(row("lower bound of latency", "s", first.bounds.latency_s, second.bounds.latency_s))
    return rows


def _phase_value(result: Result, phase: str, field: str) -> float:
    values = result.phases.get(phase)
    if values is None:
        return 0.0
    return phase_spans(result)[phase].seconds if field == "span_s" else float(values[field])


def _label(phase: str, field: str) -> str:
    return f"{phase} {(field.rpartition('_')[0] or field).replace('_', ' ')}"


def _phases(first: Result, second: Result) -> list[dict[str, Any]]:
    names = dict.fromkeys((*first.phases, *second.phases))
    return [
        row(_label(phase, field), unit, _phase_value(first, phase, field), _phase_value(second, phase, field))
        for phase in names
        for field, unit in PHASE_FIELDS
    ]


def _table(first: Mapping[str, float], second: Mapping[str, float], unit: str) -> list[dict[str, Any]]:
    names = dict.fromkeys((*first, *second))
    return [row(name, unit, float(first.get(name, 0)), float(second.get(name, 0))) for name in names]


def _operators(first: Result, second: Result) -> dict[str, Any]:
    """Matched by name. Changed ones come with their figures, largest change of time first."""
    before, after = (
        {one["name"]: _figures(one, spans[one["name"]].seconds) for one in result.operators}
        for result, spans in ((first, operator_spans(first)), (second, operator_spans(second)))
    )
    both = [name for name in before if name in after]
    changed = [
        {"name": name, "first": before[name], "second": after[name]} for name in both if before[name] != after[name]
    ]
    changed.sort(key=lambda one: (-abs(one["second"]["span_s"] - one["first"]["span_s"]), one["name"]))
    return {
        "only_first": [name for name in before if name not in after],
        "only_second": [name for name in after if name not in before],
        "same": len(both) - len(changed),
        "changed": changed,
    }


def _figures(operator: Mapping[str, Any], took: float) -> dict[str, float]:
    moved = operator["dram_read_bytes"] + operator["dram_write_bytes"]
    return {"span_s": took, "energy_j": operator["energy_j"], "dram_bytes": moved}


def _shares(result: Result) -> dict[str, float]:
    totals = time_partition.total(result)
    whole = sum(totals.values()) or 1
    return {time_partition.words(part): ticks / whole for part, ticks in totals.items()}


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
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            if one is not other and one != other:
                found += unequal(one, other, f"{path}[{index}]", limit - len(found))
            if len(found) >= limit:
                break
        return found
    return [] if first == second else [(path, first, second)]


def info(first: Result, second: Result) -> dict[str, Any]:
    """Every comparison as plain values: lists of ``row``, operators apart."""
    inputs = unequal(first.to_json()["inputs"], second.to_json()["inputs"])
    return {
        "titles": [f"{one.model} on {one.hardware}" for one in (first, second)],
        "inputs": [{"path": path, "first": one, "second": other} for path, one, other in inputs],
        "headline": _headline(first, second),
        "phases": _phases(first, second),
        "energy_by_level": _table(first.energy_breakdown["by_level"], second.energy_breakdown["by_level"], "J"),
        "memory_peak": _table(
            {name: peak["total"] for name, peak in first.memory_peak_bytes.items()},
            {name: peak["total"] for name, peak in second.memory_peak_bytes.items()},
            "B",
        ),
        "time_partition": _table(_shares(first), _shares(second), "share"),
        "operators": _operators(first, second),
    }
