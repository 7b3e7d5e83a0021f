"""The pipeline of a training step: stages × micro-batches in time, under a named schedule.

GPipe: Huang et al., 2019. 1F1B: Narayanan et al., PipeDream, 2019. Interleaved: Narayanan et al., 2021. Zero-bubble: Qi
et al., 2023, whose gradients of weights fill the time in which a stage would wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from monet.arrays import F64, I64, F64x3
from monet.distributed.pipelines.pipeline_kernels import BACKWARD, FORWARD, WEIGHT, greedy_order, replay_tasks
from monet.errors import MonetError


@dataclass(frozen=True)
class PipelineWork:
    """What is to be done: seconds by kind (forward, backward, weight gradients), chunk and micro-batch.

    Chunk ``c`` lies on stage ``c % stages``. ``send_forward[c]``: seconds in which what chunk ``c`` hands on travels to
    the next; ``send_backward[c]``: to the one before. ``head``: seconds of each stage before its first forward pass;
    ``tail``: after its last backward pass (what is left of gradient synchronisation, the update).
    """

    stages: int
    seconds: F64x3
    send_forward: F64
    send_backward: F64
    head: F64
    tail: F64
    blocking: bool = False

    @property
    def chunks(self) -> int:
        """Chunks of layers, over all stages."""
        return int(self.seconds.shape[1])

    @property
    def micro_batches(self) -> int:
        """How often each chunk is passed."""
        return int(self.seconds.shape[2])

    def busy(self) -> F64:
        """Seconds in which each stage computes, tails and heads included."""
        by_chunk: F64 = self.seconds.sum(axis=(0, 2)).reshape(-1, self.stages).sum(axis=0)
        return by_chunk + (self.head + self.tail)


@dataclass(frozen=True)
class PipelineTimes:
    """When every task runs, by kind, chunk and micro-batch, and the step as a whole."""

    work: PipelineWork
    schedule: str
    start: F64x3
    end: F64x3
    done: F64  # by stage, tail included
    order: I64
    pointer: I64

    @property
    def seconds(self) -> float:
        """Of the step."""
        return float(self.done.max())

    @property
    def bubble(self) -> F64:
        """Seconds in which each stage waits."""
        return self.seconds - self.work.busy()

    def held(self) -> I64:
        """Most micro-batches that each chunk holds activations of at a time."""
        return held_micro_batches(self.order, self.pointer, self.work.chunks, self.work.micro_batches)


def simulate(work: PipelineWork, schedule: str = "1f1b") -> PipelineTimes:
    """The times of a step. Of zero-bubble orders the greedy one, or plain 1F1B where that is faster."""
    check_schedule(schedule, work.stages, work.chunks // work.stages, work.micro_batches)
    if schedule != "zero-bubble":
        return _timed(work, schedule, *_order(schedule, work.stages, work.chunks, work.micro_batches))
    plain = _timed(work, schedule, *_split_order(work.stages, work.micro_batches))
    order = np.empty(3 * work.stages * work.micro_batches, np.int64)
    most = np.full(work.stages, work.stages, np.int64)
    greedy_order(work.seconds, work.send_forward, work.send_backward, most, order)
    pointer = np.arange(work.stages + 1) * 3 * work.micro_batches
    greedy = _timed(work, schedule, order, pointer)
    return min(plain, greedy, key=lambda found: found.seconds)


def check_schedule(schedule: str, stages: int, chunks_per_stage: int, micro_batches: int) -> None:
    """Raise if a schedule does not go with these numbers."""
    if schedule == "zero-bubble" and chunks_per_stage > 1:
        raise MonetError(f"zero-bubble pipelines have one chunk a stage, not {chunks_per_stage}")
    if chunks_per_stage > 1 and micro_batches % stages:
        below = micro_batches // stages * stages
        near = f"{below} and {below + stages}" if below else f"{stages}"
        raise MonetError(
            f"an interleaved pipeline of {stages} stages needs micro-batches in multiples of {stages}, not "
            f"{micro_batches}; nearest: {near}"
        )


def _timed(work: PipelineWork, schedule: str, order: I64, pointer: I64) -> PipelineTimes:
    start, end = np.zeros(work.seconds.shape), np.zeros(work.seconds.shape)
    arguments = work.seconds, work.send_forward, work.send_backward, work.blocking, work.head, start, end
    if not replay_tasks(order, pointer, *arguments):
        raise MonetError(f"the stages of a {schedule} pipeline wait for each other")
    last = end.max(axis=(0, 2)).reshape(-1, work.stages).max(axis=0)
    return PipelineTimes(work, schedule, start, end, last + work.tail, order, pointer)


# --- orders ---------------------------------------------------------------------------------------------------------


def tasks_of(schedule: str, stages: int, chunks: int, micro_batches: int) -> list[list[tuple[bool, int, int]]]:
    """By stage its tasks in order: whether forward (or backward, all of it), of which chunk, of which micro-batch."""
    order, pointer = _order("gpipe" if schedule == "gpipe" else "1f1b", stages, chunks, micro_batches)
    found = []
    for stage in range(stages):
        own = order[pointer[stage] : pointer[stage + 1]]
        kind, chunk, micro = np.unravel_index(own, (2, chunks, micro_batches))
        found.append([(bool(k == FORWARD), int(c), int(m)) for k, c, m in zip(kind, chunk, micro, strict=True)])
    return found


def order_of(schedule: str, stages: int, chunks: int, micro_batches: int) -> tuple[I64, I64]:
    """Tasks of all stages, one after the other, and where those of each begin; of zero-bubble in their plain order."""
    check_schedule(schedule, stages, chunks // stages, micro_batches)
    if schedule == "zero-bubble":
        return _split_order(stages, micro_batches)
    return _order(schedule, stages, chunks, micro_batches)


@lru_cache(maxsize=256)
def _order(schedule: str, stages: int, chunks: int, micro_batches: int) -> tuple[I64, I64]:
    """Tasks of all stages, one after the other, and where those of each begin."""
    per_stage = chunks // stages
    count = micro_batches * per_stage
    turn = np.arange(count)
    if per_stage == 1:
        forward_chunk, backward_chunk, micro = np.zeros(count, np.int64), np.zeros(count, np.int64), turn
    else:  # groups of as many micro-batches as stages go through one chunk after the other
        forward_chunk = turn // stages % per_stage
        backward_chunk = per_stage - 1 - forward_chunk
        micro = turn // (stages * per_stage) * stages + turn % stages
    orders = []
    for stage in range(stages):
        forward = (FORWARD * chunks + forward_chunk * stages + stage) * micro_batches + micro
        backward = (BACKWARD * chunks + backward_chunk * stages + stage) * micro_batches + micro
        warm = count if schedule == "gpipe" else _warm_up(stage, stages, per_stage, count)
        order = np.empty(2 * count, np.int64)
        order[:warm] = forward[:warm]
        pairs = count - warm
        order[warm : warm + 2 * pairs : 2] = forward[warm:]
        order[warm + 1 : warm + 2 * pairs : 2] = backward[:pairs]
        order[warm + 2 * pairs :] = backward[pairs:]
        orders.append(order)
    return np.concatenate(orders), np.arange(stages + 1) * 2 * count


def _warm_up(stage: int, stages: int, per_stage: int, count: int) -> int:
    """Forward passes before the first backward one."""
    if per_stage == 1:
        return min(count, stages - stage - 1)
    return min(count, 2 * (stages - stage - 1) + (per_stage - 1) * stages)


def _split_order(stages: int, micro_batches: int) -> tuple[I64, I64]:
    """1F1B with the gradients of weights right after those of activations."""
    order, pointer = _order("1f1b", stages, stages, micro_batches)
    kinds = order // (stages * micro_batches)
    places = np.repeat(np.arange(len(order)), np.where(kinds == BACKWARD, 2, 1))
    found = order[places]
    again = np.r_[False, places[1:] == places[:-1]]
    found[again] += (WEIGHT - BACKWARD) * stages * micro_batches
    return found, pointer // 2 * 3


def held_micro_batches(order: I64, pointer: I64, chunks: int, micro_batches: int) -> I64:
    """Most micro-batches that a chunk holds between their forward pass and the end of their last backward one."""
    held, stages = np.zeros(chunks, np.int64), len(pointer) - 1
    for stage in range(stages):
        mine = order[pointer[stage] : pointer[stage + 1]]
        kinds, chunk = mine // (chunks * micro_batches), mine // micro_batches % chunks
        releases = WEIGHT if bool((kinds == WEIGHT).any()) else BACKWARD
        change = np.where(kinds == FORWARD, 1, np.where(kinds == releases, -1, 0))
        for each in range(stage, chunks, stages):
            held[each] = np.cumsum(change[chunk == each]).max(initial=0)
    return held
