"""``monet allocate``: search which cores run which operators, and how operators are split over cores."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from monet.commands import INFEASIBLE, INTERRUPTED, MOST_SEED
from monet.commands.options import with_request
from monet.commands.progress import searching
from monet.report.allocation import plan_columns
from monet.report.columns import rows_table
from monet.report.files import check_outputs, write_json, write_text
from monet.report.html.allocation import write_allocation
from monet.report.screen import screen
from monet.request import Request
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.plan import load_plan, plan_text
from monet.search.allocation import allocate as search
from monet.search.allocation.bases import FUSIONS, allocate_fused
from monet.search.allocation.comparison import ComparedPlan, comparison
from monet.search.allocation.search import Allocation, check_options


@with_request(
    without=("fusion", "allocation"),
    objective="latency, energy or edp: of the plan, and of the mapping of each operator.",
)
def allocate(
    request: Request,
    fusion: Annotated[str, typer.Option(help="none; stacks: depth first, row by row; auto: the better of stacks and what run does; or a YAML file with a plan.")] = "auto",
    effort: Annotated[int, typer.Option(help="1 (200 plans) to 10 (7,400 plans).")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The same seed finds the same plan.")] = 0,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write the outcome as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML report.")] = "",
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the found plan as YAML, - for standard output; monet run --fusion FILE with the same --objective costs it again.")] = "",
) -> None:  # fmt: skip
    """Search which cores run which operators: one core, or split over several. Prints what is gained."""
    objective = request.objective
    check_options(objective, effort)
    check_outputs({"--report": report}, {"--json": json, "--save-plan": save_plan}, request.files())
    scheduler = request.scheduler()
    try:
        found = _search(scheduler, fusion, request.boundary, objective, effort, seed)
    except NoSchedule as error:
        screen(errors=True).print(f"cannot run: {error}")
        raise typer.Exit(INFEASIBLE) from None
    compared = comparison(scheduler, found, found.found.plan.boundary)
    settings = {"objective": objective, "effort": effort, "seed": seed, "fusion": fusion}
    if json:
        write_json(json, _as_json(scheduler, found, compared, settings))
    if save_plan:
        write_text(save_plan, plan_text(found.found.plan))
    if report:
        write_allocation(report, scheduler, found, compared, settings)
    if "-" not in (json, save_plan):
        _show(scheduler, found, compared, objective)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _search(scheduler: Scheduler, fusion: str, boundary: str, objective: str, effort: int, seed: int) -> Allocation:
    """Search with progress on standard error."""
    options: dict[str, Any] = {"objective": objective, "effort": effort, "seed": seed}
    with searching("placing operators") as watch:
        if fusion in FUSIONS or not fusion.endswith((".yaml", ".yml")):
            return allocate_fused(scheduler, fusion, boundary=boundary, watch=watch, **options)
        plan = load_plan(fusion)
        return search(scheduler, replace(plan, boundary=boundary or plan.boundary), watch=watch, **options)


def _show(scheduler: Scheduler, found: Allocation, compared: tuple[ComparedPlan, ...], objective: str) -> None:
    console = screen()
    graph, accelerator = scheduler.workload.graph, scheduler.machine.accelerator
    console.print(
        rows_table(
            f"{graph.name} on {accelerator.name}, objective {objective}",
            plan_columns(compared, accelerator.clock_hz),
            compared,
            lambda row: "bold" if row.name == "found" else "dim" if row.about == "published" else "",
        )
    )
    console.print(
        f"{found.tried:,} plans tried of {found.space:.2g}; {found.infeasible:,} could not run"
        + (f" (first: {found.reason})" if found.reason else "")
        + (". Interrupted: the best so far." if found.interrupted else ""),
        style="dim",
    )
    for source in dict.fromkeys(row.source for row in compared if row.source):
        console.print(f"published: {source}", style="dim")


def _as_json(
    scheduler: Scheduler, found: Allocation, compared: tuple[ComparedPlan, ...], settings: dict[str, Any]
) -> dict[str, Any]:
    return {
        "model": scheduler.workload.graph.name,
        "hardware": scheduler.machine.accelerator.name,
        **settings,
        "plans": [asdict(row) | {"edp_js": row.edp} for row in compared],
        "front": [
            {"latency_s": point.figures.latency_s, "energy_j": point.figures.energy_j, "plan": point.plan.to_dict()}
            for point in found.front
        ],
        "rounds": [
            {"stage": stage.name, "plans": stage.evaluations}
            | {"latency_s": stage.figures.latency_s, "energy_j": stage.figures.energy_j}
            for stage in found.rounds
        ],
        "plans_tried": found.tried,
        "infeasible": found.infeasible,
        "interrupted": found.interrupted,
        "plan": found.found.plan.to_dict(),
    }
