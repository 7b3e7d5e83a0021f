"""``monet fuse``: search for the fusion of a step, compare it with unfused, default and manual, save the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from monet.schedule.engine import Scheduler
    from monet.search.fusion.search import Found
    from monet.search.joint import Joint, Step


INFEASIBLE, INTERRUPTED = 3, 130  # exit codes


def fuse(
    model: Annotated[str, typer.Argument(help="Zoo name, path to an ONNX file, or file.py:function that returns a torch module.")],
    hardware: Annotated[str, typer.Option("--hardware", help="Preset name or path of a YAML file.")],
    limit: Annotated[int, typer.Option(min=1, max=12, help="Most operators of a group.")] = 6,
    objective: Annotated[str, typer.Option(help="latency, energy or edp.")] = "latency",
    effort: Annotated[int, typer.Option(min=1, max=10, help="1: a quick look, 10: as thorough as it gets.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of all random choices; the same seed gives the same plan.")] = 0,
    manual: Annotated[str, typer.Option(metavar="FILE", help="YAML plan to compare with. [default: two forward stacks]", show_default=False)] = "",
    batch: Annotated[int | None, typer.Option(help="Samples per step.")] = None,
    image: Annotated[int | None, typer.Option(help="Image height and width.")] = None,
    sequence: Annotated[int | None, typer.Option(help="Tokens per sample.")] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adamw.")] = "sgd",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16 (mixed, fp32 master weights), int16, int8 (inference).")] = "fp32",
    mode: Annotated[str, typer.Option(help="training, or inference: forward only.")] = "training",
    boundary: Annotated[str, typer.Option(help="keep: results stay on chip until evicted; dram: written out.")] = "keep",
    allocation: Annotated[str, typer.Option(metavar="FILE", help="YAML file that says which cores run which operators; of a whole plan its cores only.")] = "",
    joint: Annotated[bool, typer.Option("--joint", help="Then search fusion, tiles and allocation in turn until nothing improves.")] = False,
    set_values: Annotated[list[str] | None, typer.Option("--set", help="Set a hardware parameter or path: NAME=VALUE.")] = None,
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the plan that was found as YAML, - for standard output; monet run --fusion takes it.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page with the groups drawn on the graph.")] = "",
) -> None:  # fmt: skip
    """Find which operators to fuse, in what tiles: compared with unfused, the default, a manual plan and the bound."""
    from dataclasses import replace

    from monet.commands.job import job_for
    from monet.commands.run import overrides_of
    from monet.errors import MonetError
    from monet.report.files import check_outputs
    from monet.report.fusion import summary
    from monet.report.terminal import screen
    from monet.schedule.engine import NoSchedule, Scheduler
    from monet.schedule.plan import BOUNDARIES, Plan, load_plan
    from monet.search.fusion.evaluation import OBJECTIVES
    from monet.search.fusion.search import Settings

    for option, value, allowed in (
        ("--mode", mode, ("training", "inference")),
        ("--objective", objective, OBJECTIVES),
        ("--boundary", boundary, BOUNDARIES),
    ):
        if value not in allowed:
            raise MonetError(f"{option} {value!r}: allowed are {', '.join(allowed)}")
    check_outputs({"--report": report}, {"--json": json, "--save-plan": save_plan})
    sizes = {"batch": batch, "image": image, "sequence": sequence}
    job = job_for(
        model,
        hardware,
        mode=mode,
        sizes={key: value for key, value in sizes.items() if value is not None},
        training={"optimizer": optimizer, "precision": precision},
        overrides=overrides_of(set_values or []),
    )
    scheduler = Scheduler(job.graph(), job.accelerator(), objective)
    placements = load_plan(allocation).placements if allocation else {}
    base = Plan(placements=placements, boundary=boundary)
    try:
        found = _search(scheduler, Settings(objective, limit, effort, seed), base, manual)
    except NoSchedule as error:
        screen(errors=True).print(f"cannot run: {error}", soft_wrap=True)
        raise typer.Exit(INFEASIBLE) from None
    improved = _joint(scheduler, found) if joint and not found.interrupted else None
    if improved:
        found = replace(found, plans=found.plans | {"found": (improved.plan, improved.figures)})
    values = summary(scheduler, found, job.to_json())
    if improved:
        values["joint"] = [_step(one) for one in improved.steps]
    _write(scheduler, found, improved, values, json, save_plan, report)
    if found.interrupted or (improved and improved.interrupted):
        raise typer.Exit(INTERRUPTED)


def _write(
    scheduler: Scheduler,
    found: Found,
    improved: Joint | None,
    values: dict[str, Any],
    json: str,
    plan: str,
    report: str,
) -> None:
    """Files that were asked for, and the tables unless one of them is standard output."""
    from monet.report.files import write_json, write_text
    from monet.report.fusion import render
    from monet.report.terminal import screen
    from monet.schedule.plan import plan_text

    if json:
        write_json(json, values)
    if plan:
        write_text(plan, plan_text(found.plans["found"][0]))
    if report:
        from monet.report.html.fusion import write_fusion

        write_fusion(report, scheduler, found, values)
    if "-" not in (json, plan):
        screen().print(render(values))
        if improved:
            screen().print(_joint_table(improved))


def _step(one: Step) -> dict[str, Any]:
    """One step of the joint search, for JSON."""
    gained = {"round": one.round, "step": one.name, "gain": one.gain}
    return gained | {"latency_s": one.figures.latency_s, "energy_j": one.figures.energy_j}


def _search(scheduler: Scheduler, settings: Any, base: Any, manual: str) -> Found:
    """Run the search, with one line of progress on a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from monet.report.terminal import screen
    from monet.schedule.plan import load_plan
    from monet.search.fusion.search import find_fusion

    given = load_plan(manual) if manual else None
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=(console := screen(errors=True)), transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("compiling, once")
        return find_fusion(
            scheduler, settings, base=base, manual=given, say=lambda line: progress.update(task, description=line)
        )


def _joint(scheduler: Scheduler, found: Found) -> Joint:
    """Fusion, tiles and allocation in turn, from what fusion alone found."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from monet.report.quantities import joules, seconds
    from monet.report.terminal import screen
    from monet.search.allocation.evaluator import Evaluator
    from monet.search.joint import fusion_step, joint_search

    settings = found.settings
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=(console := screen(errors=True)), transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("joint search")

        def say(line: str) -> None:
            progress.update(task, description=line)

        def watch(stage: str, evaluator: Evaluator) -> None:
            if evaluator.best is not None:
                best = evaluator.best_figures
                say(
                    f"allocation, {stage}: {len(evaluator.known)} plans, "
                    f"best {seconds(best.latency_s)}, {joules(best.energy_j)}"
                )

        effort = max(1, settings.effort // 2)
        fuse_step = fusion_step(scheduler, settings.objective, settings.limit, effort, say)
        return joint_search(
            scheduler, fuse_step, base=found.plans["found"][0], objective=settings.objective, effort=effort,
            seed=settings.seed, watch=watch,
        )  # fmt: skip


def _joint_table(joint: Joint) -> Table:
    from monet.report.columns import Column
    from monet.report.terminal import rows_table

    columns: tuple[Column[Step], ...] = (
        Column("step", "", lambda one: one.name),
        Column("round", "n", lambda one: one.round),
        Column("latency", "s", lambda one: one.figures.latency_s),
        Column("energy", "J", lambda one: one.figures.energy_j),
        Column("off-chip", "B", lambda one: one.figures.dram_bytes),
        Column("gain", "%", lambda one: one.gain),
    )
    return rows_table("Joint search: what each step gained", columns, joint.steps)
