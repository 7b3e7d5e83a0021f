from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from monet.search.hardware.record import Record
from monet.search.hardware.store import Store, StoreError, open_store, read_store
from tests.search.evaluators import VERSION, metrics
from tests.search.spaces import grid


def opened(path: Path, *, resume: bool = False, version: str = VERSION) -> Store:
    return open_store(path, grid(3, 3), version, resume=resume)


def record(a: int, b: int) -> Record:
    values = {"a": a, "b": b}
    return Record(values, "ok", "", metrics(values), 0.5, 1, VERSION)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    bad = Record({"a": 3, "b": 1}, "infeasible", "constraint: area", {}, 0.0, 1, VERSION)
    with opened(tmp_path / "s") as store:
        for one in (record(2, 1), bad, record(1, 2)):
            store.finish(one)
        assert store.get(store.space.key({"a": 2, "b": 1})) == record(2, 1)
    with read_store(tmp_path / "s") as again:
        assert list(again.records()) == [record(1, 2), record(2, 1), bad]  # in the order of the parameters
        assert again.space.text == grid(3, 3).text


def test_the_first_record_of_a_point_stands(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        store.finish(record(1, 1))
        store.finish(Record({"a": 1, "b": 1}, "failed", "later"))
        assert list(store.records()) == [record(1, 1)]


def test_two_writers_share_the_points(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as first:
        keys = [first.space.key({"a": a, "b": 1}) for a in (1, 2, 3)]
        code = (
            "import sys; from pathlib import Path; from tests.search.test_hardware_store import opened\n"
            "store = opened(Path(sys.argv[1]), resume=True); print(store.claim(sys.argv[2:]), flush=True); input()"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "s"), *keys[:2]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline().strip() == str(keys[:2])
        assert first.claim(keys) == keys[2:]  # the other process is alive and has the first two
        other.kill()
        other.wait()
        assert first.claim(keys) == keys  # its claims died with it
        first.finish(record(1, 1))
        assert first.claim(keys) == keys[1:]


def test_a_store_is_not_overwritten_mixed_or_misread(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with opened(path) as store:
        store.finish(record(1, 1))
    with pytest.raises(StoreError, match="already holds 1 points; add --resume"):
        opened(path)
    with pytest.raises(StoreError, match="model version test, this is newer"):
        opened(path, resume=True, version="newer")
    with pytest.raises(StoreError, match=r"another space .*the base hardware differs"):
        open_store(path, grid(3, 3, set={"clock_hz": 1e9}), VERSION, resume=True)
    with open_store(path, grid(9, 9), VERSION, resume=True) as wider:  # more values, the same meaning
        assert len(wider) == 1
    (tmp_path / "text").write_text("not a database at all, but long enough to have a header" * 10)
    with pytest.raises(StoreError, match=r"not a store|cannot be opened"):
        opened(tmp_path / "text")
    with pytest.raises(StoreError, match="no such store"):
        read_store(tmp_path / "missing")
    with pytest.raises(StoreError, match="does not exist"):
        opened(tmp_path / "nowhere" / "s")


def test_the_file_is_plain_sqlite(tmp_path: Path) -> None:
    with opened(tmp_path / "s") as store:
        store.finish(record(2, 2))
    row = sqlite3.connect(tmp_path / "s").execute("SELECT parameters, status, metrics FROM points").fetchone()
    assert json.loads(row[0]) == {"a": 2, "b": 2}
    assert json.loads(row[2])["training.energy_j"] == pytest.approx(3 * 2.74)
