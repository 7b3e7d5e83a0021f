"""Memory of a device over a step: what stays, activations of micro-batches under way, what the pass at hand takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from monet.arrays import F64, I64
from monet.distributed.memory.memory import ChunkMemory
from monet.distributed.pipelines.pipeline import PipelineTimes
from monet.distributed.pipelines.pipeline_kernels import BACKWARD, FORWARD, WEIGHT
from monet.distributed.result import StageMemory

MOST_POINTS = 4000


@dataclass(frozen=True)
class StagePeak:
    """Bytes by category at the fullest moment, and over time where that is asked for."""

    parts: dict[str, float]
    over_time: StageMemory | None = None
    host: float = 0.0  # at the host, for a device

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.parts.values())


def stage_peaks(
    memories: Sequence[ChunkMemory], order: I64, pointer: I64, micro_batches: int, times: PipelineTimes | None = None
) -> list[StagePeak]:
    """By stage, from the order of its tasks; with ``times`` also over time."""
    found, stages, chunks = [], len(pointer) - 1, len(memories)
    for stage in range(stages):
        tasks = order[pointer[stage] : pointer[stage + 1]]
        mine = memories[stage::stages]
        stays = {
            name: sum(memory.stays.get(name, 0.0) for memory in mine)
            for name in ("weights", "gradients", "optimizer_state")
        }
        held, passing, away = _by_task(tasks, memories, chunks, micro_batches)
        host = sum(memory.host_stays for memory in mine) + float(away.max(initial=0.0))
        # at the end all chunks have synchronised and updated one after the other
        last = max(memory.last for memory in mine)
        at = int(np.argmax(held + passing))
        parts = {**stays, "activations": float(held[at]), "workspace": max(0.0, float(passing[at]))}
        series = _series(stage, tasks, times, sum(stays.values()), held, passing, last) if times else None
        found.append(StagePeak(parts, series, host))
    return found


def _by_task(order: I64, memories: Sequence[ChunkMemory], chunks: int, micro_batches: int) -> tuple[F64, F64, F64]:
    """By task of a stage: activations held while it runs, its own included, what it works with beyond them, and what is
    at the host. In the last micro-batch gradients are synchronised while it goes back."""
    kind, chunk = order // (chunks * micro_batches), order // micro_batches % chunks
    saved = np.array([memory.saved for memory in memories])[chunk]
    forward = np.array([memory.forward + memory.leaving for memory in memories])[chunk]
    backward = np.array([memory.backward for memory in memories])[chunk]
    releases = WEIGHT if bool((kind == WEIGHT).any()) else BACKWARD

    def under_way(sizes: F64) -> F64:
        comes, goes = np.where(kind == FORWARD, sizes, 0.0), np.where(kind == releases, sizes, 0.0)
        return np.asarray(np.cumsum(comes) - (np.cumsum(goes) - goes))

    held, away = under_way(saved), under_way(np.array([memory.host_saved for memory in memories])[chunk])
    last = np.array([memory.last for memory in memories])[chunk]
    is_last = (kind == releases) & (order % micro_batches == micro_batches - 1)
    return held, np.where(kind == FORWARD, forward, np.where(is_last, last, backward)), away


def _series(
    stage: int, order: I64, times: PipelineTimes, stays: float, held: F64, passing: F64, last: float
) -> StageMemory:
    """Steps over time: from the start of each task, and from its end on."""
    kind, chunk, micro_batch = np.unravel_index(order, times.start.shape)
    start, end = times.start[kind, chunk, micro_batch], times.end[kind, chunk, micro_batch]
    moments = np.concatenate((np.column_stack((start, end)).ravel(), [times.done[stage]]))
    after = np.append(held[1:], 0.0)
    activations = np.concatenate((np.column_stack((held, np.minimum(held, after))).ravel(), [0.0]))
    workspace = np.concatenate((np.column_stack((passing, np.zeros(len(passing)))).ravel(), [0.0]))
    if len(workspace) > 2 and times.done[stage] > end[-1]:
        workspace[-2] = last
    keep = np.arange(len(moments)) if len(moments) <= MOST_POINTS else _thinned(activations + workspace)
    nanoseconds = np.round(moments[keep] * 1e9).astype(np.int64)
    return StageMemory(
        stage, nanoseconds, round(stays), np.round(activations[keep]).astype(np.int64),
        np.round(workspace[keep]).astype(np.int64),
    )  # fmt: skip


def _thinned(total: F64) -> I64:
    """Of every run of moments the fullest, and the first and last of all."""
    edges = np.unique(np.linspace(0, len(total), MOST_POINTS).astype(np.int64))
    picks = [begin + int(np.argmax(total[begin:end])) for begin, end in pairwise(edges.tolist())]
    return np.unique(np.array([0, *picks, len(total) - 1]))
