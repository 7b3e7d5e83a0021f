"""``monet fuse``: search for the fusion of a step, compare it with unfused, default and manual, save the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from monet.commands import INFEASIBLE, INTERRUPTED, MOST_SEED
from monet.commands.options import with_request
from monet.commands.progress import searching
from monet.report.columns import Column, rows_table
from monet.report.files import check_outputs, write_json, write_text
from monet.report.fusion import render, summary
from monet.report.html.fusion import write_fusion
from monet.report.screen import screen
from monet.request import Request
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.plan import Plan, load_plan, plan_text
from monet.schedule.planning.default_plan import default_schedule
from monet.search.fusion.search import FoundFusion, FusionSettings, find_fusion
from monet.search.joint import Joint, JointStep, fusion_step, joint_search

STEPS: tuple[Column[JointStep], ...] = (
    Column("step", "", lambda step: step.name),
    Column("round", "n", lambda step: step.round),
    Column("latency", "s", lambda step: step.figures.latency_s),
    Column("energy", "J", lambda step: step.figures.energy_j),
    Column("off-chip", "B", lambda step: step.figures.dram_bytes),
    Column("gain", "%", lambda step: step.gain),
)


@with_request(
    without=("fusion",), objective="What is to be least, and what mappings are chosen for: latency, energy or edp."
)
def fuse(
    request: Request,
    limit: Annotated[int, typer.Option(min=1, max=12, help="Most operators of a group.")] = 6,
    effort: Annotated[int, typer.Option(min=1, max=10, help="1: a quick look, 10: as thorough as it gets.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of all random choices; the same seed gives the same plan.")] = 0,
    manual: Annotated[str, typer.Option(metavar="FILE", help="YAML plan to compare with. [default: two forward stacks]", show_default=False)] = "",
    joint: Annotated[bool, typer.Option("--joint", help="Then search fusion, tiles and allocation in turn until nothing improves.")] = False,
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the plan that was found as YAML, - for standard output; monet run --fusion takes it.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page with the groups drawn on the graph.")] = "",
) -> None:  # fmt: skip
    """Find which operators to fuse, in what tiles: compared with unfused, the default, a manual plan and the bound."""
    check_outputs({"--report": report}, {"--json": json, "--save-plan": save_plan}, request.files())
    scheduler = request.scheduler()
    try:
        scheduler.check_fits()
        base = default_schedule(scheduler, "auto", request.boundary, request.placements()).plan
        found = _search(scheduler, FusionSettings(request.objective, limit, effort, seed), base, manual)
    except NoSchedule as error:
        screen(errors=True).print(f"cannot run: {error}", soft_wrap=True)
        raise typer.Exit(INFEASIBLE) from None
    improved = _joint(scheduler, found) if joint and not found.interrupted else None
    if improved:
        found = replace(found, plans=found.plans | {"found": (improved.plan, improved.figures)})
    values = summary(scheduler, found, request.to_json())
    if improved:
        values["joint"] = [
            {"round": step.round, "step": step.name, "gain": step.gain, "latency_s": step.figures.latency_s,
             "energy_j": step.figures.energy_j}
            for step in improved.steps
        ]  # fmt: skip
    if json:
        write_json(json, values)
    if save_plan:
        write_text(save_plan, plan_text(found.plans["found"][0]))
    if report:
        write_fusion(report, scheduler, found, values)
    if "-" not in (json, save_plan):
        screen().print(render(values))
        if improved:
            screen().print(rows_table("Joint search: what each step gained", STEPS, improved.steps))
    if found.interrupted or (improved and improved.interrupted):
        raise typer.Exit(INTERRUPTED)


def _search(scheduler: Scheduler, settings: FusionSettings, base: Plan, manual: str) -> FoundFusion:
    """Run the search, with one line of progress on a terminal."""
    given = load_plan(manual) if manual else None
    with searching("analysing") as watch:
        return find_fusion(scheduler, settings, base=base, manual=given, watch=watch)


def _joint(scheduler: Scheduler, found: FoundFusion) -> Joint:
    """Fusion, tiles and allocation in turn, from what fusion alone found."""
    settings = found.settings
    effort = max(1, settings.effort // 2)
    with searching("joint search") as watch:
        fuse_step = fusion_step(scheduler, settings.objective, settings.limit, effort, watch)
        return joint_search(
            scheduler, fuse_step, base=found.plans["found"][0], objective=settings.objective, effort=effort,
            seed=settings.seed, watch=watch,
        )  # fmt: skip
