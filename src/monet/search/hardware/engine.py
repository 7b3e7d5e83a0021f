"""Evaluating points on any ``concurrent.futures.Executor``: threads of this machine (each with a process of its own)
by default, a Dask cluster's workers otherwise. No point is evaluated twice, none brings the run down."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from monet.errors import MonetError
from monet.search.hardware.record import Record
from monet.search.hardware.store import Store

EVALUATE = "monet.search.hardware.evaluation:evaluate"
START_S = 900.0  # a process may have to compile kernels first
POLL_S = 0.2
ALIVE_S = 10.0
LARGE_BYTES = 2**30  # a process that has grown beyond this is replaced after its point


@dataclass(frozen=True, slots=True)
class Task:
    """One point for a worker, whole: it may run on another machine."""

    space: str
    values: Mapping[str, Any]
    function: str
    timeout_s: float
    memory_bytes: int
    version: str


# --- on the worker's side ---------------------------------------------------------------------------------------------


class _Ended(Exception):
    """The process that evaluated a point is no more; says why."""


class _Child:
    """A process that evaluates points one after another."""

    def __init__(self, task: Task) -> None:
        self.kind = (task.function, task.memory_bytes)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        path = os.pathsep.join(dict.fromkeys(folder or os.getcwd() for folder in sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "monet.search.hardware.worker", task.function, str(task.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **threads, "PYTHONPATH": path},
            text=True,
            start_new_session=True,  # Ctrl-C is for the coordinator, which ends its processes itself
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._line(START_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _line(self, timeout_s: float) -> str:
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise _Ended(f"no answer within {timeout_s:g} s") from None
        if not line:
            code = self._process.wait()
            raise _Ended(f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}")
        return line

    @property
    def ended(self) -> bool:
        """Whether it is gone: a process with nothing to do for a while ends itself."""
        return self._process.poll() is not None

    def ask(self, task: Task) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"space": task.space, "values": dict(task.values)}) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended; reading says how
        answer: dict[str, Any] = json.loads(self._line(task.timeout_s))
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue


class _Children(threading.local):
    """The process that belongs to each thread."""

    child: _Child | None = None


_own = _Children()
_all: list[_Child] = []
_starting = threading.Lock()  # one at a time: the first may have to compile what the others then load


def run_task(task: Task) -> Record:
    """Evaluate a point in this thread's process. If that dies, hangs or lacks memory: once more, then recorded."""
    reasons: list[str] = []
    began = time.process_time()
    for attempt in (1, 2):
        try:
            answer = _child(task).ask(task)
        except _Ended as error:
            answer = {"failed": str(error)}
        if "failed" not in answer:
            if answer.pop("resident_bytes") > LARGE_BYTES:
                _end_own()  # what it remembers of earlier designs is no use for later ones
            return Record(task.values, attempts=attempt, **answer)
        reasons.append(answer["failed"])
        _end_own()
    said = reasons[0] if len(set(reasons)) == 1 else f"{reasons[0]}, then {reasons[1]}"
    seconds = time.process_time() - began
    return Record(task.values, "failed", f"{said} (tried twice)", {}, seconds, 2, version=task.version)


def _child(task: Task) -> _Child:
    if _own.child is None or _own.child.ended or _own.child.kind != (task.function, task.memory_bytes):
        _end_own()
        with _starting:
            _own.child = _Child(task)
            _all.append(_own.child)
    return _own.child


def _end_own() -> None:
    if _own.child is not None:
        _own.child.end()
        if _own.child in _all:
            _all.remove(_own.child)
        _own.child = None


def end_children() -> None:
    """End the processes of all threads."""
    while _all:
        _all.pop().end()


# --- on the coordinator's side ----------------------------------------------------------------------------------------


