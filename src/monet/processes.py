"""This process among others: workers that end with it however it ends, and the memory that is free for it."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)


def usable_cores() -> int:
    """Cores of this computer that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def begin_worker(parent: int) -> None:
    """Called first in a worker: Ctrl-C is the main process's to answer, and its end, even by force, is this one's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(1)


@contextmanager
def workers(jobs: int, start: str = "fork") -> Iterator[Executor]:
    """Some processes to give work to. When the block is left by an error, an interrupt or a signal, they are ended at
    once; else when their work is done."""
    executor = ProcessPoolExecutor(
        jobs, multiprocessing.get_context(start), initializer=begin_worker, initargs=(os.getpid(),)
    )
    try:
        yield executor
    except BaseException:
        for process in list((executor._processes or {}).values()):
            process.kill()
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown(cancel_futures=True)


def free_memory_bytes() -> int | None:
    """Memory that this process may still take: of the computer, of its control group, of its own limit; None where the
    system does not say."""
    found = [*_of_computer(), *_of_group(), *_of_limit()]
    return min(found) if found else None


def _of_computer() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _of_group() -> Iterator[int]:
    folder = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        most = int((folder / "memory.max").read_text())
        yield max(0, most - int((folder / "memory.current").read_text()))


def _of_limit() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, ImportError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        if most != resource.RLIM_INFINITY:
            yield max(0, most - taken)
