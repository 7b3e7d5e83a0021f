"""``monet checkpoint``: which activations to keep, recompute or narrow; what that saves, what it costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monet.commands import INFEASIBLE, INTERRUPTED, MOST_SEED
from monet.commands.checkpoint_peak import by_peak
from monet.commands.checkpoint_policies import Find, by_policy, table
from monet.commands.checkpoint_schedule import Asked, by_schedule
from monet.commands.options import refuse_unused, with_request
from monet.commands.progress import bars, counted
from monet.errors import MonetError, nearest
from monet.graph.graph import Graph
from monet.quantities import parse_bytes
from monet.report import checkpoint_schedule
from monet.report.checkpoint import render, summary
from monet.report.files import check_outputs, write_json, write_text
from monet.report.html.checkpoint import write_checkpoint
from monet.report.screen import screen
from monet.request import Request
from monet.schedule.plan import Plan, plan_text
from monet.search.checkpoint.genetic import exact_curve, genetic_outcomes, static_front
from monet.search.checkpoint.outcome import (
    FRONT_SHARES,
    Outcome,
    baseline_outcomes,
    exact_front,
    narrowed_only,
    nearly_free,
    outcome_of,
    outcome_of_plan,
    within,
)
from monet.search.checkpoint.static import best_under
from monet.search.genetic import EvolutionSettings
from monet.transforms.checkpoint_baselines import BASELINES, baseline_named
from monet.transforms.checkpoint_plan import (
    CHOICES,
    CheckpointPlan,
    Impossible,
    checkpoint_plan_text,
    is_plan_file,
    load_checkpoint_plan,
)
from monet.transforms.checkpoint_problem import CheckpointProblem, problem_of

COSTS = ("flops", "schedule")
SCHEDULED = ("hardware", "set", "fusion", "allocation", "boundary", "objective")  # options of a schedule


@with_request(
    without=("mode", "checkpoint", "phases"),
    needs_hardware=False,
    hardware="Preset name or path of a YAML file; needed for --cost schedule.",
    fusion="The plan to start from: auto, none, or a YAML file (--cost schedule).",
)
def checkpoint(
    request: Request,
    budget: Annotated[str, typer.Option(help="Most memory to keep: 12MB, 11.5MiB, or 50% of what is kept without a plan.")] = "",
    memory: Annotated[str, typer.Option(help="What the budget bounds: kept, bytes from forward to backward; peak, activations and their gradients over time (--cost flops).")] = "kept",
    pareto: Annotated[bool, typer.Option("--pareto", help="The whole front instead of one budget.")] = False,
    method: Annotated[str, typer.Option(help="auto, exact, ga, or a baseline: keep-all, recompute-all, sqrt-segments, per-block, selective-attention, cheap-operators; or the YAML file of a plan, to cost it.")] = "auto",
    cost: Annotated[str, typer.Option(help="schedule: through the full schedule; flops: repeated work only. [default: schedule if there is hardware]", show_default=False)] = "",
    choices: Annotated[str, typer.Option(help="What may be done with an activation: keep,recompute,offload,narrow.")] = "keep,recompute",
    joint: Annotated[bool, typer.Option("--joint", help="Fusion and checkpointing in turn, until neither improves (--cost schedule).")] = False,
    effort: Annotated[int, typer.Option(min=1, max=10, help="1: a quick look, 10: as thorough as it gets (--method ga).")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of all random choices; the same seed gives the same front.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; does not change the answer.")] = 1,
    policies: Annotated[str, typer.Option(help="Precision policies to compare, divided by commas, with the error of their gradients against fp32.")] = "",
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the chosen plan as YAML, - for standard output; monet run --checkpoint takes it.")] = "",
    save_schedule: Annotated[str, typer.Option(metavar="FILE", help="Write the schedule's plan as YAML; monet run --checkpoint … --fusion takes it (--cost schedule).")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page with the front.")] = "",
) -> None:  # fmt: skip
    """Choose what to keep for the backward pass: exact optimum, front and baselines, with proof or gap."""
    cost = cost or ("schedule" if request.hardware else "flops")
    _check(request, cost, memory)
    saved = {"--save-plan": save_plan, "--save-schedule": save_schedule}
    check_outputs({"--report": report}, {"--json": json, **saved}, request.files())
    allowed = choices_of(choices)
    if cost == "flops":
        of_schedule = {"--save-schedule": save_schedule, "--joint": joint, "--jobs": jobs != 1}
        refuse_unused("with --cost flops", of_schedule, request, *SCHEDULED)
    if method not in (("auto", "ga") if cost == "schedule" else ("ga",)):
        refuse_unused("unless a population evolves (--method ga)", {"--seed": seed, "--effort": effort != 5})
    if method not in ("auto", "exact", "ga"):
        refuse_unused(f"on the plan of --method {method}", {"--budget": budget, "--pareto": pareto})

    def found(asked: Request, step: Graph) -> dict[str, Any]:
        if memory == "peak":
            return by_peak(step, budget, pareto, method, allowed)
        if cost == "flops":
            return _by_flops(step, budget, pareto, method, allowed, seed, effort)
        return by_schedule(step, Asked(asked, budget, method, allowed, seed, effort, jobs, joint))

    if policies:
        _compare(request, policies, found, json, {**saved, "--report": report})
        return
    step = request.graph()
    try:
        values = found(request, step)
    except Impossible as error:
        _refuse(error, step.name, cost, budget, json)
        raise typer.Exit(INFEASIBLE) from None
    if json:
        write_json(json, values)
    if save_plan:
        write_text(save_plan, checkpoint_plan_text(CheckpointPlan.from_dict(values["plan"])))
    if save_schedule:
        write_text(save_schedule, plan_text(Plan.from_dict(values["schedule_plan"])))
    if report:
        write_checkpoint(report, values)
    if "-" not in (json, save_plan, save_schedule):
        screen().print((checkpoint_schedule.render if cost == "schedule" else render)(values))
    if values.get("interrupted"):
        raise typer.Exit(INTERRUPTED)
    if not values["feasible"]:
        raise typer.Exit(INFEASIBLE)


def _check(request: Request, cost: str, memory: str) -> None:
    """What is costed, and what the budget bounds."""
    if cost not in COSTS:
        raise MonetError(f"--cost {cost!r}; {nearest(cost, COSTS)}")
    if cost == "schedule" and not request.hardware:
        raise MonetError("--cost schedule needs --hardware, a preset or a YAML file; or use --cost flops")
    if memory not in ("kept", "peak") or (memory == "peak" and cost != "flops"):
        raise MonetError(f"--memory {memory!r}: allowed are kept, and with --cost flops peak")


def _compare(request: Request, policies: str, found: Find, json: str, unused: dict[str, object]) -> None:
    values = by_policy(request, policies, found, unused)
    if json:
        write_json(json, values)
    if json != "-":
        screen().print(table(values))
    if not values["feasible"]:
        raise typer.Exit(INFEASIBLE)


def _refuse(error: Impossible, model: str, cost: str, budget: str, json: str) -> None:
    """No plan is within the budget: a result that says where the floor is, and how far above."""
    if json:
        values = {"model": model, "cost": cost, "budget": budget, "feasible": False, "reason": str(error)}
        unknown = dict.fromkeys(("kept_bytes", "recompute_over_forward", "proved_optimal", "gap"))
        floor = {"floor_operator": error.operator, "bytes_short": error.bytes_short}
        write_json(json, values | floor | unknown | {"front": []})
    screen(errors=True).print(f"impossible: {error}", soft_wrap=True)


def _by_flops(
    step: Graph, budget: str, pareto: bool, method: str, choices: tuple[str, ...], seed: int, effort: int
) -> dict[str, Any]:
    """Repeated work against kept bytes; needs no hardware."""
    if "offload" in choices:
        raise MonetError("--choices offload: what paging costs depends on a link; use --hardware and --cost schedule")
    problem = problem_of(step)
    narrow = "narrow" in choices
    limit = parse_bytes("--budget", budget, problem.keep_all_bytes) if budget else None
    if limit is None and not pareto and method in ("auto", "exact"):
        limit = problem.keep_all_bytes // 2
    front = _front(step, problem, narrow) if pareto and "recompute" in choices and method != "ga" else []
    if method == "ga":
        front = _genetic(step, problem, narrow, seed, effort)
        chosen = nearly_free(front) if limit is None else within(front, limit)
    elif front and limit is None and method in ("auto", "exact"):
        chosen = nearly_free(front)
    else:
        chosen = _chosen(step, problem, limit, method, choices)
    baselines = baseline_outcomes(step, problem, narrow)
    return summary(step, problem, chosen, front, baselines, limit, choices)


def _chosen(
    step: Graph, problem: CheckpointProblem, limit: int | None, method: str, choices: tuple[str, ...]
) -> Outcome:
    if is_plan_file(method):
        plan = load_checkpoint_plan(method)
        if plan.named("offload"):
            raise MonetError(f"--method {method}: pages to the host cost time, not FLOPs; give --hardware")
        return outcome_of_plan(step, problem, plan, method, "narrow" in choices)
    if method not in ("auto", "exact"):
        baseline = baseline_named(method)
        return outcome_of_plan(step, problem, baseline.plan(step, problem), baseline.name)
    budget = problem.keep_all_bytes if limit is None else limit
    if "recompute" not in choices:
        return narrowed_only(step, problem, budget)
    return outcome_of(step, best_under(problem, budget, "narrow" in choices))


def _genetic(step: Graph, problem: CheckpointProblem, narrow: bool, seed: int, effort: int) -> list[Outcome]:
    """The front of NSGA-II on repeated work and kept bytes, with progress on a terminal."""
    population, generations = 60, 10 * effort
    with counted("plans", population * generations) as watch:
        exact = exact_curve(problem, narrow=narrow)
        seeds = [outcome.plan for outcome in exact] + [baseline.plan(step, problem) for baseline in BASELINES]
        front = static_front(
            problem,
            seeds,
            narrow=narrow,
            seed=seed,
            settings=EvolutionSettings(population, generations),
            watch=lambda _, scores: watch(len(scores)),
        )
    return genetic_outcomes(step, front, exact)


def _front(step: Graph, problem: CheckpointProblem, narrow: bool) -> list[Outcome]:
    """The exact front, with progress on a terminal."""
    with bars() as shown:
        task = shown.add_task("budgets", total=len(FRONT_SHARES))
        return exact_front(step, problem, narrow, say=lambda _: shown.advance(task))


def choices_of(text: str) -> tuple[str, ...]:
    """What may be done with an activation, from a comma-separated list."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in CHOICES:
            raise MonetError(f"--choices {name!r}; {nearest(name, CHOICES)}")
    if "keep" not in names or len(names) < 2:
        raise MonetError(f"--choices {text!r}: keep and at least one of recompute, offload, narrow")
    return names
