"""A training step in WHAM's model: every operator whole, on one core of its kind, nothing fused.

An operator takes what its arithmetic takes of one core, with what an array cannot fill, or as long as DRAM gives what
it reads and takes what it writes at full bandwidth, whichever is longer. As soon as possible (ASAP) and as late as
possible (ALAP) are over the whole step: forward, backward, update. Their difference, the mobility, is 0 for what is
critical. The longest path is what no number of cores of that size can beat.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, I64
from monet.hardware.accelerator import Accelerator
from monet.hardware.core import Core
from monet.schedule.lower_bound.occupancy import classes_of, occupancies
from monet.schedule.workload import Operator, Workload

TICKS_PER_S = 1e10  # a tenth of a nanosecond: whole numbers, so that an exact solver sees the same problem


@dataclass(frozen=True, slots=True)
class Tasks:
    """Operators with what each takes, the kind of core it runs on, and what has to be done before it."""

    names: tuple[str, ...]
    ticks: I64
    kind: I64
    before: tuple[tuple[int, ...], ...]
    kinds: int

    def __len__(self) -> int:
        return len(self.names)

    def after(self) -> list[list[int]]:
        """Of each, what waits for it."""
        found: list[list[int]] = [[] for _ in self.before]
        for number, earlier in enumerate(self.before):
            for one in earlier:
                found[one].append(number)
        return found


def tasks_of(workload: Workload, cores: Sequence[Core], dram_bytes_per_s: float) -> Tasks:
    """The operators of a workload on one core each, of the kind that is done with it first."""
    classes = classes_of(workload)
    seconds = np.array([occupancies(classes, core) for core in cores])
    place = {operator.key: number for number, operator in enumerate(classes.operators)}
    kinds = np.argmin(seconds, axis=0)
    least = np.min(seconds, axis=0)
    least = np.where(np.isfinite(least), least, 0.0)
    each = np.maximum(least, classes.moved_bytes / dram_bytes_per_s)
    rows = [place[operator.key] for operator in workload.operators]
    ticks = np.maximum(1, np.ceil(each[rows] * TICKS_PER_S)).astype(np.int64)
    names = tuple(operator.op.name for operator in workload.operators)
    return Tasks(names, ticks, kinds[rows].astype(np.int64), dependencies(workload.operators), len(cores))


def tasks_on(workload: Workload, accelerator: Accelerator) -> tuple[Tasks, tuple[str, ...], tuple[int, ...]]:
    """The same for an accelerator: tasks, its kinds of core by the name of their first template, how many of each."""
    like = accelerator.like_cores
    cores = tuple(each[0].core for each in like)
    tasks = tasks_of(workload, cores, accelerator.dram.bandwidth_bytes_per_s)
    return tasks, tuple(each[0].template for each in like), tuple(map(len, like))


def dependencies(operators: Sequence[Operator]) -> tuple[tuple[int, ...], ...]:
    """What each operator waits for: the last to write what it touches; before it overwrites, those that read."""
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    found = []
    for number, operator in enumerate(operators):
        written = set(operator.written)
        waits = {writer[name] for name in operator.storages if name in writer}
        waits |= {reader for name in written for reader in readers.get(name, ())}
        found.append(tuple(sorted(waits - {number})))
        for name in operator.storages:
            if name not in written:
                readers.setdefault(name, []).append(number)
        for name in written:
            writer[name], readers[name] = number, []
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Criticality:
    """Earliest and latest starts with any number of cores, in ticks."""

    asap: I64
    alap: I64
    length: int

    @property
    def mobility(self) -> I64:
        """By how much a start may move; 0: critical."""
        return self.alap - self.asap


def criticality(tasks: Tasks) -> Criticality:
    """ASAP and ALAP over the whole step."""
    asap, tail = np.zeros(len(tasks), np.int64), np.zeros(len(tasks), np.int64)
    for number, earlier in enumerate(tasks.before):
        asap[number] = max((asap[one] + tasks.ticks[one] for one in earlier), default=0)
    for number in reversed(range(len(tasks))):
        tail[number] += tasks.ticks[number]
        for one in tasks.before[number]:
            tail[one] = max(tail[one], tail[number])
    length = int((asap + tasks.ticks).max(initial=0))
    return Criticality(asap, length - tail, length)


# --- on a number of cores ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """A list schedule: starts, when all is done, and by kind how long ready operators waited for a core, weighted by
    how critical they are."""

    start: I64
    makespan: int
    waited: F64


def list_schedule(tasks: Tasks, counts: Sequence[int], found: Criticality, after: list[list[int]]) -> Listed:
    """Ready operators take free cores of their kind, least latest start first."""
    missing = np.array([len(earlier) for earlier in tasks.before])
    ready_at, start = np.zeros(len(tasks), np.int64), np.zeros(len(tasks), np.int64)
    free, alap, ticks, kinds = list(counts), found.alap.tolist(), tasks.ticks.tolist(), tasks.kind.tolist()
    queues: list[list[tuple[int, int]]] = [[] for _ in counts]
    running: list[tuple[int, int]] = []
    for number in np.flatnonzero(missing == 0).tolist():
        heapq.heappush(queues[kinds[number]], (alap[number], number))
    now = 0
    while running or any(queues):
        for kind, queue in enumerate(queues):
            while queue and free[kind]:
                _, number = heapq.heappop(queue)
                free[kind] -= 1
                start[number] = now
                heapq.heappush(running, (now + ticks[number], number))
        now = running[0][0]
        while running and running[0][0] == now:
            _, number = heapq.heappop(running)
            free[kinds[number]] += 1
            for other in after[number]:
                missing[other] -= 1
                if not missing[other]:
                    ready_at[other] = now
                    heapq.heappush(queues[kinds[other]], (alap[other], other))
    weight = 1.0 - np.minimum(1.0, found.mobility / max(1, found.length))
    waited = np.bincount(tasks.kind, weight * (start - ready_at), minlength=len(counts)).astype(float)
    return Listed(start, int((start + tasks.ticks).max(initial=0)), waited)


def best_listed(tasks: Tasks, counts: Sequence[int], found: Criticality, after: list[list[int]]) -> Listed:
    """The shorter of the list schedules from the front and, mirrored in time, from the end."""
    forward = list_schedule(tasks, counts, found, after)
    if forward.makespan <= found.length:
        return forward
    mirrored = _mirrored(tasks, after)
    backward = list_schedule(mirrored, counts, criticality(mirrored), mirrored.after())
    if backward.makespan >= forward.makespan:
        return forward
    start = (backward.makespan - backward.start - mirrored.ticks)[::-1]
    return Listed(start, backward.makespan, backward.waited)


def _mirrored(tasks: Tasks, after: list[list[int]]) -> Tasks:
    """The same tasks with time running backwards: all that waits for one comes before it."""
    last = len(tasks) - 1
    before = tuple(tuple(sorted(last - other for other in after[last - number])) for number in range(len(tasks)))
    return Tasks(tasks.names[::-1], tasks.ticks[::-1], tasks.kind[::-1], before, tasks.kinds)
