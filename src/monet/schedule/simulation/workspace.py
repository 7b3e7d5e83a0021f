"""Memory of schedules: arrays that are used again for every plan (memory that is new to the process costs more than
filling it), and no collector that looks through it meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def without_collecting() -> Iterator[None]:
    """Leave cyclic garbage alone for a while. A schedule makes many small objects and no cycles: looking through all of
    them for garbage would take a tenth of its time, and more the larger the graph is."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
