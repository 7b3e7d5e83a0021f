"""One store for all that is worth computing once: it is made by whoever asks for costs and passed down from there.

A store has *sections*, each declared beside what it holds (``Section``) and bounded in size. Keys are contents, never
identities, so a result does not depend on what was computed before; forgetting everything changes nothing but time.
Searches and the costs of matrix steps also last on disk, in one SQLite file of the directory that is named by the
digest of the sources. Several processes may use the file at once; one that cannot be used is ignored, never an error.

A key on disk is everything that a result depends on: the canonical nest (dimensions and operands by position, unit
dimensions dropped), the core's micro-architecture with its energies, what the border offers, objective, constraints.

What is remembered for a whole process besides the default store knows no cost; each is a pure function of immutable
values, and bounded. ``footprint.footprints`` and ``footprint.tables``: what a nest touches, asked for deep inside
frames, which have no store. ``phases.phases``: of a nest. ``spatial.factors``: of two numbers.
``lane_array.lane_array``: the lanes of a core as an array.
``resolve.same_core``, ``loop_nest.known_nest``: of equal cores, and nests, the first, so that keys with them are
compared by identity.
``work.top_ports``: ports of its top memories. ``geometry._part``: the nest of a step. ``workload._form``: what an
operator is, whatever its tensors are called. ``workload._number_of``: kinds of storages. ``plan.same_cores``: of equal
names of many cores the first.
``loading._read``: a preset, by time and size of its file. ``network._network``: links, and the ways over them.
``export.field_names``, ``options.options_of``, ``result_json._reader``, ``formats._numpy``: of types.
``formats._regrouped``, ``rates._listed_as``: of number formats.
``ports._level``, ``ports.port_of``: an endpoint as something that steps run on. ``pipeline._order``: which pass of a
pipeline comes when. ``collectives.collective_cost``: of a network, not of a core.
``gpu_operators._device``, ``distributed._result``, ``distributed.kept``: of published figures, for one validation.
``sources.source_digest``: of the code that is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Core
from monet.hardware.export import plain
from monet.sources import cache_directory, keep_newest, source_digest

V = TypeVar("V")
Stored = dict[str, Any]
MOST_DIGESTS = 6  # of sources whose costs are kept on disk
_NOTHING: Any = object()


@dataclass(frozen=True)
class Section(Generic[V]):
    """A kind of values in a store: its name, and how many it keeps; with a ``weight`` (bytes), how much of them."""

    name: str
    most: int
    weight: Callable[[V], int] | None = None


class Kept(Generic[V]):
    """A dictionary that forgets the older half of its values when they are more than it may keep."""

    def __init__(self, section: Section[V]) -> None:
        self._values: dict[Hashable, V] = {}
        self._section, self._weight = section, 0

    def get(self, key: Hashable) -> V | None:
        """The value of a key, if there is one."""
        return self._values.get(key)

    def keep(self, key: Hashable, value: V) -> V:
        """Keep a value, and return it."""
        weigh = self._section.weight
        self._weight += weigh(value) if weigh else 1
        if self._weight > self._section.most:
            for oldest in list(islice(self._values, (len(self._values) + 1) // 2)):
                del self._values[oldest]
            rest = self._values.values()
            self._weight = (sum(map(weigh, rest)) + weigh(value)) if weigh else len(rest) + 1
        self._values[key] = value
        return value

    def get_or(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of a key, computed and kept if there is none."""
        found: V = self._values.get(key, _NOTHING)
        return self.keep(key, compute()) if found is _NOTHING else found

    def __len__(self) -> int:
        return len(self._values)


CORES = Section[str]("digests of cores", 1024)
RESTS = Section[str]("digests of what else is in keys", 4096)
NESTS = Section[str]("digests of nests", 65536)


class Key(NamedTuple):
    """All that something depends on that lasts."""

    what: str
    nest: str  # a digest of it
    names: tuple[str, ...]  # of its dimensions and operands, where they matter
    core: Core
    rest: tuple[Hashable, ...]


