"""Dataclasses as plain values for JSON and back: derived from their fields, exact, the same keys as the field names."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
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
    if isinstance(value, list | tuple):
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
    if origin is tuple:
        each = _reader(inner[0])
        return lambda values: tuple(map(each, values))
    if origin is Mapping:
        each = _reader(inner[1])
        return lambda values: {key: each(item) for key, item in values.items()}
    if origin in (Union, types.UnionType):
        some = _reader(inner[0])
        return lambda value: None if value is None else some(value)
    if origin is np.ndarray:
        return lambda values: np.array(values, np.int64)
    return lambda value: value


def _dataclass_reader(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    known = [
        (field.name, _reader(hints[field.name]), field.default is field.default_factory is MISSING)
        for field in fields(kind)
    ]

    def read(values: Mapping[str, Any]) -> Any:
        if not isinstance(values, Mapping):
            raise TypeError(f"{kind.__name__}: an object is expected, got {type(values).__name__}")
        return kind(**{name: of(values[name]) for name, of, needed in known if needed or name in values})

    return read
