"""Arrays that are used again for every plan: memory that is new to the process costs more than filling it."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Workspace:
    """Uninitialised arrays by name, kept as long as they are large enough. What is made in one is gone with the next
    plan, and one workspace serves one thread."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def array(self, name: str, rows: int, columns: int) -> Array:
        """An array of so many rows of 64-bit integers."""
        found = self._arrays.get(name)
        if found is None or len(found) < rows:
            found = self._arrays[name] = np.empty((rows + rows // 4, columns), np.int64)
        return found[:rows]

    def copy(self, name: str, values: Array) -> Array:
        """A copy of a table."""
        target = self.array(name, len(values), values.shape[1])
        target[:] = values
        return target
