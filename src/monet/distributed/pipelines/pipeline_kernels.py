"""Kernels of the pipeline: when every task of every stage runs, given the order of each stage; and a greedy order.

A task is a pass of one micro-batch through one chunk of layers: forward (0), backward (1), or of a split backward the
gradients of weights (2). Chunk ``c`` lies on stage ``c % stages``. Times are seconds.
"""

from __future__ import annotations

import numpy as np

from monet.arrays import F64, I64, F64x3
from monet.compiled import kernel

FORWARD, BACKWARD, WEIGHT = range(3)
NEVER = 1e300


@kernel
def replay_tasks(
    order: I64,
    pointer: I64,
    seconds: F64x3,
    send_forward: F64,
    send_backward: F64,
    blocking: bool,
    begin: F64,
    start: F64x3,
    end: F64x3,
) -> bool:
    """Fill in ``start`` and ``end`` by kind, chunk and micro-batch; False if the orders wait for each other.

    ``order`` holds tasks as ``(kind · chunks + chunk) · micro_batches + micro_batch``, those of stage ``s`` from
    ``pointer[s]`` on. A link carries one message at a time in each direction; ``blocking``: a stage waits until what it
    sends has arrived. ``begin``: when each stage may begin.
    """
    _, chunks, micro_batches = seconds.shape
    stages = len(pointer) - 1
    at, free = pointer[:stages].copy(), begin.copy()
    link_forward, link_backward = np.zeros(stages), np.zeros(stages)
    arrived = np.full((2, chunks, micro_batches), NEVER)
    left, moved = len(order), True
    while left > 0 and moved:
        moved = False
        for stage in range(stages):
            while at[stage] < pointer[stage + 1]:
                task = order[at[stage]]
                micro_batch = task % micro_batches
                chunk = (task // micro_batches) % chunks
                kind = task // (micro_batches * chunks)
                ready = 0.0
                if kind == FORWARD and chunk > 0:
                    ready = arrived[FORWARD, chunk - 1, micro_batch]
                elif kind == BACKWARD and chunk < chunks - 1:
                    ready = arrived[BACKWARD, chunk + 1, micro_batch]
                elif kind == BACKWARD:
                    ready = arrived[FORWARD, chunk, micro_batch]
                if ready >= NEVER:
                    break
                start[kind, chunk, micro_batch] = max(ready, free[stage])
                done = start[kind, chunk, micro_batch] + seconds[kind, chunk, micro_batch]
                end[kind, chunk, micro_batch] = done
                free[stage] = done
                if kind == FORWARD and chunk == chunks - 1:
                    arrived[FORWARD, chunk, micro_batch] = done
                elif kind == FORWARD:
                    gone = max(done, link_forward[stage]) + send_forward[chunk]
                    link_forward[stage] = gone
                    arrived[FORWARD, chunk, micro_batch] = gone
                    free[stage] = gone if blocking else done
                elif kind == BACKWARD and chunk > 0:
                    gone = max(done, link_backward[stage]) + send_backward[chunk]
                    link_backward[stage] = gone
                    arrived[BACKWARD, chunk, micro_batch] = gone
                    free[stage] = gone if blocking else done
                at[stage] += 1
                left -= 1
                moved = True
    return left == 0


@kernel
def greedy_order(seconds: F64x3, send_forward: F64, send_backward: F64, most: I64, order: I64) -> None:
    """One chunk a stage, gradients of weights apart: backward first, then forward, and weights where nothing is ready.

    ``most``: micro-batches that a stage may hold, from its forward pass until the gradients of its weights. Whatever
    can start first is taken next, so that all that has arrived by then is known.
    """
    _, stages, micro_batches = seconds.shape
    free = np.zeros(stages)
    done = np.zeros((3, stages), np.int64)
    here_forward = np.full((stages, micro_batches), NEVER)  # when the input of a pass is there
    here_backward = np.full((stages, micro_batches), NEVER)
    here_forward[0, :] = 0.0
    total = 3 * micro_batches
    for _step in range(stages * total):
        stage, kind, first = -1, -1, NEVER
        for each in range(stages):
            forward, backward, weight = done[0, each], done[1, each], done[2, each]
            at_forward = NEVER
            if forward < micro_batches and forward - weight < most[each]:
                at_forward = max(free[each], here_forward[each, forward])
            at_backward = max(free[each], here_backward[each, backward]) if backward < micro_batches else NEVER
            at_weight = free[each] if weight < backward else NEVER
            soonest = min(at_backward, at_forward, at_weight)
            if soonest < first:
                stage, first = each, soonest
                kind = BACKWARD if at_backward <= soonest else FORWARD if at_forward <= soonest else WEIGHT
        number = done[kind, stage]
        order[stage * total + done[:, stage].sum()] = (kind * stages + stage) * micro_batches + number
        done[kind, stage] += 1
        free[stage] = first + seconds[kind, stage, number]
        if kind == FORWARD:
            if stage == stages - 1:
                here_backward[stage, number] = free[stage]
            else:
                here_forward[stage + 1, number] = free[stage] + send_forward[stage]
        elif kind == BACKWARD and stage > 0:
            here_backward[stage - 1, number] = free[stage] + send_backward[stage]
