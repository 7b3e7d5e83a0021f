"""An accelerator as plain JSON values; each core design is written once."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from monet.hardware.accelerator import Accelerator, CoreInstance


def as_json(accelerator: Accelerator) -> dict[str, Any]:
    """Everything in an accelerator, ready for ``json.dumps``."""
    plain = {field.name: _plain(getattr(accelerator, field.name)) for field in dataclasses.fields(accelerator)}
    designs = {name: _plain(core) for name, core in accelerator.designs.items()}
    return {"name": plain.pop("name"), "designs": designs, **plain}


def _plain(value: Any) -> Any:
    if isinstance(value, CoreInstance):
        names = (field.name for field in dataclasses.fields(value) if field.name != "core")
        return {name: _plain(getattr(value, name)) for name in names} | {"memories": dict(value.memories)}
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
