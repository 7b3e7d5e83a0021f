"""``monet checkpoint --memory peak``: the least repeated work under a peak of memory over time."""

from __future__ import annotations

from typing import Any

from monet.commands.progress import bars
from monet.errors import MonetError
from monet.graph.graph import Graph
from monet.quantities import parse_bytes
from monet.report.checkpoint import summary
from monet.search.checkpoint.liveness import peak_of
from monet.search.checkpoint.outcome import Outcome, baseline_outcomes, nearly_free, outcome_of_peak
from monet.search.checkpoint.peak import BudgetTooSmall
from monet.transforms.checkpoint_problem import CheckpointProblem, problem_of

SHARES = (95, 90, 85, 80, 75, 70, 65, 60, 55, 50, 45, 40, 35, 30, 25, 20, 15, 10, 5)  # per cent of the plain peak


def by_peak(step: Graph, budget: str, pareto: bool, method: str, choices: tuple[str, ...]) -> dict[str, Any]:
    """Repeated work against the peak of activations and their gradients; needs no hardware."""
    if method not in ("auto", "exact"):
        raise MonetError(f"--memory peak --method {method}: baselines and ga bound kept bytes; use --memory kept")
    if set(choices) != {"keep", "recompute"}:
        raise MonetError("--memory peak decides between keep and recompute only; use --memory kept for more choices")
    problem, plain = problem_of(step), peak_of(step)
    limit = parse_bytes("--budget", budget, plain.bytes) if budget else None if pareto else plain.bytes // 2
    front = _front(step, problem, plain.bytes) if pareto else []
    chosen = nearly_free(front, by_peak=True) if limit is None else outcome_of_peak(step, problem, limit)
    values = summary(step, problem, chosen, front, baseline_outcomes(step, problem), limit, choices)
    # what is known of a baseline is its distance to the optimum of its kept bytes, which says nothing of its peak
    baselines = [baseline | {"proved_optimal": None, "gap": None} for baseline in values["baselines"]]
    return values | {"memory": "peak", "baselines": baselines}


def _front(step: Graph, problem: CheckpointProblem, plain: int) -> list[Outcome]:
    """Budgets from the plain peak downwards until none fits, with progress on a terminal."""
    found = [outcome_of_peak(step, problem, plain)]
    with bars() as progress:
        task = progress.add_task("budgets", total=len(SHARES))
        for share in SHARES:
            try:
                found.append(outcome_of_peak(step, problem, plain * share // 100, schedules=False))
            except BudgetTooSmall:
                break
            finally:
                progress.advance(task)
    return found
