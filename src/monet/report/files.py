"""Writing results: beside the target and renamed into place, so that nothing is ever half-written."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from monet.errors import MonetError


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write ``data`` to ``path`` at once or not at all."""
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent or Path(), prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).chmod(0o644)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise MonetError(f"cannot write {str(target)!r}: {error.strerror or error}") from None


def write_text(path: str, text: str) -> None:
    """Write text to a file, or to standard output for ``-``."""
    if path == "-":
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        write_bytes(path, text.encode())


def write_json(path: str, value: Any) -> None:
    """Write JSON to a file, or to standard output for ``-``."""
    write_text(path, json.dumps(value, indent=2) + "\n")
