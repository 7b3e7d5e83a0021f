"""Headless Chromium for tests of the HTML report. Tests skip where there is none: monet does not need a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BINARY = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(
    not BINARY, reason="no chromium binary on PATH: the report is not tested in a browser"
)

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
)  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    dom: str
    console: tuple[str, ...]

    def data(self, name: str) -> str:
        """A ``data-*`` attribute of the body."""
        found = re.search(rf'<body[^>]*\bdata-{name}="([^"]*)"', self.dom)
        return found[1] if found else ""


def load(page: Path, profile: Path, width: int = 1400, height: int = 1000) -> Loaded:
    """The document after its scripts have run, and every line they wrote to the console."""
    result = subprocess.run(
        [BINARY, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    # the test's own measuring reads the canvas back, which the browser remarks on
    console = (line for line in result.stderr.splitlines() if "CONSOLE" in line and "Multiple readback" not in line)
    lines = tuple(console)
    assert result.stdout, f"chromium wrote nothing: {result.stderr[-500:]}"
    return Loaded(result.stdout, lines)
