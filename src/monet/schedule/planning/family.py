"""The family of unfused plans that the default is the best of.

Every operator alone, and one rule for all of them: where results stay (``boundary``), how much of a memory an operator
may take for its own tiles, how many like cores may share it. Each member is costed by the whole schedule, so the
default is never slower than any of them; and as members that use less of a machine (half of each buffer; half of the
cores, a quarter … one) are among them, a larger machine does not look slower because a rule made bad use of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.expansion.expand import Draft
from monet.schedule.folding.shortened import NeverRepeating
from monet.schedule.plan import Placement, Plan
from monet.schedule.planning.floors import whole_floor
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.records import NEVER, Steps

FULL, HALF = 1.0, 0.5  # shares of a memory for an operator's own tiles


class Rule(NamedTuple):
    """What all operators of a plan have in common."""

    boundary: str
    buffer_share: float
    tiles: str = "latency"


NEAR = 1.1  # members at most so much slower than the fastest are fused, too; others need not be found
CLOSE = 1.05  # all on fewer cores that take so much longer than the fastest are not, and still fewer are not tried
RULES = (
    Rule("keep", FULL),
    Rule("keep", HALF),
    Rule("local", FULL),
    Rule("dram", FULL),
    Rule("keep", FULL, "throughput"),
    Rule("keep", HALF, "throughput"),
)


class Member(NamedTuple):
    """A complete plan of the family, its draft, and the ticks that its schedule takes."""

    makespan: int
    plan: Plan
    draft: Draft


def best_unfused(scheduler: Scheduler, boundary: str = "", given: Mapping[str, Placement] | None = None) -> Schedule:
    """The fastest member; only of one ``boundary`` if it is not empty. Raises ``NoSchedule`` if no member can run, with
    what is wrong with the first."""
    best = min(best_by_cores(scheduler, boundary, given), key=lambda member: member.makespan)
    return scheduler.timed(best.plan, best.draft)


def best_by_cores(
    scheduler: Scheduler, boundary: str = "", given: Mapping[str, Placement] | None = None
) -> list[Member]:
    """The fastest member on all like cores, on half of them, a quarter … until all of some number take over ``CLOSE``
    times as long as the fastest, or their arithmetic alone takes longer; last, every operator whole, on cores in turn
    and on one. Of these, only what takes at most ``NEAR`` times as long as the fastest (fewer cores, ``CLOSE`` times as
    long as all that use more). Raises as ``best_unfused`` does."""
    given = dict(given or {})
    racing = _Race(scheduler, tuple(rule for rule in RULES if boundary in ("", rule.boundary)))
    failed: NoSchedule | None = None
    for count in core_counts(scheduler):
        if racing.last and _busy_ticks(scheduler, racing.last, count) >= racing.fastest:
            break
        try:
            plan = scheduler.complete(Plan(placements=given, buffer_share=racing.rules[0].buffer_share), count)
            if racing.run(plan, CLOSE) > CLOSE * racing.fastest:
                break
        except NoSchedule as error:
            failed = failed or error
    if not racing.found:
        assert failed is not None
        raise failed
    for whole in (one_core_per_layer, one_core):
        if given or _floor(scheduler, racing.found[0].plan, whole) <= NEAR * racing.fastest:
            if scheduler.short and whole is one_core_per_layer:
                raise NeverRepeating("layers take cores in turn")
            placements = whole(scheduler, racing.found[0].plan)
            with suppress(NoSchedule):
                racing.run(replace(racing.found[0].plan, placements=placements | given), NEAR)
    return [member for member in racing.found if member.makespan <= NEAR * racing.fastest]


def _floor(scheduler: Scheduler, base: Plan, whole: Callable[[Scheduler, Plan], dict[str, Placement]]) -> int:
    """Ticks at least of a plan of whole operators, of all layers."""
    if scheduler.short:
        base, scheduler = scheduler.short.lengthened(base), scheduler.on(scheduler.short.whole)
    return whole_floor(scheduler, whole(scheduler, base))


class _Race:
    """Plans against each other, each by some rules. ``last``: the draft that was made last."""

    def __init__(self, scheduler: Scheduler, rules: Sequence[Rule]) -> None:
        self.scheduler, self.rules = scheduler, rules
        self.found: list[Member] = []
        self.last: Draft | None = None
        self.tried: list[Mapping[str, Placement]] = []

    @property
    def fastest(self) -> int:
        """Ticks of the fastest so far."""
        return min((member.makespan for member in self.found), default=NEVER)

    def run(self, plan: Plan, near: float) -> int:
        """Find the fastest of a plan by all rules, of equal ones that of the first: its ticks. It is kept if it takes
        at most ``near`` times as long as the fastest of other plans; if not, its ticks are more than it would be kept
        with. Tiles as the fastest has them come first, others only if they bring it so close. Raises ``NoSchedule`` if
        it can run by none."""
        if plan.placements in self.tried:
            return self.fastest
        self.tried.append(plan.placements)
        best: Member | None = None
        failed: NoSchedule | None = None
        can_run = False
        most = int(near * self.fastest) + 1 if self.found else NEVER
        seen: set[tuple[str, tuple[int, ...]]] = set()
        for cut in self._cuts():
            made: Draft | None = None  # one for all rules that differ in where results stay
            for rule in (rule for rule in self.rules if (rule.buffer_share, rule.tiles) == cut):
                member = replace(plan, **rule._asdict())
                try:
                    if made is None:
                        self.last = made = self.scheduler.draft(member)
                    if (rule.boundary, made.numbers) in seen:
                        continue  # operators take less than their share, tiles are best for both: it is the same plan
                    seen.add((rule.boundary, made.numbers))
                    ticks = self.scheduler.makespan(member, made, most)
                except NoSchedule as error:
                    failed = failed or error
                    continue
                can_run = True
                if ticks < most:
                    most, best = ticks, Member(ticks, member, made)
            if can_run and best is None:
                break
        if best is not None:
            self.found.append(best)
        elif failed is not None and not can_run:
            raise failed
        return best.makespan if best else most

    def _cuts(self) -> list[tuple[float, str]]:
        """Room and aim of the tiles of all rules, first those of the fastest plan so far."""
        cuts = list(dict.fromkeys((rule.buffer_share, rule.tiles) for rule in self.rules))
        if self.found:
            first = min(self.found, key=lambda member: member.makespan).plan
            cuts.sort(key=lambda cut: cut != (first.buffer_share, first.tiles))
        return cuts


def one_core_per_layer(scheduler: Scheduler, base: Plan) -> dict[str, Placement]:
    """Every operator whole, on the design the default gives it; operators of a design take its cores in turn."""
    accelerator, turn = scheduler.machine.accelerator, dict[tuple[int, bool], int]()
    alone = [[Placement((core.name,)) for core in like] for like in accelerator.like_cores]
    found: dict[str, Placement] = {}
    for operator in scheduler.workload.operators:
        if operator.is_transfer:
            found[operator.op.name] = base.placements[operator.op.name]
            continue
        design = accelerator.design_number[base.placements[operator.op.name].cores[0]]
        key, cores = (design, operator.is_matrix), alone[design]
        found[operator.op.name] = cores[turn.get(key, 0) % len(cores)]
        turn[key] = turn.get(key, 0) + 1
    return found


def one_core(scheduler: Scheduler, base: Plan) -> dict[str, Placement]:
    """Every operator whole, on the first core of the design the default gives it."""
    accelerator = scheduler.machine.accelerator
    alone = [Placement((like[0].name,)) for like in accelerator.like_cores]
    found: dict[str, Placement] = {}
    for name, placement in base.placements.items():
        design = accelerator.design_number.get(placement.cores[0])  # a port has none
        found[name] = placement if design is None else alone[design]
    return found


def core_counts(scheduler: Scheduler) -> Iterator[int]:
    """All like cores, then the powers of two below."""
    count = max(len(like) for like in scheduler.machine.accelerator.like_cores)
    yield count
    while count > 1:
        count = 1 << ((count - 1).bit_length() - 1)
        yield count


def _busy_ticks(scheduler: Scheduler, made: Draft, most_cores: int) -> float:
    """Ticks that the arithmetic of a plan would take on so many like cores: of all designs the longest."""
    accelerator = scheduler.machine.accelerator
    steps = Steps.of(np.concatenate([arrays.steps for arrays in made.arrays_of]))
    work = np.concatenate([arrays.work for arrays in made.arrays_of])
    if scheduler.short:
        times = scheduler.short.times[[steps.operator.number for steps in made.steps_of]]
        work = work * np.repeat(times, [len(arrays.work) for arrays in made.arrays_of])
    cores = scheduler.machine.folded.cores
    ticks = np.bincount(steps.core, work, minlength=len(cores))[: len(cores)]
    numbers = [accelerator.design_number[core.name] for core in cores]
    return max(
        float(ticks[np.equal(numbers, number)].sum()) / min(most_cores, len(like))
        for number, like in enumerate(accelerator.like_cores)
    )
