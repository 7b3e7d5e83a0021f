"""Results as JSON files: read with a clear error, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from monet.errors import MonetError
from monet.report.files import write_text
from monet.schedule.result import Result


def read_result(path: str) -> Result:
    """The result in a JSON file that ``monet run --json`` wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MonetError(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}") from None
    try:
        values: Any = json.loads(text)
    except ValueError as error:
        raise MonetError(f"{path}: not JSON: {error}") from None
    return result_from(values, path)


def result_from(values: Any, source: str) -> Result:
    """A result from plain values; anything else is an error that says what is missing."""
    wanted = [field.name for field in fields(Result) if field.name not in ("reason", "notes")]
    if not isinstance(values, dict):
        raise MonetError(f"{source}: not a result of monet run: a JSON object is expected")
    if missing := [key for key in wanted if key not in values]:
        raise MonetError(f"{source}: not a result of monet run: {', '.join(missing)} not in it")
    try:
        return Result.from_json(values)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise MonetError(
            f"{source}: a damaged result, or of another version: {type(error).__name__}: {error}"
        ) from None


def write_result(result: Result, path: str) -> None:
    """Write a result as JSON to a file, or to standard output for ``-``."""
    write_text(path, json.dumps(result.to_json(), separators=(",", ":")) + "\n")
