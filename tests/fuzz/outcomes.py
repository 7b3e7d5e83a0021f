"""What a command may come to: a documented exit code, one message, nothing half-written, an end in good time."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from monet import cli

CODES = (0, 1, 2, 3, 130, 143)
SECONDS = 30.0


class Broken(AssertionError):
    """A command did what none may."""


def command(arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """Exit code and standard error of a command run in this process, in a folder; ``Broken`` if it misbehaves."""
    out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
    before, given = Path.cwd(), sys.argv
    os.chdir(folder)
    sys.argv = ["monet", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli._code()
    finally:
        sys.argv = given
        os.chdir(before)
    said = err.getvalue()
    words = " ".join(arguments)
    if code not in CODES or "Traceback" in said or "internal error" in said:
        raise Broken(f"monet {words}: exit code {code}: {said[-600:]}")
    if code == 2 and not said.strip():
        raise Broken(f"monet {words}: exit code 2 without a word")
    if time.monotonic() - began > SECONDS:
        raise Broken(f"monet {words}: {time.monotonic() - began:.0f} s")
    if left := [path.name for path in folder.iterdir() if path.name.startswith(".")]:
        raise Broken(f"monet {words}: left {left}")
    return code, said
