"""Dataclasses as plain values for JSON and back: derived from their fields, exact, the same keys as the field names."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

Value = TypeVar("Value")


def plain(value: Any) -> Any:
    """Dictionaries, lists, numbers and words for a dataclass, a mapping, a sequence, an array or a number."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def restored(kind: type[Value], values: Any) -> Value:
    """A value of type ``kind`` from ``plain``'s. Keys that a dataclass does not have are left out; a field that is not
    given takes its default, and is a ``KeyError`` if there is none."""
    known: Any = kind
    found: Value = _reader(known)(values)
    return found


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    if origin in (tuple, Sequence):
        each = _reader(inner[0])
        return lambda values: tuple(map(each, values))
    if origin is Mapping:
        each = _reader(inner[1])
        return lambda values: {key: each(item) for key, item in values.items()}
    if origin in (Union, types.UnionType):
        some = _reader(inner[0])
        return lambda value: None if value is None else some(value)
    if origin is np.ndarray:
        return _array
    return _LEAVES.get(kind, lambda value: value)


def _array(values: Any) -> Any:
    found = np.asarray(values)
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"whole numbers are expected, got {found.dtype}")
    return found.astype(np.int64)


def _leaf(kind: type, what: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        number = kind in (int, float) and isinstance(value, int | float) and not isinstance(value, bool)
        if not number and (kind in (int, float) or not isinstance(value, kind)):
            raise TypeError(f"{what} is expected, got {str(value)[:40]!r}")
        if number and (not math.isfinite(value) or (kind is int and value != int(value))):
            raise TypeError(f"{what} is expected, got {value}")
        return value

    return read


_LEAVES: dict[Any, Callable[[Any], Any]] = {
    int: _leaf(int, "a whole number"),
    float: _leaf(float, "a finite number"),
    str: _leaf(str, "a text"),
    bool: _leaf(bool, "true or false"),
}


def _dataclass_reader(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    known = [
        (field.name, _reader(hints[field.name]), field.default is field.default_factory is MISSING)
        for field in fields(kind)
    ]

    def read(values: Mapping[str, Any]) -> Any:
        if not isinstance(values, Mapping):
            raise TypeError(f"{kind.__name__}: an object is expected, got {type(values).__name__}")
        found = {}
        for name, of, needed in known:
            if not needed and name not in values:
                continue
            try:
                found[name] = of(values[name])
            except (TypeError, AttributeError, OverflowError) as error:
                raise TypeError(f"{kind.__name__}.{name}: {error}") from None
        return kind(**found)

    return read
