"""Results as JSON files: read with a clear error, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from monet.distributed.result import DistributedResult
from monet.errors import MonetError
from monet.report.files import write_text
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES, EVENT_KINDS

LATER = (
    "reason",
    "notes",
    "longest_chain_s",
    "copies",
)  # what a result may lack: some were written before it was there


def read_result(path: str) -> Result:
    """The result in a JSON file that ``monet run --json`` wrote, of one device."""
    values = read_values(path)
    if is_distributed(values):
        raise MonetError(f"{path}: the result of a step over a system; monet diff and monet rerun read it")
    return result_from(values, path)


def read_any_result(path: str) -> Result | DistributedResult:
    """The result in a JSON file that ``monet run --json`` wrote, of one device or of a system."""
    values = read_values(path)
    if not is_distributed(values):
        return result_from(values, path)
    try:
        return DistributedResult.from_json(values)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise MonetError(f"{path}: a damaged result, or of another version: {type(error).__name__}: {error}") from None


def is_distributed(values: Any) -> bool:
    """Whether values are those of a step over a system."""
    return isinstance(values, dict) and "parallel" in values and "stages" in values


def read_values(path: str) -> Any:
    """What a JSON file holds."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MonetError(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}") from None
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MonetError(f"{path}: not JSON: {error}") from None
    return values


def result_from(values: Any, source: str) -> Result:
    """A result from plain values; anything else is an error that says what is missing."""
    wanted = [field.name for field in fields(Result) if field.name not in LATER]
    if not isinstance(values, dict):
        raise MonetError(f"{source}: not a result of monet run: a JSON object is expected")
    if missing := [key for key in wanted if key not in values]:
        raise MonetError(f"{source}: not a result of monet run: {', '.join(missing)} not in it")
    try:
        result = Result.from_json(values)
        _check(result)
        return result
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise MonetError(
            f"{source}: a damaged result, or of another version: {type(error).__name__}: {error}"
        ) from None


def _check(result: Result) -> None:
    """That the parts of a result belong together; a ``ValueError`` says which do not."""
    if not result.hardware_summary.drams:
        raise ValueError("hardware_summary.drams: at least one is expected")
    if result.ticks_per_second <= 0:
        raise ValueError("ticks_per_second: more than 0 is expected")
    if result.feasible and result.latency_s <= 0:
        raise ValueError("latency_s: more than 0 is expected of a feasible result")
    timeline = result.timeline
    columns = {"resource": len(timeline.resources), "operator": len(timeline.operators), "kind": len(EVENT_KINDS)}
    for name, most in {**columns, "start": None, "end": None}.items():
        array = getattr(timeline, name)
        if array.shape != timeline.start.shape:
            raise ValueError(f"timeline.{name}: {len(timeline.start)} numbers are expected")
        if len(array) and most is not None and (array.min() < -1 or array.max() >= most):
            raise ValueError(f"timeline.{name}: numbers up to {most - 1} are expected")
    for trace in result.memory:
        if not len(trace.time) or trace.bytes.shape != (len(CATEGORIES), len(trace.time)):
            raise ValueError(f"memory.{trace.name}: bytes of {len(CATEGORIES)} categories by time are expected")


def write_result(result: Result | DistributedResult, path: str) -> None:
    """Write a result as JSON to a file, or to standard output for ``-``."""
    write_text(path, json.dumps(result.to_json(), separators=(",", ":")) + "\n")
