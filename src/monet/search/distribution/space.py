"""All parallel plans that are legal for a model, a batch and so many devices of a system."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from monet.distributed.plan import RECOMPUTATION, SHARDING, ParallelPlan


@dataclass(frozen=True, slots=True)
class PlanSpace:
    """What is searched: degrees that divide the devices, within these limits."""

    devices: int
    batch: int
    blocks: int  # layers, that stages have equally many of
    most_tensor: int
    most_micro_batch: int = 64
    most_interleave: int = 16
    sharding: tuple[str, ...] = SHARDING
    recomputation: tuple[str, ...] = RECOMPUTATION
    schedules: tuple[str, ...] = ("1f1b",)
    sequence_parallel: tuple[bool, ...] = (False, True)
    offloading: tuple[str, ...] = ("none",)

    def plans(self) -> Iterator[ParallelPlan]:
        """Every plan whose numbers divide; whether a layer can be cut so is the model's to say."""
        for tensor, pipeline in product(divisors(self.devices), divisors(self.blocks)):
            if tensor > self.most_tensor or self.devices % (tensor * pipeline):
                continue
            data = self.devices // (tensor * pipeline)
            if self.batch % data:
                continue
            for micro_batch in divisors(self.batch // data):
                if micro_batch <= self.most_micro_batch:
                    yield from self._variants(tensor, pipeline, data, micro_batch)

    def _variants(self, tensor: int, pipeline: int, data: int, micro_batch: int) -> Iterator[ParallelPlan]:
        micro_batches = self.batch // (data * micro_batch)
        chunks = [1]
        if pipeline > 1 and micro_batches % pipeline == 0:
            chunks = [number for number in divisors(self.blocks // pipeline) if number <= self.most_interleave]
        sharding = self.sharding if data > 1 else tuple(name for name in self.sharding if name == "none") or ("none",)
        sequence = tuple(each for each in self.sequence_parallel if tensor > 1 or not each) or (False,)
        schedules = self.schedules if pipeline > 1 else ("1f1b",)
        for shard, recompute, offload, parallel, schedule, interleave in product(
            sharding, self.recomputation, self.offloading, sequence, schedules, chunks
        ):
            if interleave > 1 and schedule != "1f1b":
                continue
            yield ParallelPlan(
                data=data, tensor=tensor, sequence_parallel=parallel, pipeline=pipeline, interleave=interleave,
                pipeline_schedule=schedule, shard=shard, micro_batch=micro_batch, recompute=recompute,
                offload=offload,
            )  # fmt: skip


def divisors(number: int) -> tuple[int, ...]:
    """All divisors, in order."""
    small = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return tuple(dict.fromkeys((*small, *(number // each for each in reversed(small)))))
