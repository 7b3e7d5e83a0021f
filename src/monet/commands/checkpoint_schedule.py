"""The part of ``monet checkpoint`` that goes through the full schedule of an accelerator."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from monet.commands.progress import counted
from monet.graph.graph import Graph
from monet.quantities import parse_bytes
from monet.report.checkpoint_schedule import summary
from monet.report.quantities import nbytes
from monet.report.screen import screen
from monet.request import Request
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_schedule
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.search.checkpoint.scheduled_joint import JointFront, joint_front
from monet.search.checkpoint.scheduled_search import Point, ScheduledFront, baseline_points, exact_points, search_front
from monet.search.functions import GENERATIONS, POPULATION
from monet.search.genetic import EvolutionSettings
from monet.transforms.checkpoint_baselines import BASELINES, baseline_named
from monet.transforms.checkpoint_plan import CheckpointPlan, Impossible, is_plan_file, load_checkpoint_plan

FEW_PLANS = 96  # about as many as the exact curves have points, twice


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for. ``budget`` is an amount or a share of the plain step's activation peak."""

    request: Request
    budget: str
    method: str
    choices: tuple[str, ...]
    seed: int
    effort: int
    jobs: int
    joint: bool

    @property
    def given(self) -> dict[str, CheckpointPlan]:
        """The plan of the file that ``method`` names, if it names one."""
        return {self.method: load_checkpoint_plan(self.method)} if is_plan_file(self.method) else {}


def by_schedule(step: Graph, asked: Asked) -> dict[str, Any]:
    """Search through the full schedule; everything worth keeping, as plain values."""
    if asked.method not in ("auto", "ga", "exact") and not asked.given:
        baseline_named(asked.method)
    accelerator = asked.request.accelerator()
    scheduler = Scheduler(step, accelerator, asked.request.objective)
    try:
        scheduler.check_fits()
        costed = ScheduledCost(scheduler, base_plan(scheduler, asked.request))
        found = _joint(costed, asked) if asked.joint else None
        front = found.front if found else _front(costed, asked)
    except NoSchedule as error:
        reason = error.reason
        raise Impossible(f"{step.name} on {accelerator.name}: {error}", reason.operator, reason.bytes_short) from None
    limit, chosen = choose(front, asked)
    method = asked.method if asked.method != "auto" else "ga"
    values = summary(found.costed if found else costed, front, found.chosen if found else chosen, method)
    if found:
        rounds = [dataclasses.asdict(turn) for turn in found.rounds]
        values |= {"joint": rounds, "schedule_plan": found.plan.to_dict(), "interrupted": found.interrupted}
    return values | {
        "cost": "schedule",
        "budget_bytes": limit,
        "choices": list(asked.choices),
        "seed": asked.seed,
        "effort": asked.effort,
    }


def base_plan(scheduler: Scheduler, request: Request) -> Plan:
    """The plan that checkpoint plans are laid over: the default one, or the one that is given."""
    plan, placed = request.plan(), request.placements()
    if plan is None:
        return default_schedule(scheduler, str(request.fusion), request.boundary, placed).plan
    return scheduler.complete(dataclasses.replace(plan, placements={**plan.placements, **placed}))


def choose(front: ScheduledFront, asked: Asked) -> tuple[int | None, Point]:
    """(budget in bytes, plan): the fastest within the budget; without one the least memory at no loss of latency."""
    named = dict(front.baselines)
    if asked.method in named:
        return None, named[asked.method]
    if asked.method in {baseline.name for baseline in BASELINES}:
        return None, front.plain  # a baseline that does nothing to this network
    if not asked.budget:
        return None, front.unbudgeted
    limit = parse_bytes("--budget", asked.budget, front.plain.figures.memory_peak_bytes)
    chosen = front.under(limit)
    if chosen is None:
        raise _too_small(front, limit)
    return limit, chosen


def _too_small(front: ScheduledFront, limit: int) -> Exception:
    least = min(front.front, key=lambda point: point.figures.memory_peak_bytes).figures
    return Impossible(
        f"--budget: no plan with activations in {nbytes(limit)} was found; the least has "
        f"{nbytes(least.memory_peak_bytes)}, reached in operator {least.peak_operator}: "
        f"{least.memory_peak_bytes - limit:,} bytes short",
        least.peak_operator,
        least.memory_peak_bytes - limit,
    )


def _front(costed: ScheduledCost, asked: Asked) -> ScheduledFront:
    if asked.method not in ("auto", "ga"):  # nothing evolves: these plans are what was asked for
        with counted("plans through the schedule", FEW_PLANS) as watch:
            if asked.method == "exact":
                return exact_points(costed, choices=asked.choices, watch=watch)
            return baseline_points(costed, given=asked.given, watch=watch)
    generations = GENERATIONS * asked.effort
    with counted("plans through the schedule", POPULATION * generations) as watch:
        return search_front(
            costed,
            choices=asked.choices,
            seed=asked.seed,
            settings=EvolutionSettings(POPULATION, generations),
            jobs=asked.jobs,
            watch=watch,
        )


def _joint(costed: ScheduledCost, asked: Asked) -> JointFront:
    """Fusion and checkpointing in turn until neither improves."""
    errors = screen(errors=True)
    latest: list[tuple[int | None, Point]] = []

    def chosen(front: ScheduledFront) -> Point:
        latest[:] = [choose(front, asked)]
        return latest[0][1]

    def fits(point: Point) -> bool:
        limit, found = latest[0]
        most = found.figures.memory_peak_bytes if limit is None else limit
        return point.figures.memory_peak_bytes <= most

    return joint_front(
        costed,
        lambda cost: _front(cost, asked),
        chosen,
        fits,
        seed=asked.seed,
        effort=asked.effort,
        say=lambda line: errors.print(line, style="dim"),
    )
