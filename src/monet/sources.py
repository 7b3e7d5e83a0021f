"""Where monet keeps what it can compute again, and the digest of the sources that decided it.

Results on disk lie in a directory named by the digest of all source files that have a part in them, so that a change
of any of these finds nothing stale. Nobody has to raise a version.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
NO_PART = frozenset({"__pycache__", "cli.py", "commands", "report", "studies", "validation"})  # they ask and show only
SETTLED_S = 2.0  # a file changed more recently may change again within a tick of the file system's clock

_started = time.time()


def cache_directory() -> Path:
    """Where monet keeps what it can compute again: MONET_CACHE_DIR, else the platform's cache directory."""
    import platformdirs

    return Path(os.environ.get("MONET_CACHE_DIR") or platformdirs.user_cache_path("monet", appauthor=False))


@cache
def source_digest() -> str:
    """A digest of the sources that this process runs, looked at once: it does not load them again either."""
    return digest_of(PACKAGE)


def digest_of(package: Path) -> str:
    """A digest of the contents of all files of a package that have a part in a figure: code (.py) and tables (.yaml).

    Found again by names, sizes and times of all files, without reading them. Sources that changed after this process
    started are not those that it runs: their digest is nobody else's.
    """
    files = sorted(_files(package))
    listed = "\n".join(f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in files)
    newest = max((found.st_mtime for _, found in files), default=0.0)
    if newest > _started:
        return _short(f"{listed} {os.getpid()} {_started}")
    known = cache_directory() / "sources" / _short(f"{package} {listed}")
    try:
        return known.read_text(encoding="ascii")
    except OSError:
        pass
    contents = hashlib.sha256()
    for name, _ in files:
        contents.update(f"{name}\n".encode() + hashlib.sha256((package / name).read_bytes()).digest())
    digest = contents.hexdigest()[:16]
    if _started - newest > SETTLED_S:
        _note(known, digest)
    return digest


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _files(package: Path) -> Iterator[tuple[str, os.stat_result]]:
    """(name from the package on, what the file system says of it) of every source file."""
    todo = [""]
    while todo:
        folder = todo.pop()
        for entry in os.scandir(package / folder):
            name = folder + entry.name
            if entry.name in NO_PART and (not folder or entry.name == "__pycache__"):
                continue
            if entry.name.endswith((".py", ".yaml")):
                yield name, entry.stat()
            elif entry.is_dir():
                todo.append(f"{name}/")


def _note(path: Path, text: str) -> None:
    """Write a small file whole; several processes may, and what cannot be written is not needed."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        keep_newest(path.parent, 32)
        draft.write_text(text, encoding="ascii")
        draft.replace(path)
    except OSError:
        return


def keep_newest(folder: Path, most: int) -> None:
    """Delete all but the newest entries of a folder: what older sources have left."""
    try:
        found = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    except OSError:
        return
    for entry in found[most:]:
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
