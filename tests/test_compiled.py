"""Kernels: announced when compiled for the first time ever, loaded quietly afterwards, ready before a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from monet.compiled import fingerprint

PROGRAM = "import monet.mapping.nest.footprint; from monet.compiled import compile_kernels; compile_kernels()"


def test_says_that_it_compiles_once(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert "compiling the window_tables kernel, once" in runs[0].stderr
    assert runs[1].stderr == ""


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