class CostStore:
    """All that was computed so far, by section and content; ``path``: a SQLite file for what lasts, None for none."""

    def __init__(self, path: Path | None = None) -> None:
        self._sections: dict[str, Kept[Any]] = {}
        self._path, self._process = path, os.getpid()
        self._database: sqlite3.Connection | None = None
        self._numbers = 0
        self.hits = self.misses = 0  # of what lasts

    def __getitem__(self, section: Section[V]) -> Kept[V]:
        found = self._sections.get(section.name)
        if found is None:
            found = self._sections[section.name] = Kept(section)
        return found

    @property
    def lasts(self) -> bool:
        """Whether anything is kept on disk."""
        return self._path is not None

    def clear(self) -> None:
        """Forget what is in memory."""
        self._sections.clear()

    def next_number(self) -> int:
        """A number that this store gives to nothing else: short for a content that is slow to compare."""
        self._numbers += 1
        return self._numbers

    def lasting(
        self,
        section: Section[V],
        key: Key | str,
        compute: Callable[[], V],
        pack: Callable[[V], Stored],
        unpack: Callable[[Stored], V],
    ) -> V:
        """The value of a key, from memory or disk; computed, and kept in both, if there is none. On disk it is plain
        data: what ``pack`` makes of a value and ``unpack`` reads."""
        kept = self[section]
        found = kept.get(key)
        if found is None:
            stored = self._read(key)
            if stored is None:
                self.misses += 1
                found = compute()
                if self._path is not None:
                    self._write(key, pack(found))
                return kept.keep(key, found)
            found = kept.keep(key, unpack(stored))
        self.hits += 1
        return found

    def key(self, what: str, nest: LoopNest, core: Core, *rest: Hashable, by_name: bool = False) -> Key:
        """The key of something that lasts. ``by_name``: ``rest`` names dimensions or operands of the nest."""
        digest = self[NESTS].get_or(nest, lambda: _digest(json.dumps(plain((nest.canonical(), _order(nest))))))
        names: tuple[str, ...] = ()
        if by_name or any(axis.dims is not None for mode in core.modes for axis in mode.axes):
            names = (*(name for name, size in nest.dims if size > 1), *(operand.name for operand in nest.operands))
        return Key(what, digest, names, core, rest)

    def _text(self, key: Key | str) -> str:
        """A key as it is on disk."""
        if isinstance(key, str):
            return _digest(key)
        core = self[CORES].get_or(key.core, lambda: _json_digest(key.core))
        rest = self[RESTS].get_or(key.rest, lambda: _json_digest(key.rest))
        return _digest("\n".join((key.what, key.nest, core, rest, *key.names)))

    # --- on disk ------------------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection | None:
        if self._path is None:
            return None
        if self._database is None or self._process != os.getpid():  # connections do not survive a fork
            try:
                if not self._path.parent.is_dir():
                    keep_newest(self._path.parent.parent, MOST_DIGESTS - 1)
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                database = sqlite3.connect(self._path, timeout=10.0, isolation_level=None, check_same_thread=False)
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=OFF")
                database.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
            except (sqlite3.Error, OSError):
                self._path = None
                return None
            self._database, self._process = database, os.getpid()
        return self._database

    def _read(self, key: Key | str) -> Stored | None:
        database = self._connection()
        if database is None:
            return None
        try:
            row = database.execute("SELECT value FROM results WHERE key = ?", (self._text(key),)).fetchone()
            return json.loads(row[0]) if row else None
        except (sqlite3.Error, ValueError):
            return None

    def _write(self, key: Key | str, value: Stored) -> None:
        database = self._connection()
        if database is None:
            return
        try:
            database.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (self._text(key), json.dumps(value)))
        except sqlite3.Error:
            return


def stored_costs() -> CostStore:
    """A store on the user's disk, of these sources. MONET_CACHE=off: one in memory only."""
    if os.environ.get("MONET_CACHE", "").lower() in ("off", "0", "no"):
        return CostStore()
    return CostStore(cache_directory() / "costs" / source_digest() / "costs.sqlite")


_default: CostStore | None = None


def default_store() -> CostStore:
    """The store of whoever does not bring one: one for this process. Only the outermost calls ask for it."""
    global _default
    if _default is None:
        _default = stored_costs()
    return _default


# --- keys -------------------------------------------------------------------------------------------------------------


def _order(nest: LoopNest) -> list[int]:
    """Positions of a nest's dimensions in the order of their names, by which a search decides between equals."""
    kept = [name for name, size in nest.dims if size != 1]
    return sorted(range(len(kept)), key=kept.__getitem__)


def _json_digest(value: object) -> str:
    return _digest(json.dumps(plain(value), sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
