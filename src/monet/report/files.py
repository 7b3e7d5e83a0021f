"""Writing results: beside the target and renamed into place, so that nothing is ever half-written."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from monet.errors import MonetError


def check_outputs(files: dict[str, str], texts: dict[str, str], reads: Iterable[str] = ()) -> None:
    """Raise if what was asked for cannot be written, before hours of work: option → path, empty for none.

    Only ``texts`` may go to standard output (``-``), and only one of them. No file is written twice, and none that is
    read (``reads``: files, or anything else that was given in a file's place).
    """
    _check_distinct({option: path for option, path in (files | texts).items() if path and path != "-"}, reads)
    for option, path in files.items():
        if path == "-":
            raise MonetError(f"{option} -: this goes to a file, not to standard output; name one")
    piped = [option for option, path in texts.items() if path == "-"]
    if len(piped) > 1:
        raise MonetError(f"{' and '.join(piped)}: only one of them can go to standard output")
    for option, path in (files | texts).items():
        if not path or path == "-":
            continue
        if _is_special(Path(path)):
            continue
        folder = Path(path).parent
        if not folder.is_dir():
            raise MonetError(f"{option} {path}: there is no folder {str(folder)!r}")
        if Path(path).is_dir():
            raise MonetError(f"{option} {path}: that is a folder; name a file in it")
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            reason = error.strerror or error
            raise MonetError(f"{option} {path}: the folder {str(folder)!r} cannot be written to: {reason}") from None


def store_files(store: str, *beside: str) -> dict[str, str]:
    """A store and what lies beside it while it is written, for ``check_outputs``; ``beside``: ends of further ones."""
    whole = [f"{store}{end}" for end in ("", *beside)] if store else []
    return {f"--store {path}{end}": f"{path}{end}" for path in whole for end in ("", "-wal", "-shm")}


def _check_distinct(written: dict[str, str], reads: Iterable[str]) -> None:
    taken = {Path(path).resolve(): path for path in reads if path and Path(path).is_file()}
    before: dict[Path, str] = {}
    for option, path in written.items():
        target = Path(path).resolve()
        if _is_special(target):
            continue
        if target in taken:
            raise MonetError(f"{option} {path}: that is a file to read from; name another to write to")
        if target in before:
            raise MonetError(f"{before[target]} and {option} {path}: two things cannot be written to one file")
        before[target] = option


def _is_special(path: Path) -> bool:
    """Whether a path leads to a device or a pipe, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write ``data`` to ``path`` at once or not at all. A link is followed; a device or a pipe is written to as is."""
    target = Path(path)
    try:
        if _is_special(target):
            target.write_bytes(data)
            return
        target = target.resolve()
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
    """Write plain values and dataclasses as JSON to a file, or to standard output for ``-``."""
    from monet.schedule.result_json import plain  # loads NumPy, which a list needs not

    write_text(path, json.dumps(value, indent=2, default=plain) + "\n")
