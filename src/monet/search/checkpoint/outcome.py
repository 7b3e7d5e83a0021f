"""One checkpoint plan and what is known of it: the record every way of choosing returns, and fronts of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from monet.display import Displayed
from monet.graph.graph import Graph
from monet.search.checkpoint.liveness import Peak, peak_of
from monet.search.checkpoint.peak import NODES, SMALL, WORK_PLANS, WORK_SCHEDULES, best_under_peak
from monet.search.checkpoint.static import Choice, best_under
from monet.transforms.checkpoint_baselines import BASELINES
from monet.transforms.checkpoint_plan import CheckpointPlan, Impossible
from monet.transforms.checkpoint_problem import CheckpointProblem
from monet.transforms.recompute import recompute

# of the bytes that the plain step keeps; finer where the first activations go
FRONT_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1,
                0.05, 0.02, 0.0)  # fmt: skip
BY_INTERVALS = (
    "no plan repeats less in this peak, where a plan is what the transform makes: a dropped value is computed again "
    f"once, just before its first reader in backward; outputs under {100 * SMALL:.1f} % of the plain peak are kept"
)
BY_BLOCKS = (
    f"more than {NODES} nodes, so a chain of blocks, each solved alone: the plan is the best combination of their "
    "ways, not proved against all plans; the gap is to a lower bound that holds for every plan"
)
NEGLIGIBLE = 0.01  # of the forward pass: what memory is called nearly free below


@dataclass(frozen=True, repr=False)
class Outcome(Displayed):
    """A plan with its memory and its price.

    ``recompute_over_forward`` is the repeated work over that of the forward pass, under the cost that was asked for.
    ``gap`` bounds how much lower it could be at these bytes, as a share of the forward pass; ``proved_optimal`` says
    that it is closed. ``peak`` is the fullest moment in the order of the graph, weights and their gradients left out.
    ``schedule`` holds figures of a full schedule, by name, if there is one; ``timeline`` what is proved over time.
    """

    method: str
    plan: CheckpointPlan
    kept_bytes: int
    recompute_over_forward: float
    proved_optimal: bool
    gap: float
    peak: Peak
    schedule: Mapping[str, Any] = field(default_factory=dict)
    timeline: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = {attribute.name: getattr(self, attribute.name) for attribute in dataclasses.fields(self)}
        return values | {
            "plan": self.plan.to_dict(),
            "peak": dataclasses.asdict(self.peak),
            "schedule": dict(self.schedule),
            "timeline": dict(self.timeline),
        }


def outcome_of(graph: Graph, choice: Choice, method: str = "exact") -> Outcome:
    """The outcome of an exact choice."""
    peak = peak_of(recompute(graph, choice.plan))
    return Outcome(method, choice.plan, choice.kept_bytes, choice.share, choice.proved, choice.gap, peak)


def outcome_of_peak(graph: Graph, problem: CheckpointProblem, budget: int, schedules: bool = True) -> Outcome:
    """The cheapest plan under a peak over time. ``schedules``: bound also what finer decisions could gain."""
    found = best_under_peak(graph, budget, work=(WORK_PLANS, WORK_SCHEDULES if schedules else 0.0))
    kept, narrowed = problem.surviving(found.plan)
    more = {
        "recompute_over_step": found.share_of_step,
        "proved_for_schedules": found.proved_for_schedules,
        "bound_for_schedules": found.schedule_bound / max(1, found.forward_cost),
        "nodes": found.nodes,
        "solved_by": "chain of blocks" if found.by_blocks else "intervals",
        "proved_means": BY_BLOCKS if found.by_blocks else BY_INTERVALS,
    }
    size = problem.bytes(problem.useful(kept, narrowed))
    share = found.cost / max(1, found.forward_cost)
    method = "blocks" if found.by_blocks and not found.proved else "exact"
    return Outcome(method, found.plan, size, share, found.proved, found.gap, found.peak, timeline=more)


def outcome_of_plan(
    graph: Graph, problem: CheckpointProblem, plan: CheckpointPlan, method: str, narrow: bool = False
) -> Outcome:
    """Any plan beside the optimum at its own bytes."""
    plan = plan.checked(graph)
    kept, narrowed = problem.surviving(plan)
    kept = problem.useful(kept, narrowed)
    size, cost = problem.bytes(kept, narrowed), problem.cost(kept, narrowed)
    best = best_under(problem, size, narrow or bool(narrowed))
    bound = min(cost, max(best.bound, 0.0))
    choice = dataclasses.replace(best, kept=kept, narrowed=narrowed, plan=plan, kept_bytes=size, cost=cost, bound=bound)
    return outcome_of(graph, choice, method)


def exact_front(
    graph: Graph,
    problem: CheckpointProblem,
    narrow: bool = False,
    shares: Iterable[float] = FRONT_SHARES,
    say: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """The exact curve: least repeated work at shares of the bytes that the plain step keeps, most memory first."""
    found: list[Outcome] = []
    for share in shares:
        outcome = outcome_of(graph, best_under(problem, int(problem.keep_all_bytes * share), narrow))
        if not found or outcome.kept_bytes < found[-1].kept_bytes:
            found.append(outcome)
        if say is not None:
            say(outcome)
    return found


def nearly_free(front: Iterable[Outcome], by_peak: bool = False) -> Outcome:
    """The plan of least memory (kept, or at its peak) that repeats less than one per cent of the forward pass."""
    points = list(front)
    free = [point for point in points if point.recompute_over_forward <= NEGLIGIBLE] or points[:1]
    return min(free, key=lambda point: point.peak.bytes if by_peak else point.kept_bytes)


def within(front: Iterable[Outcome], budget: int) -> Outcome:
    """The plan of a front that repeats least in a budget of kept bytes."""
    points = list(front)
    fits = [point for point in points if point.kept_bytes <= budget]
    if not fits:
        least = min(points, key=lambda point: point.kept_bytes)
        short, said = least.kept_bytes - budget, f"no plan of the front keeps at most {budget:,} bytes; the least keeps"
        raise Impossible(f"{said} {least.kept_bytes:,}: {short:,} bytes short", least.peak.operator, short)
    return min(fits, key=lambda point: (point.recompute_over_forward, point.kept_bytes))


def baseline_outcomes(graph: Graph, problem: CheckpointProblem, narrow: bool = False) -> list[Outcome]:
    """Every baseline that does something to this network; plans that equal an earlier one are left out."""
    found: dict[CheckpointPlan, Outcome] = {}
    for baseline in BASELINES:
        plan = baseline.plan(graph, problem)
        if plan not in found:
            found[plan] = outcome_of_plan(graph, problem, plan, baseline.name, narrow)
    return list(found.values())


def narrowed_only(graph: Graph, problem: CheckpointProblem, budget: int) -> Outcome:
    """Everything narrowed and nothing recomputed, if that fits."""
    narrow = [value.storage for value in problem.values if value.needed and value.narrowable]
    outcome = outcome_of_plan(graph, problem, CheckpointPlan(dict.fromkeys(narrow, "narrow")), "narrow", True)
    if outcome.kept_bytes > budget:
        raise Impossible(
            f"narrowing alone keeps {outcome.kept_bytes:,} bytes, {outcome.kept_bytes - budget:,} above the budget; "
            "allow recomputation with --choices keep,recompute,narrow",
            outcome.peak.operator,
            outcome.kept_bytes - budget,
        )
    return outcome
