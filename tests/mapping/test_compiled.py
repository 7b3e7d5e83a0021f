"""Kernels: announced when compiled for the first time ever, loaded quietly afterwards, ready before a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = "import monet.mapping.footprint; from monet.mapping.compiled import compile_kernels; compile_kernels()"


def test_says_that_it_compiles_once(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert "compiling the window_tables kernel, once" in runs[0].stderr
    assert runs[1].stderr == ""
