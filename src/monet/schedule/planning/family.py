"""The family of unfused plans that the default is the best of.

Every operator alone, and one rule for all of them: where results stay (``boundary``), how much of a memory an operator
may take for its own tiles, how many like cores may share it. Each member is costed by the whole schedule, so the
default is never slower than any of them; and as members that use less of a machine (half of each buffer; half of the
cores, a quarter … one) are among them, a larger machine does not look slower because a rule made bad use of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.expansion.expand import Draft
from monet.schedule.plan import Placement, Plan
from monet.schedule.planning.floors import whole_floor
from monet.schedule.schedule import Schedule

FULL, HALF = 1.0, 0.5  # shares of a memory for an operator's own tiles


class Rule(NamedTuple):
    """What all operators of a plan have in common."""

    boundary: str
    buffer_share: float
    tiles: str = "latency"


NEAR = 1.1  # members at most so much slower than the fastest are fused, too; others need not be found
RULES = (
    Rule("keep", FULL),
    Rule("keep", HALF),
    Rule("local", FULL),
    Rule("dram", FULL),
    Rule("keep", FULL, "throughput"),
    Rule("keep", HALF, "throughput"),
)


def best_unfused(scheduler: Scheduler, boundary: str = "", given: Mapping[str, Placement] | None = None) -> Schedule:
    """The fastest member; only of one ``boundary`` if it is not empty. Raises ``NoSchedule`` if no member can run, with
    what is wrong with the first."""
    return min(best_by_cores(scheduler, boundary, given), key=lambda schedule: schedule.makespan)


def best_by_cores(
    scheduler: Scheduler, boundary: str = "", given: Mapping[str, Placement] | None = None
) -> list[Schedule]:
    """The fastest member on all like cores, on half of them, a quarter … until their arithmetic alone takes longer;
    last, every operator whole, on cores in turn and on one, unless these surely take over ``NEAR`` times as long as the
    fastest. Raises as ``best_unfused`` does."""
    found: list[Schedule] = []
    failed: NoSchedule | None = None
    rules = tuple(rule for rule in RULES if boundary in ("", rule.boundary))
    for count in core_counts(scheduler):
        if found and _busy_ticks(scheduler, found[-1], count) >= min(schedule.makespan for schedule in found):
            break
        try:
            plan = scheduler.complete(Plan(placements=dict(given or {}), buffer_share=rules[0].buffer_share), count)
            if found and plan.placements == found[-1].plan.placements:
                continue
            found.append(_fastest(scheduler, plan, rules))
        except NoSchedule as error:
            failed = failed or error
    if not found:
        assert failed is not None
        raise failed
    for whole in (one_core_per_layer, one_core):
        placements = whole(scheduler, found[0].plan)
        fastest = min(schedule.makespan for schedule in found)
        if not given and whole_floor(scheduler, placements) > NEAR * fastest:
            continue
        placements |= dict(given or {})
        if all(placements != schedule.plan.placements for schedule in found):
            with suppress(NoSchedule):
                found.append(_fastest(scheduler, replace(found[0].plan, placements=placements), rules))
    return found


def one_core_per_layer(scheduler: Scheduler, base: Plan) -> dict[str, Placement]:
    """Every operator whole, on the design the default gives it; operators of a design take its cores in turn."""
    accelerator, turn = scheduler.machine.accelerator, dict[tuple[int, bool], int]()
    found: dict[str, Placement] = {}
    for operator in scheduler.workload.operators:
        if operator.is_transfer:
            found[operator.op.name] = base.placements[operator.op.name]
            continue
        design = accelerator.design_number[base.placements[operator.op.name].cores[0]]
        cores = [core.name for core in accelerator.like_cores[design]]
        key = design, operator.is_matrix
        found[operator.op.name] = Placement((cores[turn.get(key, 0) % len(cores)],))
        turn[key] = turn.get(key, 0) + 1
    return found


def one_core(scheduler: Scheduler, base: Plan) -> dict[str, Placement]:
    """Every operator whole, on the first core of the design the default gives it."""
    accelerator = scheduler.machine.accelerator
    found: dict[str, Placement] = {}
    for name, placement in base.placements.items():
        design = accelerator.design_number.get(placement.cores[0])  # a port has none
        found[name] = placement if design is None else Placement((accelerator.like_cores[design][0].name,))
    return found


def core_counts(scheduler: Scheduler) -> Iterator[int]:
    """All like cores, then the powers of two below."""
    count = max(len(like) for like in scheduler.machine.accelerator.like_cores)
    yield count
    while count > 1:
        count = 1 << ((count - 1).bit_length() - 1)
        yield count


def _fastest(scheduler: Scheduler, plan: Plan, rules: Sequence[Rule]) -> Schedule:
    """The fastest schedule of a plan by some rules; of equal ones that of the first rule."""
    best: Schedule | None = None
    failed: NoSchedule | None = None
    drafts: dict[tuple[float, str], Draft] = {}  # one for all rules that differ in where results stay
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for rule in rules:
        member = replace(plan, **rule._asdict())
        cut = member.share, member.tiles
        try:
            if cut not in drafts:
                drafts[cut] = scheduler.draft(member)
            made = drafts[cut]
            if (rule.boundary, made.numbers) in seen:
                continue  # operators take less than their share, tiles are best for both: it is the same plan
            seen.add((rule.boundary, made.numbers))
            found = scheduler.timed(member, made)
        except NoSchedule as error:
            failed = failed or error
            continue
        if best is None or found.makespan < best.makespan:
            best = found
    if best is None:
        assert failed is not None
        raise failed
    return best


def _busy_ticks(scheduler: Scheduler, schedule: Schedule, most_cores: int) -> float:
    """Ticks that the arithmetic of a schedule would take on so many like cores: of all designs the longest."""
    accelerator, parts = scheduler.machine.accelerator, schedule.expanded.parts
    ticks = np.bincount(
        schedule.expanded.tables.steps.core, parts.useful + parts.under_used, minlength=len(accelerator.cores)
    )[: len(accelerator.cores)]
    numbers = [accelerator.design_number[core.name] for core in accelerator.cores]
    return max(
        float(ticks[np.equal(numbers, number)].sum()) / min(most_cores, len(like))
        for number, like in enumerate(accelerator.like_cores)
    )
