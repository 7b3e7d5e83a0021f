"""``monet allocate``: search which cores run which operators, and how operators are split over cores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from monet.schedule.engine import Scheduler
    from monet.search.allocation.comparison import Row
    from monet.search.allocation.evaluator import Evaluator
    from monet.search.allocation.search import Allocation

INFEASIBLE, INTERRUPTED = 3, 130  # exit codes


def allocate(
    model: Annotated[str, typer.Argument(help="Zoo name, path to an ONNX file, or file.py:function that returns a torch module.")],
    hardware: Annotated[str, typer.Option("--hardware", help="Preset name or path of a YAML file.")],
    batch: Annotated[int | None, typer.Option(help="Samples per step.")] = None,
    image: Annotated[int | None, typer.Option(help="Image height and width.")] = None,
    sequence: Annotated[int | None, typer.Option(help="Tokens per sample.")] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adamw.")] = "sgd",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16 (mixed, fp32 master weights), int16, int8 (inference).")] = "fp32",
    mode: Annotated[str, typer.Option(help="training, or inference: forward only.")] = "training",
    fusion: Annotated[str, typer.Option(help="none; stacks: depth first, row by row; auto: the better of stacks and what run does; or a YAML file with a plan.")] = "auto",
    boundary: Annotated[str, typer.Option(help="keep: results stay on chip until evicted; dram: written out. [default: keep, or the plan's]", show_default=False)] = "",
    objective: Annotated[str, typer.Option(help="latency, energy or edp: of the plan, and of the mapping of each operator.")] = "latency",
    effort: Annotated[int, typer.Option(help="1 (200 plans) to 10 (7,400 plans).")] = 5,
    seed: Annotated[int, typer.Option(help="The same seed finds the same plan.")] = 0,
    set_values: Annotated[list[str] | None, typer.Option("--set", help="Set a hardware parameter or path: NAME=VALUE.")] = None,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write the outcome as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML report.")] = "",
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the found plan as YAML, - for standard output; monet run --fusion FILE with the same --objective costs it again.")] = "",
) -> None:  # fmt: skip
    """Search which cores run which operators: one core, or split over several. Prints what is gained."""
    from monet.commands.job import job_for
    from monet.commands.run import overrides_of
    from monet.errors import MonetError
    from monet.report.files import check_outputs
    from monet.report.terminal import screen
    from monet.schedule.engine import NoSchedule, Scheduler
    from monet.search.allocation.comparison import comparison
    from monet.search.allocation.search import check_options

    if mode not in ("training", "inference"):
        raise MonetError(f"--mode {mode!r}: allowed are training, inference")
    check_options(objective, effort)
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
    try:
        found = _search(scheduler, fusion, boundary, objective, effort, seed)
    except NoSchedule as error:
        screen(errors=True).print(f"cannot run: {error}")
        raise typer.Exit(INFEASIBLE) from None
    rows = comparison(scheduler, found, found.found.plan.boundary)
    settings = {"objective": objective, "effort": effort, "seed": seed, "fusion": fusion}
    _write(scheduler, found, rows, settings, json, report, save_plan)
    if "-" not in (json, save_plan):
        _show(scheduler, found, rows, objective)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _search(scheduler: Scheduler, fusion: str, boundary: str, objective: str, effort: int, seed: int) -> Allocation:
    """Search with progress on standard error."""
    from dataclasses import replace

    from monet.schedule.plan import BOUNDARIES, PlanError, load_plan
    from monet.search.allocation import allocate as search
    from monet.search.allocation.bases import FUSIONS, allocate_fused

    if boundary and boundary not in BOUNDARIES:
        raise PlanError(f"--boundary {boundary!r}: allowed are {', '.join(BOUNDARIES)}")
    options: dict[str, Any] = {"objective": objective, "effort": effort, "seed": seed}
    with _progress(objective) as watch:
        if fusion in FUSIONS or not fusion.endswith((".yaml", ".yml")):
            return allocate_fused(scheduler, fusion, boundary=boundary or "keep", watch=watch, **options)
        plan = load_plan(fusion)
        return search(scheduler, replace(plan, boundary=boundary or plan.boundary), watch=watch, **options)


class _progress:  # noqa: N801  # reads as a with-statement
    """A line on standard error, if that is a terminal: stage, plans tried, rate, best so far."""

    def __init__(self, objective: str) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f} plans"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("best {task.fields[best]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._objective = objective
        self._task = self._progress.add_task("placing operators", total=None, rate="", best="–")

    def __enter__(self) -> Callable[[str, Evaluator], None]:
        self._progress.start()
        return self._update

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _update(self, stage: str, evaluator: Evaluator) -> None:
        from monet.report.quantities import joules, seconds

        task = self._progress.tasks[0]
        best = ""
        if evaluator.best is not None:
            figures = evaluator.best_figures
            best = f"{seconds(figures.latency_s)}, {joules(figures.energy_j)}"
        rate = f"{task.completed / task.elapsed:,.0f}/s" if task.elapsed else ""
        self._progress.update(self._task, advance=1, description=stage, best=best or "–", rate=rate)


def _show(scheduler: Scheduler, found: Allocation, rows: tuple[Row, ...], objective: str) -> None:
    from monet.report.allocation import plan_columns
    from monet.report.terminal import rows_table, screen

    console = screen()
    graph, accelerator = scheduler.workload.graph, scheduler.machine.accelerator
    console.print(
        rows_table(
            f"{graph.name} on {accelerator.name}, objective {objective}",
            plan_columns(rows, accelerator.clock_hz),
            rows,
            lambda row: "bold" if row.name == "found" else "dim" if row.about == "published" else "",
        )
    )
    evaluated = len(found.points) + found.infeasible
    console.print(
        f"{evaluated:,} plans tried of {found.space:.2g}; {found.infeasible:,} could not run"
        + (f" (first: {found.reason})" if found.reason else "")
        + (". Interrupted: the best so far." if found.interrupted else ""),
        style="dim",
    )
    for source in dict.fromkeys(row.source for row in rows if row.source):
        console.print(f"published: {source}", style="dim")


def _write(
    scheduler: Scheduler,
    found: Allocation,
    rows: tuple[Row, ...],
    settings: dict[str, Any],
    json: str,
    report: str,
    save_plan: str,
) -> None:
    from monet.report.files import write_json, write_text
    from monet.schedule.plan import plan_text

    if json:
        write_json(json, _as_json(scheduler, found, rows, settings))
    if save_plan:
        write_text(save_plan, plan_text(found.found.plan))
    if report:
        from monet.report.html.allocation import write_allocation

        write_allocation(report, scheduler, found, rows, settings)


def _as_json(
    scheduler: Scheduler, found: Allocation, rows: tuple[Row, ...], settings: dict[str, Any]
) -> dict[str, Any]:
    return {
        "model": scheduler.workload.graph.name,
        "hardware": scheduler.machine.accelerator.name,
        **settings,
        "plans": [asdict(row) | {"edp_js": row.edp} for row in rows],
        "front": [
            {"latency_s": one.figures.latency_s, "energy_j": one.figures.energy_j, "plan": one.plan.to_dict()}
            for one in found.front
        ],
        "rounds": [
            {"stage": one.name, "plans": one.evaluations}
            | {"latency_s": one.figures.latency_s, "energy_j": one.figures.energy_j}
            for one in found.rounds
        ],
        "plans_tried": len(found.points) + found.infeasible,
        "infeasible": found.infeasible,
        "interrupted": found.interrupted,
        "plan": found.found.plan.to_dict(),
    }
