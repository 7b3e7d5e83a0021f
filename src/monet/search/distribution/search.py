"""The best parallel plan: all legal ones, the most promising first, until none that is left can be better.

Bounds are below what plans cost, so what is left out would not have been chosen: the answer is that of costing all. A
plan that comes to the front of the queue is bounded more closely and queued again: by what its layers take at least, by
what a layer between others takes, by all passes of its pipeline; then it is costed. Most plans share their layers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monet.distributed.costs.chunk_costs import Coster, Least
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import DistributedResult
from monet.distributed.systems.system import System
from monet.errors import MonetError
from monet.search.distribution.bounds import Block, HeldBytes, ModelNumbers, by_blocks, by_middle
from monet.search.distribution.costing import Bench, Costing, Layer, Refused, bench, layer_of
from monet.search.distribution.space import PlanSpace
from monet.search.pareto import front

OBJECTIVES = ("time", "memory", "energy")
TOGETHER = 8  # plans that are looked at in one go, whatever the number of processes
ARITHMETIC, FLOORS, LAYERS, PASSES = range(4)  # how closely a plan is bounded
QUESTIONS = {ARITHMETIC: "floor", FLOORS: "block", LAYERS: "before_update", PASSES: "cost"}
ONE_THING = (
    "tensor", "pipeline", "interleave", "pipeline_schedule", "micro_batch", "shard", "recompute", "offload",
    "sequence_parallel",
)  # fmt: skip


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
    interrupted: bool = False  # what was not looked at may hold a better one

    @property
    def best(self) -> Tried | None:
        """The best plan, if any fits."""
        return self.tried[0] if self.tried else None

    @property
    def not_looked_at(self) -> int:
        """Plans of which nothing is known; none, unless it was interrupted."""
        return self.plans - len(self.tried) - self.bounded - self.too_large - sum(self.illegal.values())


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
    jobs: int = 1,
    watch: Watch | None = None,
) -> Distribution:
    """Search the plans of a space. ``whole_front``: until nothing that is left can be on the front of time and memory,
    not only until nothing is better; ``exhaustive``: cost every plan. The same answer with any number of ``jobs``."""
    if objective not in OBJECTIVES:
        raise MonetError(f"objective {objective!r}: allowed are {', '.join(OBJECTIVES)}")
    costing = Costing(coster, system, space.batch, model)
    state = _Search(costing, space, objective, whole_front, exhaustive)
    interrupted = False
    try:
        with bench(costing, jobs) as ours:
            state.run(ours, watch)
            if not exhaustive and state.best is not None:
                state.look_around(ours)
            if not state.tried:
                state.nearest(ours)
    except KeyboardInterrupt:
        interrupted = True
    return replace(state.found(), interrupted=interrupted)


class _Search:
    """What is known so far. ``seconds`` and ``sizes``: by plan, its bounds; ``level``: how close that of time is."""

    def __init__(self, costing: Costing, space: PlanSpace, objective: str, whole_front: bool, exhaustive: bool) -> None:
        self.costing, self.space, self.objective = costing, space, objective
        self.whole_front, self.exhaustive = whole_front, exhaustive
        coster, system = costing.coster, costing.system
        self.plans = list(space.plans())
        numbers, held = ModelNumbers.of(coster, system), HeldBytes(coster, len(system.devices) == 1)
        self.seconds = [
            max(numbers.seconds(plan, space.batch), numbers.port_seconds(plan, space.batch, system))
            for plan in self.plans
        ]
        self.capacity = max(part.accelerator.dram.capacity_bytes for part in system.devices)
        self.static_w = min(part.accelerator.static_power_w for part in system.devices) * space.devices
        self.sizes = [self._size(plan, numbers, held) for plan in self.plans]
        alike = coster.repeats and len(system.devices) == 1  # so chunks are equal
        self.first = PASSES if objective != "time" else ARITHMETIC if alike else LAYERS
        self.level = [self.first] * len(self.plans)
        self.floors: dict[Layer, Least] = {}
        self.layers: dict[Layer, Block] = {}
        self.ports: dict[tuple[int, str, str, int], tuple[float, float, float]] = {}
        self.tried: list[Tried] = []
        self.best: Tried | None = None
        self.least_short: Tried | None = None
        self.bounded = self.too_large = 0
        self.illegal: dict[str, int] = {}
        self.uncut: dict[tuple[int, bool, str], Refused] = {}  # layers that ranks cannot share so

    def _size(self, plan: ParallelPlan, numbers: ModelNumbers, held: HeldBytes) -> float:
        """Bytes at least; activations are looked at only where all else leaves room for them."""
        stays = numbers.bytes(plan)
        return stays if stays > self.capacity else stays + held.bytes(plan, self.space.batch)

    # --- the queue ---------------------------------------------------------------------------------------------------

    def run(self, ours: Bench, watch: Watch | None) -> None:
        """Until no plan is left that could be better."""
        waiting = [self._key(number) for number in range(len(self.plans))]
        heapq.heapify(waiting)
        while waiting:
            together = list(self._next(waiting))
            asked = [(QUESTIONS[self.level[number]], self.plans[number]) for number in together]
            for number, answer in zip(together, ours.ask(asked), strict=True):
                if self.level[number] == PASSES:
                    self._costed(self.plans[number], answer)
                else:
                    self._closer(number, answer)
                    heapq.heappush(waiting, self._key(number))
            if watch:
                watch(self._settled(waiting), len(self.plans), self.best)

    def _settled(self, waiting: list[tuple[float, float, int]]) -> int:
        """Plans that are done with or need no closer bound: bounds are what takes time, most plans go by them."""
        bounded = 0 if self.exhaustive or self.first == PASSES else sum(self.level[at] == PASSES for *_, at in waiting)
        return len(self.plans) - len(waiting) + bounded

    def _key(self, number: int) -> tuple[float, float, int]:
        if self.exhaustive:
            return 0.0, 0.0, number
        seconds, size = self.seconds[number], self.sizes[number]
        first = {"time": seconds, "memory": size, "energy": self.static_w * seconds}[self.objective]
        return first, size if self.objective != "memory" else seconds, number

    def _next(self, waiting: list[tuple[float, float, int]]) -> Iterator[int]:
        """The next few plans to look at, of different layers where these are to be looked at first; plans whose bounds
        say enough are left out on the way."""
        taken, asked, back = 0, set[Layer](), list[tuple[float, float, int]]()
        while waiting and taken < TOGETHER:
            entry = heapq.heappop(waiting)
            number = entry[-1]
            plan = self.plans[number]
            cut = plan.tensor, plan.sequence_parallel, plan.tensor_split
            if cut in self.uncut:
                self._refuse(self.uncut[cut])
            elif not self.exhaustive and (self.sizes[number] > self.capacity or self._hopeless(number)):
                self.bounded += 1
            elif self.exhaustive or self.level[number] >= LAYERS:
                if self.exhaustive:
                    self.level[number] = PASSES
                taken += 1
                yield number
            elif self._known(number):
                heapq.heappush(waiting, self._key(number))
            elif (layer := layer_of(plan, self.space.batch)) in asked:
                back.append(entry)
            else:
                asked.add(layer)
                taken += 1
                yield number
        for entry in back:
            heapq.heappush(waiting, entry)

    def _known(self, number: int) -> bool:
        """Whether another plan has said how long these layers take; the bound is closer then."""
        layer = layer_of(self.plans[number], self.space.batch)
        answers: dict[Layer, Any] = self.floors if self.level[number] == ARITHMETIC else self.layers
        if layer not in answers:
            return False
        self._closer(number, answers[layer])
        return True

    def _closer(self, number: int, answer: Any) -> None:
        """A closer bound of a plan."""
        plan, level = self.plans[number], self.level[number]
        if level == LAYERS:
            found = float(answer)
        else:
            layer = layer_of(plan, self.space.batch)
            passes = plan.micro_batches(self.space.batch)
            blocks = self.space.blocks // plan.chunks
            known: dict[Layer, Any] = self.floors if level == ARITHMETIC else self.layers
            known[layer] = answer
            least = self._with_ports(plan, self.floors[layer])
            if level == FLOORS:
                block = self.layers[layer]
                forward, backward = max(least.forward, block.forward), max(least.backward, block.backward)
                found = by_middle(plan, passes, blocks, least._replace(forward=forward, backward=backward), block)
            else:
                found = by_blocks(plan, passes, blocks, least)
        self.seconds[number] = max(self.seconds[number], found)
        self.level[number] += 1

    def _with_ports(self, plan: ParallelPlan, least: Least) -> Least:
        """What a block takes at least, with its time on the port to other replicas."""
        cut = plan.tensor, plan.tensor_split, plan.shard, plan.data
        if cut not in self.ports:
            self.ports[cut] = self.costing.ports(plan)
        forward, backward, last = self.ports[cut]
        return Least(max(forward, least.forward), max(backward, least.backward), least.apart, last)

    def _hopeless(self, number: int) -> bool:
        """Whether a plan can neither be best nor, if that is wanted, on the front."""
        if self.best is None:
            return False
        if not self.whole_front:
            return self._key(number)[0] > self.best.value(self.objective)
        seconds, size = self.seconds[number], self.sizes[number]
        return any(seconds >= one.value("time") and size >= one.value("memory") for one in self.tried)

    # --- what became of plans ----------------------------------------------------------------------------------------

    def _refuse(self, refused: Refused) -> None:
        self.illegal[str(refused)] = self.illegal.get(str(refused), 0) + 1

    def _costed(self, plan: ParallelPlan, answer: DistributedResult | Refused) -> None:
        if isinstance(answer, Refused):
            self._refuse(answer)
            if answer.option in ("tensor", "sequence_parallel"):
                self.uncut[plan.tensor, plan.sequence_parallel, plan.tensor_split] = answer
            return
        one = Tried(plan, answer)
        if not answer.feasible:
            self.too_large += 1
            known = self.least_short.result.reason if self.least_short else None
            if answer.reason and (known is None or answer.reason.bytes_short < known.bytes_short):
                self.least_short = one
            return
        self.tried.append(one)
        if self.best is None or one.value(self.objective) < self.best.value(self.objective):
            self.best = one

    def look_around(self, ours: Bench) -> None:
        """Cost the plans that differ from the best in one thing and look best by their bounds, to say why it is."""
        best = self.best
        assert best is not None
        known = {one.plan for one in self.tried}
        chosen: list[int] = []
        for name in ONE_THING:
            near = [
                number
                for number, plan in enumerate(self.plans)
                if self.sizes[number] <= self.capacity
                and getattr(plan, name) != getattr(best.plan, name)
                and same_but(plan, best.plan, name)
            ]
            if near and not any(self.plans[number] in known for number in near):
                chosen.append(min(near, key=lambda number: (self.seconds[number], number)))
        asked = [("cost", self.plans[number]) for number in dict.fromkeys(chosen)]
        for (_, plan), answer in zip(asked, ours.ask(asked), strict=True):
            self.bounded -= 1
            self._costed(plan, answer)

    def nearest(self, ours: Bench) -> None:
        """Where nothing fits: the plan that is least short, the smallest by their bounds first."""
        order = sorted(range(len(self.plans)), key=lambda number: (self.sizes[number], number))
        known = self.least_short.result.reason if self.least_short else None
        least, found = (known.bytes_short if known else np.inf), None
        while order and self.sizes[order[0]] - self.capacity < least:
            some, order = order[:TOGETHER], order[TOGETHER:]
            for number, short in zip(some, ours.ask([("short_by", self.plans[each]) for each in some]), strict=True):
                if not isinstance(short, Refused) and 0 < short < least:
                    least, found = short, number
        if found is not None:
            (answer,) = ours.ask([("cost", self.plans[found])])
            self.least_short = Tried(self.plans[found], answer)

    def found(self) -> Distribution:
        """What came of it."""
        ranked = sorted(self.tried, key=lambda one: one.value(self.objective))
        values = np.array([[one.value(name) for name in OBJECTIVES] for one in ranked])
        on_front = [ranked[number] for number in front(values).tolist()] if ranked else []
        return Distribution(
            self.space, self.objective, tuple(ranked), tuple(on_front), len(self.plans), self.bounded, self.illegal,
            self.too_large, self.least_short,
        )  # fmt: skip


def neighbours(tried: Sequence[Tried], best: Tried) -> dict[str, Tried]:
    """By field of a plan: the best that differs from ``best`` in it and in what has to follow; where none of those
    was costed (they do not fit, or cannot be), the best of all that differ in it."""
    found: dict[str, Tried] = {}
    for name in ONE_THING:
        mine = getattr(best.plan, name)
        others = [one for one in tried if getattr(one.plan, name) != mine]
        same = [one for one in others if same_but(one.plan, best.plan, name)]
        if same or others:
            found[name] = (same or others)[0]
    return found


def same_but(one: ParallelPlan, other: ParallelPlan, name: str) -> bool:
    """Whether two plans are one but for a field, and for the replicas that are left then."""
    free = {"tensor": {"data": other.data, "tensor": other.tensor}, "pipeline": {"data": other.data}}.get(name, {})
    try:
        return replace(one, **{**free, name: getattr(other, name)}) == other
    except MonetError:
        return False
