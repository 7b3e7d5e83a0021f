"""Memory of schedules: arrays that are used again for every plan (memory that is new to the process costs more than
filling it), and no collector that looks through it meanwhile."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from monet.arrays import Table

Rows = TypeVar("Rows", bound=Table)
# of a table that stays for the next plan; a part of it is ever filled: it has room for all that plans may need
MOST_BYTES = 512 * 2**20
MOST_SURVIVORS = 1_000_000  # objects that schedules leave behind before cyclic garbage is looked for


class Workspace:
    """Uninitialised tables, kept as long as they are large enough. What is made in one is gone with the next plan, and
    one workspace serves one thread."""

    def __init__(self) -> None:
        self._tables: dict[type[Table], Table] = {}

    def table(self, kind: type[Rows], rows: int) -> Rows:
        """A table of so many rows."""
        found = self._tables.get(kind)
        if found is None or len(found) < rows:
            found = kind.empty(rows + rows // 4)
            if found.nbytes <= MOST_BYTES:
                self._tables[kind] = found
        return cast(Rows, found.some(slice(rows)))

    def copy(self, table: Rows) -> Rows:
        """A table's rows, here."""
        found = self.table(type(table), len(table))
        found.plain[:] = table.plain
        return found


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.workspace, self.measured, self.survivors = Workspace(), Workspace(), 0


_mine = _OfThread()


def own_workspace() -> Workspace:
    """The workspace of this thread: scratch for one plan after another, of whatever graph and accelerator."""
    return _mine.workspace


def measured_workspace() -> Workspace:
    """Where this thread keeps a schedule from when it is timed until it is measured."""
    return _mine.measured


@contextmanager
def without_collecting() -> Iterator[None]:
    """Leave cyclic garbage alone for a while. A schedule makes many small objects and hardly a cycle: looking through
    all of them for garbage, at the end too, would take a tenth of its time, and more the larger the graph is. So what
    is left then counts as old at once, and is looked through only when much has come together."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _mine.survivors += gc.get_count()[0]
        if _mine.survivors < MOST_SURVIVORS:
            gc.freeze()
            gc.unfreeze()  # all that there is moves to the oldest generation
        else:
            _mine.survivors = 0
            gc.collect()
        gc.enable()
