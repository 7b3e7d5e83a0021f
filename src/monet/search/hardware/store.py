"""The store: every point evaluated, in one SQLite file, with its figures or the reason why there are none.

A point is written in one transaction when it is done (write-ahead log), so a process killed at any moment loses only
what it was computing. Before a point is evaluated it is claimed; several processes may work on one store, and none
evaluates what another one has done or is doing. Claims of a process that is gone are void.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from monet.errors import MonetError
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space, space_from_text

FORMAT = 1
DAMAGED = (sqlite3.Error, UnicodeDecodeError)  # SQLite's own message may hold bytes of a damaged page
SILENCE_S = 60.0  # a process on another machine that has said nothing for this long is gone
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points (
  parameters TEXT PRIMARY KEY,   -- JSON object
  status TEXT NOT NULL,          -- ok, infeasible (the design cannot do it) or failed (the evaluation did not end)
  reason TEXT NOT NULL,
  metrics TEXT NOT NULL,         -- JSON object, figures with their unit in the name
  seconds REAL NOT NULL,         -- CPU time of the evaluation
  attempts INTEGER NOT NULL,
  version TEXT NOT NULL          -- of the cost model
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (parameters TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owners (owner TEXT PRIMARY KEY, seen REAL NOT NULL) WITHOUT ROWID;
"""


class StoreError(MonetError):
    """A store that is not there, is no store, or belongs to another space or model version."""


class Store:
    """An open store. Make one with ``open_store``."""

    def __init__(self, path: str | Path, database: sqlite3.Connection, space: Space, version: str) -> None:
        self.path, self.space, self.version = Path(path), space, version
        self._database = database
        self._owner = _this_process()

    def close(self) -> None:
        """Give up claims and close the file."""
        if self._writes("DELETE FROM claims WHERE owner = ?", (self._owner,)):
            self._writes("DELETE FROM owners WHERE owner = ?", (self._owner,))
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _writes(self, statement: str, values: Sequence[Any]) -> bool:
        try:
            self._database.execute(statement, values)
        except DAMAGED:
            return False  # a store opened for reading, on a medium that cannot be written
        return True

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM points").fetchone()[0])

    def get(self, key: str) -> Record | None:
        """The record of a point."""
        row = self._database.execute(f"{_SELECT} WHERE parameters = ?", (key,)).fetchone()
        return self._record(row) if row else None

    def records(self) -> Iterator[Record]:
        """Every record, in the order of the space's parameters."""
        try:
            rows = self._database.execute(_SELECT).fetchall()
        except DAMAGED as error:
            raise StoreError(f"{self.path}: damaged: {error}") from None
        places = [{value: n for n, value in enumerate(knob.values)} for knob in self.space.parameters]

        def place(record: Record) -> list[Any]:
            chosen = [record.values[parameter.name] for parameter in self.space.parameters]
            return [known.get(value, len(known)) for known, value in zip(places, chosen, strict=True)] + [str(chosen)]

        return iter(sorted(map(self._record, rows), key=place))

    def _record(self, row: Sequence[Any]) -> Record:
        """A row as a record; an error that names the point where someone has changed what cannot be changed."""
        try:
            record = Record(json.loads(row[0]), row[1], row[2], json.loads(row[3]), row[4], row[5], row[6])
            figures = [record.seconds, *record.metrics.values()]
            for parameter in self.space.parameters:
                record.values[parameter.name]
            if record.status not in ("ok", "infeasible", "failed"):
                raise ValueError(f"status {record.status!r}")
            if not all(isinstance(figure, int | float) and math.isfinite(figure) for figure in figures):
                raise ValueError("a figure that is no finite number")
            if record.ok:
                self.space.judged(record.metrics, self.space.objectives)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise StoreError(f"{self.path}: damaged at point {str(row[0])[:80]}: {what}") from None
        return record

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def claim(self, keys: Iterable[str]) -> list[str]:
        """Take points for this process; returns those that nobody has evaluated or is evaluating."""
        with self._transaction():
            self._say_alive()
            taken = dict(self._database.execute("SELECT parameters, owner FROM claims"))
            dead = {owner for owner in set(taken.values()) if not self._is_alive(owner)}
            free = []
            for key in keys:
                done = self._database.execute("SELECT 1 FROM points WHERE parameters = ?", (key,)).fetchone()
                if not done and taken.get(key, self._owner) in dead | {self._owner}:
                    free.append(key)
            claims = [(key, self._owner) for key in free]
            self._database.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?)", claims)
        return free

    def finish(self, record: Record) -> None:
        """Write a point and give up its claim, both or neither. The first record of a point stands."""
        key = self.space.key(record.values)
        with self._transaction():
            self._database.execute(
                "INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    key, record.status, record.reason, json.dumps(dict(record.metrics)), record.seconds,
                    record.attempts, record.version,
                ),
            )  # fmt: skip
            self._database.execute("DELETE FROM claims WHERE parameters = ?", (key,))
            self._say_alive()

    def say_alive(self) -> None:
        """Tell others that this process still works on its claims."""
        with self._transaction():
            self._say_alive()

    def _say_alive(self) -> None:
        self._database.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (self._owner, time.time()))

    def _is_alive(self, owner: str) -> bool:
        try:
            host, process, started = json.loads(owner)
        except (ValueError, TypeError):  # written by no process
            return False
        if host == socket.gethostname():
            return bool(started) and _started(process) == started
        row = self._database.execute("SELECT seen FROM owners WHERE owner = ?", (owner,)).fetchone()
        return bool(row and time.time() - row[0] < SILENCE_S)


