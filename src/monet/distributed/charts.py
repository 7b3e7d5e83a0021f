"""What is drawn of a result: every pass of the pipeline, and bytes from stage to stage."""

from __future__ import annotations

import numpy as np

from monet.distributed.layout import Laid
from monet.distributed.pipelines.pipeline import PipelineTimes
from monet.distributed.pipelines.pipeline_kernels import WEIGHT
from monet.distributed.result import TASKS, DistributedResult, PipelineChart


def chart_of(times: PipelineTimes) -> PipelineChart:
    """Every pass, in the order of stages; what comes after the last one (gradients that are still under way, the
    update) as a pass of no micro-batch."""
    stages = times.work.stages
    kind, chunk, micro_batch = np.unravel_index(times.order, times.start.shape)
    start, end = times.start[kind, chunk, micro_batch], times.end[kind, chunk, micro_batch]
    there = (kind != WEIGHT) | (end > start)
    update_from = times.done - times.work.tail
    none = np.full(stages, -1)
    return PipelineChart(
        np.concatenate((chunk[there] % stages, np.arange(stages))),
        np.concatenate((chunk[there], none)),
        np.concatenate((micro_batch[there], none)),
        np.concatenate((kind[there], np.full(stages, len(TASKS) - 1))),
        _nanoseconds(np.concatenate((start[there], update_from))),
        _nanoseconds(np.concatenate((end[there], times.done))),
    )


def _nanoseconds(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.round(seconds * 1e9).astype(np.int64)


def matrix_of(result: DistributedResult, laid: Laid) -> tuple[tuple[float, ...], ...]:
    """Bytes that the devices of a stage send to those of another in a step; inside a stage on the diagonal."""
    stages = laid.plan.pipeline
    table = np.zeros((stages, stages))
    for row in result.communication:
        if row.group in ("tensor", "data"):
            table[np.diag_indices(stages)] += row.total_bytes / stages
        elif row.group == "tied" and stages > 1:
            table[0, -1] += row.total_bytes / 2
            table[-1, 0] += row.total_bytes / 2
        elif row.group == "pipeline" and stages > 1:
            each = row.total_bytes / (2 * (stages - 1))
            for stage in range(stages - 1):
                table[stage, stage + 1] += each
                table[stage + 1, stage] += each
    return tuple(tuple(float(value) for value in line) for line in table)
