"""Memory of schedules: arrays that are used again for every plan (memory that is new to the process costs more than
filling it), and no collector that looks through it meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from monet.arrays import Table

Rows = TypeVar("Rows", bound=Table)


class Workspace:
    """Uninitialised tables, kept as long as they are large enough. What is made in one is gone with the next plan, and
    one workspace serves one thread."""

    def __init__(self) -> None:
        self._tables: dict[type[Table], Table] = {}

    def table(self, kind: type[Rows], rows: int) -> Rows:
        """A table of so many rows."""
        found = self._tables.get(kind)
        if found is None or len(found) < rows:
            found = self._tables[kind] = kind.empty(rows + rows // 4)
        return cast(Rows, found[:rows])


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
