"""The best parallel plan: all legal ones, the most promising first, until none that is left can be better.

Bounds are below what plans cost, so what is left out would not have been chosen: the answer is that of costing all. A
first bound is arithmetic; a closer one takes the time of a layer between others, which plans share.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from monet.distributed.chunk_costs import Coster
from monet.distributed.evaluation import evaluate_plan
from monet.distributed.layout import lay
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import DistributedResult
from monet.distributed.system import System
from monet.errors import MonetError
from monet.schedule.engine import NoSchedule
from monet.search.distribution.bounds import HeldBytes, ModelNumbers
from monet.search.distribution.space import PlanSpace
from monet.search.pareto import front

OBJECTIVES = ("time", "memory", "energy")
CLOSE = 0.97  # of the bound by layers: a pass that follows another straight may find something on chip


@dataclass(frozen=True, slots=True)
class Tried:
    """One plan that was costed."""

    plan: ParallelPlan
    result: DistributedResult

    def value(self, objective: str) -> float:
        """What is to be least."""
        found = {
            "time": self.result.latency_s,
            "memory": float(self.result.peak_memory_bytes),
            "energy": self.result.energy_j,
        }
        return found[objective]


@dataclass(frozen=True)
class Distribution:
    """What a search found: plans from the best on, the front of time and memory, and how many needed no costing."""

    space: PlanSpace
    objective: str
    tried: tuple[Tried, ...]  # feasible ones, best first
    front: tuple[Tried, ...]  # time, memory, energy
    plans: int
    bounded: int  # left out: their bounds say enough
    illegal: dict[str, int]  # why → how many plans
    too_large: int
    least_short: Tried | None  # of those that do not fit, the one that is least short

    @property
    def best(self) -> Tried | None:
        """The best plan, if any fits."""
        return self.tried[0] if self.tried else None


Watch = Callable[[int, int, Tried | None], None]


def distribute(
    coster: Coster,
    system: System,
    space: PlanSpace,
    model: str,
    objective: str = "time",
    *,
    whole_front: bool = False,
    exhaustive: bool = False,
    watch: Watch | None = None,
) -> Distribution:
    """Search the plans of a space. ``whole_front``: until nothing that is left can be on the front of time and memory,
    not only until nothing is better; ``exhaustive``: cost every plan."""
    if objective not in OBJECTIVES:
        raise MonetError(f"objective {objective!r}: allowed are {', '.join(OBJECTIVES)}")
    numbers = ModelNumbers.of(coster, system)
    capacity = max(part.accelerator.dram.capacity_bytes for part in system.devices)
    plans = list(space.plans())
    held = HeldBytes(coster, plans)
    bounds = np.array(
        [(numbers.seconds(plan, space.batch), numbers.bytes(plan) + held.bytes(plan, space.batch)) for plan in plans]
    ).reshape(-1, 2)
    order = np.lexsort((bounds[:, 1], bounds[:, 0])) if objective != "memory" else np.lexsort(bounds.T[[0, 1]])
    state = _Search(coster, system, space, model, objective, whole_front, exhaustive)
    waiting = [(bounds[number, 0], number, False) for number in order.tolist()]
    if objective != "time" or exhaustive:
        waiting = [(float(place), number, True) for place, (_, number, _) in enumerate(waiting)]
    heapq.heapify(waiting)
    while waiting:
        bound, number, refined = heapq.heappop(waiting)
        if watch:
            watch(len(plans) - len(waiting), len(plans), state.best)
        seconds, size = bounds[number].tolist()
        seconds = max(seconds, bound) if objective == "time" and not exhaustive else seconds
        if not exhaustive and (size > capacity or state.hopeless(seconds, size)):
            state.bounded += 1
        elif not refined:
            heapq.heappush(waiting, (max(seconds, state.refined(plans[number])), number, True))
        else:
            state.cost(plans[number])
    return state.found(len(plans))


class _Search:
    """What is known so far."""

    def __init__(
        self,
        coster: Coster,
        system: System,
        space: PlanSpace,
        model: str,
        objective: str,
        whole_front: bool,
        exhaustive: bool,
    ) -> None:
        self.coster, self.system, self.space, self.model, self.objective = coster, system, space, model, objective
        self.whole_front, self.exhaustive = whole_front, exhaustive
        self.tried: list[Tried] = []
        self.best: Tried | None = None
        self.least_short: Tried | None = None
        self.bounded = self.too_large = 0
        self.illegal: dict[str, int] = {}

    def hopeless(self, seconds: float, size: float) -> bool:
        """Whether a plan with these bounds can neither be best nor, if that is wanted, on the front."""
        if self.best is None or self.objective == "energy":
            return False
        if not self.whole_front:
            bound = seconds if self.objective == "time" else size
            return bound >= self.best.value(self.objective)
        return any(seconds >= one.value("time") and size >= one.value("memory") for one in self.tried)

    def cost(self, plan: ParallelPlan) -> None:
        try:
            result = evaluate_plan(
                self.coster, self.system, plan, self.space.batch, self.model, details=False, only_fitting=True
            )
        except MonetError as error:
            reason = getattr(error, "reason", "") or str(error)
            key = f"{getattr(error, 'option', '')}: {reason}".lstrip(": ")
            self.illegal[key] = self.illegal.get(key, 0) + 1
            return
        one = Tried(plan, result)
        if not result.feasible:
            self.too_large += 1
            short = result.reason.bytes_short if result.reason else 0
            known = self.least_short.result.reason if self.least_short else None
            if known is None or short < known.bytes_short:
                self.least_short = one
            return
        self.tried.append(one)
        if self.best is None or one.value(self.objective) < self.best.value(self.objective):
            self.best = one

    def refined(self, plan: ParallelPlan) -> float:
        """A closer bound of a step, from what a layer takes between others: as often as a stage passes its layers, and
        until the first micro-batch has come through the other stages."""
        try:
            laid = lay(plan, self.system, self.space.batch)
            kinds = {device.key: device for device in laid.devices}.values()
            block = min(self.coster.block_seconds(plan, laid.network, device) for device in kinds)
            block = max(block, self.coster.block_port_seconds(plan, laid.network))
            passes = plan.interleave * laid.micro_batches + plan.pipeline - 1
            return CLOSE * block * passes * min(self.coster.sizes(plan))
        except (MonetError, NoSchedule):
            return 0.0  # whoever costs it says why it cannot be

    def found(self, plans: int) -> Distribution:
        ranked = sorted(self.tried, key=lambda one: one.value(self.objective))
        values = np.array([[one.value(name) for name in OBJECTIVES] for one in ranked])
        on_front = [ranked[number] for number in front(values).tolist()] if ranked else []
        return Distribution(
            self.space, self.objective, tuple(ranked), tuple(on_front), plans, self.bounded, self.illegal,
            self.too_large, self.least_short,
        )  # fmt: skip


def neighbours(tried: Sequence[Tried], best: Tried) -> dict[str, Tried]:
    """By field of a plan: the best that differs from ``best`` in it (and in what has to follow)."""
    found: dict[str, Tried] = {}
    for name in ("tensor", "pipeline", "interleave", "micro_batch", "shard", "recompute", "sequence_parallel"):
        mine = getattr(best.plan, name)
        others = [one for one in tried if getattr(one.plan, name) != mine]
        same = [one for one in others if _same_but(one.plan, best.plan, name)]
        if same or others:
            found[name] = (same or others)[0]
    return found


def _same_but(one: ParallelPlan, other: ParallelPlan, name: str) -> bool:
    free = {"tensor": {"data": other.data, "tensor": other.tensor}, "pipeline": {"data": other.data}}.get(name, {})
    try:
        return replace(one, **{**free, name: getattr(other, name)}) == other
    except MonetError:
        return False
