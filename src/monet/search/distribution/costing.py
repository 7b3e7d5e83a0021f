"""Plans costed and bounded, here or in other processes: plans that cut a layer alike go to the same one, which then
knows what its layers take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from monet import processes
from monet.distributed.costs.chunk_costs import Coster, Least
from monet.distributed.evaluation import evaluate_plan, pipeline_of
from monet.distributed.layout import lay
from monet.distributed.memory.fitting import memory_of, short_by
from monet.distributed.pipelines.balance import laid_and_cut
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import DistributedResult
from monet.distributed.systems.network import Network
from monet.distributed.systems.system import Devices, System
from monet.errors import MonetError
from monet.schedule.engine import NoSchedule
from monet.search.distribution.bounds import Block

Layer = tuple[object, ...]


def layer_of(plan: ParallelPlan, batch: int) -> Layer:
    """What makes a layer of a plan what it is: plans that agree in it share its costs."""
    once, replicas = plan.micro_batches(batch) == 1, plan.data > 1
    cut = plan.tensor, plan.sequence_parallel, plan.tensor_split
    return *cut, str(plan.recompute), plan.activations_away, plan.micro_batch, once, replicas


@dataclass(frozen=True)
class Refused:
    """A plan that cannot be: the option that is to blame, and why."""

    option: str
    reason: str

    @classmethod
    def of(cls, error: MonetError) -> Refused:
        """From an error."""
        return cls(str(getattr(error, "option", "")), getattr(error, "reason", "") or str(error))

    def __str__(self) -> str:
        return f"{self.option}: {self.reason}".lstrip(": ")


@dataclass(frozen=True)
class Costing:
    """What is asked of plans of one model on one system, for a batch."""

    coster: Coster
    system: System
    batch: int
    model: str

    def floor(self, plan: ParallelPlan) -> Least:
        """Seconds of its blocks at least, without a schedule; replicas share nothing. Of the fastest device."""
        plan = replace(plan, shard="none")
        try:
            laid = lay(plan, self.system, self.batch)
            kinds = {device.key: device for device in laid.devices}.values()
            found = [self.coster.floor(plan, laid.network, device, laid.micro_batches) for device in kinds]
        except (MonetError, NoSchedule):
            return Least()  # whoever costs it says why it cannot be
        return Least(
            min(one.forward for one in found), min(one.backward for one in found), max(one.apart for one in found)
        )

    def ports(self, plan: ParallelPlan) -> tuple[float, float, float]:
        """Seconds that a block occupies the port to other replicas: in each pass, and once per step."""
        try:
            network = lay(plan, self.system, self.batch).network
            forward, backward = self.coster.block_port_seconds(plan, network)
            return forward, backward, self.coster.block_sync_seconds(plan, network)
        except MonetError:
            return 0.0, 0.0, 0.0

    def block(self, plan: ParallelPlan) -> Block:
        """Both passes of a block between others and of few, on the device that needs least."""
        try:
            laid = lay(plan, self.system, self.batch)
            kinds = {device.key: device for device in laid.devices}.values()
            found = [self._block(plan, laid.network, device, laid.micro_batches) for device in kinds]
        except (MonetError, NoSchedule):
            return Block(0.0, 0.0, 0.0, 0.0)
        return Block(*(min(values) for values in zip(*found, strict=True)))

    def _block(self, plan: ParallelPlan, network: Network, device: Devices, micro_batches: int) -> Block:
        between = self.coster.between(plan, network, device, micro_batches)
        return Block(*between, *self.coster.few(plan, network, device, micro_batches))

    def before_update(self, plan: ParallelPlan) -> float:
        """Seconds of all passes of a step: no less for the step."""
        try:
            laid = laid_and_cut(self.coster, plan, self.system, self.batch)
            chunks = self.coster.chunks(laid.plan, laid.network, laid.devices, laid.micro_batches, updates=False)
            return pipeline_of(laid, chunks).seconds
        except (MonetError, NoSchedule):
            return 0.0

    def cost(self, plan: ParallelPlan) -> DistributedResult | Refused:
        """What the step takes, or why not."""
        try:
            return evaluate_plan(
                self.coster, self.system, plan, self.batch, self.model, details=False, only_fitting=True
            )
        except MonetError as error:
            return Refused.of(error)

    def short_by(self, plan: ParallelPlan) -> float | Refused:
        """Bytes that the fullest device lacks; below zero where some are left."""
        try:
            laid = laid_and_cut(self.coster, plan, self.system, self.batch)
            return max(short_by(laid, memory_of(self.coster, laid)))
        except MonetError as error:
            return Refused.of(error)


_shared: Costing | None = None  # of a worker: what it was started with


def _asked(what: str, plan: ParallelPlan) -> Any:
    assert _shared is not None
    return getattr(_shared, what)(plan)


@dataclass
class Bench:
    """Asks about plans, several at a time: in this process, or in workers that each know some layers."""

    costing: Costing
    workers: Sequence[Executor]
    homes: dict[Layer, int]

    def ask(self, questions: Sequence[tuple[str, ParallelPlan]]) -> list[Any]:
        """Answers (methods of ``Costing`` by name), in order."""
        if not self.workers:
            return [getattr(self.costing, what)(plan) for what, plan in questions]
        waiting = [self._home(plan).submit(_asked, what, plan) for what, plan in questions]
        return [each.result() for each in waiting]

    def _home(self, plan: ParallelPlan) -> Executor:
        layer = layer_of(plan, self.costing.batch)[:-1]
        return self.workers[self.homes.setdefault(layer, len(self.homes)) % len(self.workers)]


@contextmanager
def bench(costing: Costing, jobs: int) -> Iterator[Bench]:
    """A bench with so many processes."""
    global _shared
    if jobs < 2:
        yield Bench(costing, (), {})
        return
    _shared = costing  # forked workers inherit it
    with ExitStack() as stack:
        yield Bench(costing, [stack.enter_context(processes.workers(1)) for _ in range(jobs)], {})
