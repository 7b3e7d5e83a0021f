"""Fusion and checkpointing in turn, until neither improves: each starts from what the other has decided.

Checkpointing searches the front under the groups so far and takes the fastest plan within the budget (or the least
memory at no loss of latency). Fusion then searches groups of that very step, clones included; what it fuses of the
plain step's operators is the base of the next round. A round that gains nothing ends the search, so the result is never
worse than checkpointing alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from monet.errors import MonetError
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.plan import Plan
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.search.checkpoint.scheduled_search import Point, ScheduledFront
from monet.search.fusion.search import FusionSettings, find_fusion

ENOUGH = 1e-4  # of the latency: a round that gains less ends the search
MOST_ROUNDS = 4

Search = Callable[[ScheduledCost], ScheduledFront]
Choose = Callable[[ScheduledFront], Point]


@dataclass(frozen=True, slots=True)
class JointRound:
    """One round: the chosen plan after checkpointing, the same with its step fused again, and which of both was taken
    (fusion may need more memory than there is)."""

    latency_s: float
    memory_peak_bytes: int
    fused_latency_s: float
    fused_memory_peak_bytes: int
    taken: str
    groups: int

    @classmethod
    def of(cls, chosen: Point, fused: Point, taken: Point, plan: Plan) -> JointRound:
        """The round that ended so."""
        return cls(
            chosen.figures.latency_s,
            chosen.figures.memory_peak_bytes,
            fused.figures.latency_s,
            fused.figures.memory_peak_bytes,
            "fused again" if taken is fused else "checkpointed",
            len(plan.groups),
        )


@dataclass(frozen=True)
class JointFront:
    """Outcome: the best base plan with its front, and how each round went. ``plan`` is the whole schedule of the
    chosen point: clones in the groups that fusion found."""

    costed: ScheduledCost
    front: ScheduledFront
    chosen: Point
    plan: Plan
    rounds: tuple[JointRound, ...]
    interrupted: bool = False


def joint_front(
    costed: ScheduledCost,
    search: Search,
    choose: Choose,
    fits: Callable[[Point], bool],
    *,
    seed: int = 0,
    effort: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> JointFront:
    """Alternate until the latency of the chosen plan no longer falls. ``fits``: whether a plan is within the budget. An
    interrupt (Ctrl-C) ends it with the best so far."""
    best: JointFront | None = None
    rounds: list[JointRound] = []
    interrupted = False
    for number in range(MOST_ROUNDS):
        say(f"round {number + 1}: checkpointing")
        front = search(costed)
        interrupted = front.interrupted
        if interrupted and best is not None:
            break
        chosen = choose(front)
        scheduler, schedule = costed.schedule(chosen.plan, chosen.fused)
        found, plan, groups = chosen, schedule.plan, schedule.plan
        if not interrupted:
            say(f"round {number + 1}: fusion of the chosen step")
            groups, interrupted = _fused_again(scheduler, schedule.plan, seed, effort)
        fused = replace(chosen, figures=costed.figures_of_plan(chosen.plan, groups))
        if fits(fused) and fused.figures.latency_s < chosen.figures.latency_s:
            found, plan = fused, groups
        rounds.append(JointRound.of(chosen, fused, found, plan))
        if best is not None and found.figures.latency_s >= best.chosen.figures.latency_s * (1 - ENOUGH):
            break
        best = JointFront(costed, front, found, plan, ())
        base = None if interrupted else carried(costed, groups)
        if base is None:
            break
        costed = ScheduledCost(costed.scheduler, base)
    if best is None:
        raise RuntimeError("no round was run")
    return replace(best, rounds=tuple(rounds), interrupted=interrupted)


def _fused_again(scheduler: Scheduler, plan: Plan, seed: int, effort: int) -> tuple[Plan, bool]:
    found = find_fusion(scheduler, FusionSettings(effort=effort, seed=seed), base=plan)
    return found.plans["found"][0], found.interrupted


def carried(costed: ScheduledCost, plan: Plan) -> Plan | None:
    """The groups of a plan without its clones, as a base for other checkpoint plans. Where that is no plan, only the
    groups that had none; None if these do not fit either."""
    names = {operator.op.name for operator in costed.scheduler.workload.operators}
    kept = (tuple(name for name in group.operators if name in names) for group in plan.groups)
    stripped = tuple(group._replace(operators=own) for group, own in zip(plan.groups, kept, strict=True))
    untouched = tuple(group for group in plan.groups if set(group.operators) <= names)
    placements = {name: where for name, where in plan.placements.items() if name in names}
    for groups in (stripped, untouched):
        chosen = tuple(group for group in groups if len(group.operators) > 1)
        try:
            return costed.scheduler.schedule(replace(plan, groups=chosen, placements=placements)).plan
        except (NoSchedule, MonetError):
            continue
    return None
