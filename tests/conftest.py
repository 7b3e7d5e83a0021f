"""Tests never touch the user's costs: each session begins with none. Machine code of kernels is taken from where it
lies: it is named by a digest of what was compiled, so it cannot be stale either."""

import os
import shutil
import tempfile

from monet.sources import cache_directory

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers share what the session's first process has set
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_directory() / "kernels"))
    os.environ["MONET_CACHE_DIR"] = tempfile.mkdtemp(prefix="monet-tests-")


def pytest_unconfigure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["MONET_CACHE_DIR"], ignore_errors=True)
