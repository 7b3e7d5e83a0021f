"""Registry: a table that fills itself as modules are imported, by decorated functions and by rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


class Registry(dict[str, T]):
    """Entries by name; ``what`` says what the names are of."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def entry(self, *names: str) -> Callable[[T], T]:
        """Register the decorated function under ``names``, none of which may be taken."""

        def register(entry: T) -> T:
            for name in names:
                if name in self:
                    raise ValueError(f"{self.what} {name!r} is registered twice")
                self[name] = entry
            return entry

        return register

    def rows(self, rows: Mapping[str, T]) -> None:
        """Register entries of one expression each; a row begins with its names, separated by spaces."""
        for names, entry in rows.items():
            self.entry(*names.split())(entry)
