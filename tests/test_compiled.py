"""Kernels: announced when compiled for the first time ever, loaded quietly afterwards, whoever compiled them; compiled
again when anything changes that goes into them, of any file, and not when anything else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from monet import commands, compiled
from monet.compiled import fingerprint
from monet.sources import PACKAGE

PART = """from monet.compiled import part
FACTOR = 3

@part(allocates=False)
def tripled(value):
    return FACTOR * value
"""
KERNEL = """from monet.compiled import kernel
from tripling import tripled

@kernel
def small(value: int) -> int:
    return tripled(value) + 1

def unrelated():
    return 1
"""
READING = """import numpy as np
from monet.arrays import I64
from monet.compiled import kernel, part

@part()
def read(values, at):
    return values[at]

@kernel
def reading(values: I64, at: int) -> int:
    return read(values, at)

for at in (0, 2, -1, 3):
    try:
        print(at, reading(np.arange(5, 8), at))
    except IndexError:
        print(at, "outside")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "tripling.py", PART)
    write(tmp_path / "small_kernel.py", KERNEL)
    return tmp_path


def write(path: Path, text: str) -> None:
    """Write a source that is as old as any, so that only what it says is new."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_000_000_000, 1_000_000_000))


def start(folder: Path, cache: str = "cache") -> subprocess.Popen[str]:
    paths = os.pathsep.join((str(PACKAGE.parent), str(folder)))
    environment = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / cache)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-c", "from small_kernel import small; print(small(7))"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(folder: Path, cache: str = "cache") -> tuple[int, bool]:
    """(what the kernel says, whether it was announced that it is compiled)."""
    said, announced = start(folder, cache).communicate()
    return int(said), "compiling the small kernel, once" in announced


def test_compiled_once_and_again_when_what_goes_into_it_changes(folder: Path) -> None:
    both = [start(folder), start(folder)]  # two processes at once do no harm
    for one in both:
        said, announced = one.communicate()
        assert (said, "compiling the small kernel, once" in announced) == ("22\n", True)
    assert run(folder) == (22, False)
    write(folder / "tripling.py", PART.replace("FACTOR = 3", "FACTOR = 4"))
    assert run(folder) == (29, True)
    write(folder / "tripling.py", PART + "\n\ndef more():\n    return 2\n")
    assert run(folder) == (22, False)  # it is there still


def test_nothing_can_be_kept_where_nothing_can_be_written(folder: Path) -> None:
    (folder / "file").write_text("", encoding="utf-8")
    assert run(folder, "file/cache") == (22, True)


def test_signature_and_options_are_part_of_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first = compiled._directory(rows_of, "int64(int64)")
    assert compiled._directory(rows_of, "int64(int64)") == first
    assert compiled._directory(rows_of, "int32(int64)") != first
    monkeypatch.setattr(compiled, "OPTIONS", compiled.OPTIONS | {"boundscheck": True})
    assert compiled._directory(rows_of, "int64(int64)") != first


def test_all_kernels_of_the_package_are_compiled_ahead() -> None:
    compiled._import_kernels()
    written = sum(path.read_text(encoding="utf-8").count("\n@kernel\n") for path in PACKAGE.rglob("*.py"))
    known = [function for function, _ in compiled._kernels.values() if function.__module__.startswith("monet.")]
    assert len(known) == written > 5


class Size(NamedTuple):
    rows: int
    columns: int


class Turned(NamedTuple):
    columns: int
    rows: int


def make(rows: int, columns: int) -> Size:
    return Size(rows, columns)


def rows_of(size: Any) -> Any:
    return size.rows


def columns_of(size: Any) -> Any:
    return size.columns


def test_the_digest_of_a_kernel_has_the_fields_it_reads_and_the_order_of_those_of_its_records() -> None:
    assert rows_of.__code__.co_code == columns_of.__code__.co_code
    assert fingerprint(rows_of) != fingerprint(columns_of)
    turned = FunctionType(make.__code__, {**globals(), "Size": Turned})
    assert fingerprint(make) != fingerprint(turned)
    assert fingerprint(make) == fingerprint(FunctionType(make.__code__, dict(globals())))


def test_the_command_line_compiles_all_kernels_where_one_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(compiled.subprocess, "run", lambda command, **_: ran.append(command))
    monkeypatch.setattr(compiled, "_ahead", True)
    monkeypatch.setattr("sys.stderr", sys.__stderr__)
    compiled._compile_all_first()
    assert not ran  # a library compiles what it needs
    monkeypatch.setattr(commands, "started", True)
    compiled._compile_all_first()
    compiled._compile_all_first()
    assert ran == [[sys.executable, "-m", "monet.compiled"]]


def checking_bounds(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder / "checked")}
    environment |= {"PYTHONPATH": os.pathsep.join((str(PACKAGE.parent), str(PACKAGE.parent.parent)))}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)


def test_an_index_below_zero_is_outside(tmp_path: Path) -> None:
    write(tmp_path / "reading.py", READING)
    said = checking_bounds(tmp_path, str(tmp_path / "reading.py"))
    assert said.stdout.splitlines() == ["0 5", "2 7", "-1 outside", "3 outside"], said.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    [
        "schedule/test_kernels.py",
        "schedule/test_several_drams.py",
        "mapping/test_tile_ranking.py",
        "distributed/test_pipeline.py",
    ],
)
def test_no_kernel_leaves_its_arrays(tests: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled kernels check no bounds; with them checked, what runs all of them runs as well."""
    folder = PACKAGE.parent.parent / "tests" / tests
    checked = tmp_path_factory.getbasetemp()  # compiled once for all of them
    said = checking_bounds(checked, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(folder))
    assert said.returncode == 0, said.stdout[-2000:] + said.stderr[-2000:]