@dataclass
class Engine:
    """Evaluates points of a store's space and keeps what comes back.

    ``make_executor`` makes the executor, again if it breaks. ``slots`` points are under way at once.
    ``timeout_s`` and ``memory_bytes`` (0: no limit) guard each point; what exceeds them is recorded as failed.
    """

    store: Store
    make_executor: Callable[[], Executor]
    slots: int = 2
    timeout_s: float = 600.0
    memory_bytes: int = 0
    function: str = EVALUATE

    def __post_init__(self) -> None:
        self._executor: Executor | None = None
        self._running: dict[Future[Record], str] = {}
        self._alive = time.monotonic()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything that is under way."""
        if self._executor is not None:
            for future in self._running:
                future.cancel()
            self._running.clear()
            end_children()
            self._executor.shutdown(wait=False)
            self._executor = None

    def evaluate(
        self, points: Sequence[Mapping[str, Any]], done: Callable[[Record], None] = lambda record: None
    ) -> list[Record]:
        """Records of the points in their order: from the store where it has them, else evaluated now.

        ``done`` is called with each record that was evaluated here, as it arrives.
        """
        key_of = self.store.space.key
        wanted = {key_of(point): point for point in points}
        found: dict[str, Record] = {}
        waiting = list(reversed(wanted))
        elsewhere: list[str] = []
        tried: dict[str, int] = {}
        try:
            while waiting or elsewhere or self._running:
                self._fill(wanted, waiting, elsewhere, found, tried)
                for key, record in self._finished(wanted, waiting, tried):
                    self.store.finish(record)
                    found[key] = self.store.get(key) or record
                    done(record)
                if elsewhere and not self._running:
                    time.sleep(POLL_S)
                    waiting, elsewhere = elsewhere, []
                self._say_alive()
        except BaseException:
            self.stop()
            raise
        return [found[key_of(point)] for point in points]

    def _fill(
        self,
        wanted: Mapping[str, Mapping[str, Any]],
        waiting: list[str],
        elsewhere: list[str],
        found: dict[str, Record],
        tried: dict[str, int],
    ) -> None:
        """Start as many points as there are slots."""
        while waiting and len(self._running) < self.slots:
            key = waiting.pop()
            record = self.store.get(key)
            if record is not None:
                found[key] = record
            elif self.store.claim([key]):
                self._running[self._submit(wanted[key])] = key
                tried[key] = tried.get(key, 0) + 1
            else:
                elsewhere.append(key)

    def _submit(self, point: Mapping[str, Any]) -> Future[Record]:
        store = self.store
        task = Task(store.space.text, dict(point), self.function, self.timeout_s, self.memory_bytes, store.version)
        for _ in range(2):
            if self._executor is None:
                self._executor = self.make_executor()
            try:
                return self._executor.submit(run_task, task)
            except RuntimeError:  # broken or shut down
                self._executor = None
        raise MonetError("the workers cannot be started: the executor takes no work")

    def _finished(
        self, wanted: Mapping[str, Mapping[str, Any]], waiting: list[str], tried: dict[str, int]
    ) -> list[tuple[str, Record]]:
        """What has come back. A point whose worker was lost with its machine goes back to the queue, once."""
        if not self._running:
            return []
        arrived, _ = wait(self._running, timeout=POLL_S, return_when=FIRST_COMPLETED)
        found = []
        for future in arrived:
            key = self._running.pop(future)
            try:
                found.append((key, future.result()))
            except (Exception, CancelledError, FutureTimeout) as error:
                if tried[key] < 2:
                    waiting.append(key)
                else:
                    reason = f"its worker was lost: {type(error).__name__}: {error} (tried twice)"
                    found.append((key, Record(wanted[key], "failed", reason, {}, 0.0, 2, self.store.version)))
        return found

    def _say_alive(self) -> None:
        if time.monotonic() - self._alive > ALIVE_S:
            self._alive = time.monotonic()
            self.store.say_alive()


@contextmanager
def local(jobs: int) -> Iterator[tuple[Callable[[], Executor], int]]:
    """Executors of this machine: one thread per job, each with a process."""
    yield (lambda: ThreadPoolExecutor(jobs, thread_name_prefix="explore")), jobs


@contextmanager
def cluster(address: str) -> Iterator[tuple[Callable[[], Executor], int]]:
    """Executors of a Dask cluster by the address of its scheduler, and the number of its threads."""
    try:
        from distributed import Client
    except ImportError:
        raise MonetError("--cluster needs Dask: pip install 'monet-train[cluster]'") from None
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise MonetError(f"--cluster {address}: no Dask scheduler answers there: {error}") from None
    threads = sum(client.nthreads().values())
    if not threads:
        client.close()
        raise MonetError(f"--cluster {address}: the scheduler has no workers; start some with: dask worker {address}")
    try:
        yield (lambda: client.get_executor(pure=False)), threads
    finally:
        client.close()
