"""Results of searches, kept by content: in memory, and in one SQLite file of the user's cache directory.

The key is everything a result depends on: the canonical nest (dimensions and operands by position, unit dimensions
dropped), the core's micro-architecture with its energies, what the border offers, objective, constraints, and the
version of the cost model. Several processes may use the file at once; a file that cannot be used is ignored, never
an error.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Hashable
from enum import Enum
from functools import cache, lru_cache
from typing import Any

from monet.compiled import user_cache_directory
from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import Core

MODEL_VERSION = 7  # raise it with every change of a cost, a search space or a stored form
MOST_IN_MEMORY = 100_000
ATOMS = frozenset({str, int, float, bool, type(None)})  # most values: plain as they are

Stored = dict[str, Any]


@cache
def _names(kind: type) -> tuple[str, ...]:
    """Names of the fields of a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))


def plain(value: Any) -> Any:
    """A value as JSON that is the same in every process: sets sorted, dataclasses by field."""
    if type(value) in ATOMS:
        return value
    if type(value) is tuple:
        return [one if type(one) in ATOMS else plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, frozenset | set):
        return sorted((plain(one) for one in value), key=repr)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in sorted(value.items())}
    return value


@lru_cache(maxsize=4096, typed=True)
def _text(value: Hashable) -> str:
    """A part of many keys as text; it has no line breaks."""
    return json.dumps(plain(value), sort_keys=True)


@lru_cache(maxsize=1024)
def core_fingerprint(core: Core) -> str:
    """Hash of everything about a core."""
    return hashlib.sha256(json.dumps(plain(core), sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=65536)
def nest_fingerprint(nest: LoopNest) -> str:
    """Hash of a canonical nest."""
    return hashlib.sha256(json.dumps(plain(nest.canonical())).encode()).hexdigest()


def key_of(what: str, nest: LoopNest, core: Core, *rest: Hashable) -> str:
    """The content key of a result."""
    wired = any(axis.dims is not None for mode in core.modes for axis in mode.axes)
    names = [name for name, size in nest.dims if size > 1] if wired else []  # axes ask for dimensions by name
    parts = (what, str(MODEL_VERSION), nest_fingerprint(nest), repr(names), core_fingerprint(core), *map(_text, rest))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class ResultCache:
    """A dictionary in front of a SQLite table; ``path`` None keeps to memory."""

    def __init__(self, path: str | None) -> None:
        self._memory: dict[str, Stored] = {}
        self._path, self._process = path, os.getpid()
        self._database: sqlite3.Connection | None = None
        self.hits = self.misses = 0

    def get_or(self, key: str, compute: Callable[[], Stored]) -> Stored:
        """The stored value of ``key``, computed and stored if there is none."""
        found = self._memory.get(key)
        if found is None:
            found = self._read(key)
        if found is not None:
            self.hits += 1
        else:
            self.misses += 1
            found = compute()
            self._write(key, found)
        if len(self._memory) >= MOST_IN_MEMORY:
            self._memory.clear()
        self._memory[key] = found
        return found

    def clear(self) -> None:
        """Forget what is in memory."""
        self._memory.clear()

    def _connection(self) -> sqlite3.Connection | None:
        if self._path is None:
            return None
        if self._database is None or self._process != os.getpid():  # connections do not survive a fork
            try:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                database = sqlite3.connect(self._path, timeout=10.0, isolation_level=None, check_same_thread=False)
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=OFF")
                database.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
            except (sqlite3.Error, OSError):
                self._path = None
                return None
            self._database, self._process = database, os.getpid()
        return self._database

    def _read(self, key: str) -> Stored | None:
        database = self._connection()
        if database is None:
            return None
        try:
            row = database.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
            return json.loads(row[0]) if row else None
        except (sqlite3.Error, ValueError):
            return None

    def _write(self, key: str, value: Stored) -> None:
        database = self._connection()
        if database is None:
            return
        try:
            database.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, json.dumps(value)))
        except sqlite3.Error:
            return


_default: ResultCache | None = None


def default_cache() -> ResultCache:
    """The process-wide cache. MONET_CACHE=off keeps it in memory only."""
    global _default
    if _default is None:
        in_memory = os.environ.get("MONET_CACHE", "").lower() in ("off", "0", "no")
        path = None if in_memory else str(user_cache_directory() / f"mappings-{MODEL_VERSION}.sqlite")
        _default = ResultCache(path)
    return _default
