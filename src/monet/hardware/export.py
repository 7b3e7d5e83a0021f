"""An accelerator as plain JSON values; each core design is written once."""

from __future__ import annotations

import dataclasses
from enum import Enum
from functools import lru_cache
from typing import Any

from monet.hardware.accelerator import Accelerator, CoreInstance

ATOMS = frozenset({str, int, float, bool, type(None)})  # most values: plain as they are


def as_json(accelerator: Accelerator) -> dict[str, Any]:
    """Everything in an accelerator, ready for ``json.dumps``."""
    plain = {
        field.name: _plain(getattr(accelerator, field.name)) for field in dataclasses.fields(accelerator) if field.init
    }
    designs = {name: _plain(core) for name, core in accelerator.designs.items()}
    return {"name": plain.pop("name"), "designs": designs, **plain}


@lru_cache(maxsize=256)
def field_names(kind: type) -> tuple[str, ...]:
    """Names of the fields of a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _plain(value: Any) -> Any:
    if type(value) in ATOMS:
        return value
    if type(value) is tuple:
        return [item if type(item) in ATOMS else _plain(item) for item in value]
    if isinstance(value, CoreInstance):
        names = (name for name in field_names(CoreInstance) if name != "core")
        return {name: _plain(getattr(value, name)) for name in names} | {"memories": dict(value.memories)}
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in field_names(type(value))}
    if isinstance(value, frozenset):
        return sorted(_plain(item) for item in value)
    return value
