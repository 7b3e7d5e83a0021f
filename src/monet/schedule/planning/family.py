"""The family of unfused plans that the default is the best of.

Every operator alone, and one rule for all of them: where results stay (``boundary``), how much of a memory an operator
may take for its own tiles, which cores take part. Each member is costed by the whole schedule, so the default is never
slower than any of them; and as members that use less of a machine (one core an operator, half of each buffer) are among
them, a larger machine does not look slower because a rule made bad use of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.plan import BOUNDARIES, Placement, Plan
from monet.schedule.schedule import Schedule

FULL, HALF = 1.0, 0.5  # shares of a memory for an operator's own tiles
ENOUGH = 1.01  # an operator takes half of a memory if that costs it no more than this, in time and in bytes


def best_unfused(scheduler: Scheduler, boundary: str = "", given: Mapping[str, Placement] | None = None) -> Schedule:
    """The fastest member; only of one ``boundary`` if it is not empty. Raises ``NoSchedule`` if none can run, with what
    is wrong with the first."""
    best: Schedule | None = None
    failed: NoSchedule | None = None
    for plan in unfused_plans(scheduler, boundary, given or {}):
        try:
            found = scheduler.schedule(plan)
        except NoSchedule as error:
            failed = failed or error
            continue
        if best is None or found.makespan < best.makespan:
            best = found
    if best is None:
        assert failed is not None
        raise failed
    return best


def unfused_plans(scheduler: Scheduler, boundary: str, given: Mapping[str, Placement]) -> Iterator[Plan]:
    """The members, simplest first."""
    for name in (boundary,) if boundary else BOUNDARIES:
        plan = Plan(placements=dict(given), boundary=name, buffer_share=FULL)
        if name == "dram":
            yield plan
            continue
        yield replace(plan, buffer_share=HALF)
        yield plan
        shares = enough_room(scheduler, plan)
        if 0 < len(shares) < len(scheduler.workload.operators):
            yield replace(plan, buffer_shares=shares)


def enough_room(scheduler: Scheduler, plan: Plan) -> dict[str, float]:
    """Operators that do with half of a memory what they do with all of it: what they leave is for results to stay."""
    complete = scheduler.complete(plan)
    found: dict[str, float] = {}
    for operator in scheduler.workload.operators:
        name = operator.op.name
        costs = [scheduler.costs.alone(operator, complete.placements[name], share) for share in (HALF, FULL)]
        if None in costs:
            continue
        (half_cycles, half_bytes), (cycles, moved) = (cost for cost in costs if cost is not None)
        if half_cycles <= ENOUGH * cycles and half_bytes <= ENOUGH * moved:
            found[name] = HALF
    return found
