"""Values as plain JSON; of an accelerator, each core design once."""

from __future__ import annotations

import dataclasses
from enum import Enum
from functools import lru_cache
from typing import Any

from monet.hardware.accelerator import Accelerator, CoreInstance

ATOMS = frozenset({str, int, float, bool, type(None)})  # most values: plain as they are


def as_json(accelerator: Accelerator) -> dict[str, Any]:
    """Everything in an accelerator, ready for ``json.dumps``."""
    of_core = [name for name in field_names(CoreInstance) if name != "core"]
    cores = [
        {name: plain(getattr(instance, name)) for name in of_core} | {"memories": dict(instance.memories)}
        for instance in accelerator.cores
    ]
    names = (field.name for field in dataclasses.fields(accelerator) if field.init)
    values = {name: cores if name == "cores" else plain(getattr(accelerator, name)) for name in names}
    designs = {name: plain(core) for name, core in accelerator.designs.items()}
    return {"name": values.pop("name"), "designs": designs, **values}


@lru_cache(maxsize=256)
def field_names(kind: type) -> tuple[str, ...]:
    """Names of the fields of a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))


def plain(value: Any) -> Any:
    """A value as JSON that is the same in every process: sets sorted, dataclasses by field."""
    if type(value) in ATOMS:
        return value
    if type(value) is tuple:
        return [item if type(item) in ATOMS else plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in field_names(type(value))}
    if isinstance(value, frozenset | set):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in sorted(value.items())}
    return value