_SELECT = "SELECT parameters, status, reason, metrics, seconds, attempts, version FROM points"


def _this_process() -> str:
    return json.dumps([socket.gethostname(), os.getpid(), _started(os.getpid())])


def _started(process: int) -> str:
    """When a process of this machine started, so that a reused number is not taken for it; empty if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:  # no /proc on this system: the number has to do
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "running"
    return "running"


def open_store(path: str | Path, space: Space, version: str, *, resume: bool) -> Store:
    """Make a store, or with ``resume`` go on with one.

    Refuses a store of another space, whose points mean something else, and one of another model version: figures of two
    cost models must not stand in one table.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise StoreError(f"{path}: the folder {str(target.parent)!r} does not exist")
    _refuse_foreign(path)
    database = _connect(path)
    try:
        database.executescript(_TABLES)
        database.execute("BEGIN IMMEDIATE")
        meta = dict(database.execute("SELECT name, value FROM meta"))
        count = database.execute("SELECT count(*) FROM points").fetchone()[0]
        _check(str(path), meta, int(count), space, version, resume)
        database.executemany(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)",
            {"format": str(FORMAT), "meaning": space.meaning, "space": space.text, "version": version}.items(),
        )
        database.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        database.close()
        raise StoreError(f"{path}: not a store of monet explore: {error}") from None
    except StoreError:
        database.close()
        raise
    return Store(path, database, space, version)


def _check(path: str, meta: Mapping[str, str], count: int, space: Space, version: str, resume: bool) -> None:
    if meta.get("format", str(FORMAT)) != str(FORMAT):
        raise StoreError(f"{path}: written in format {meta['format']}, this version reads format {FORMAT}")
    if count and not resume:
        raise StoreError(f"{path} already holds {count:,} points; add --resume to go on with it, or name another file")
    if count and (missing := sorted({"meaning", "space", "version"} - meta.keys())):
        raise StoreError(f"{path}: damaged: no {', '.join(missing)} in it")
    if count and meta["meaning"] != space.meaning:
        before = _space(path, meta)
        raise StoreError(
            f"{path} holds points of another space ({before.name}): {_differences(before, space)}; name another file"
        )
    if count and meta["version"] != version:
        raise StoreError(
            f"{path} holds {count:,} points costed by model version {meta['version']}, this is {version}; figures "
            "of two models cannot be compared, so name another file (monet explore export still reads the old one)"
        )


def _differences(before: Space, now: Space) -> str:
    old, new = before.decides, now.decides
    said = {
        "hardware": "the base hardware differs",
        "sets": "the parameters differ",
        "pipeline": "the system or plan differs",
    }
    found = [said.get(what, f"the {what} differ") for what in {**old, **new} if old.get(what) != new.get(what)]
    return " and ".join(found) or "it means something else"


def read_store(path: str | Path) -> Store:
    """Open a store to look at it, also on a medium that cannot be written; its space is inside."""
    if not Path(path).is_file():
        raise StoreError(f"{path}: no such store")
    _refuse_foreign(path)
    try:
        database = _connect(path)
        meta = dict(database.execute("SELECT name, value FROM meta"))
    except (*DAMAGED, StoreError):
        database = _copied(path)
        try:
            meta = dict(database.execute("SELECT name, value FROM meta"))
        except DAMAGED as error:
            database.close()
            raise StoreError(f"{path}: not a store of monet explore: {error}") from None
    if "space" not in meta:
        raise StoreError(f"{path}: an empty store")
    return Store(path, database, _space(path, meta), str(meta.get("version", "")))


def _space(path: str | Path, meta: Mapping[str, str]) -> Space:
    try:
        return space_from_text(meta["space"])
    except (MonetError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"{path}: damaged: its space cannot be read: {str(error).splitlines()[0]}") from None


def _refuse_foreign(path: str | Path) -> None:
    """Refuse a file with something else in it, before anything is written to it."""
    file = Path(path)
    if not file.is_file() or not file.stat().st_size:
        return
    try:
        database = sqlite3.connect(f"{file.resolve().as_uri()}?immutable=1", uri=True)
        with closing(database):
            tables = {str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except DAMAGED as error:
        raise StoreError(f"{path}: not a store of monet explore: {error}") from None
    ours = set(re.findall(r"EXISTS (\w+)", _TABLES))
    if others := sorted(tables - ours):
        raise StoreError(f"{path}: not a store of monet explore: a SQLite file with {', '.join(others[:3])} in it")


def _copied(path: str | Path) -> sqlite3.Connection:
    """A store in memory, read from a copy: where its folder cannot be written, neither can a log beside it."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal"):
            if (source := Path(f"{path}{suffix}")).is_file():
                shutil.copyfile(source, Path(folder) / f"store{suffix}")
        try:
            with closing(sqlite3.connect(Path(folder) / "store")) as beside:
                database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                beside.backup(database)
        except DAMAGED as error:
            raise StoreError(f"{path}: not a store of monet explore: {error}") from None
    return database


def _connect(path: str | Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
    except DAMAGED as error:
        raise StoreError(f"{path}: cannot be opened as a store: {error}") from None
    return database
