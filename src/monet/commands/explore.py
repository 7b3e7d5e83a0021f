"""``monet explore``: a space of designs searched for the best ones; every point kept, exported, reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

from monet.commands import INFEASIBLE, INTERRUPTED, MOST_SEED
from monet.commands.options import refuse_unused
from monet.commands.progress import bars
from monet.errors import MonetError
from monet.hardware.drawing import parameter_text
from monet.report.files import check_outputs, store_files, write_json, write_text
from monet.report.html import write_html
from monet.report.html.explore import write_exploration
from monet.report.screen import screen
from monet.report.table import Heading, TextTable
from monet.request import Request
from monet.search.hardware.analysis import objectives_of, scopes
from monet.search.hardware.exploration import Exploration, Progress, explore, objective_values, pareto
from monet.search.hardware.objectives import EXECUTED, Objective, parse_objective, shown
from monet.search.hardware.record import Record
from monet.search.hardware.samplers import SEARCHES
from monet.search.hardware.space import Space, load_space, space_names, space_schema
from monet.search.hardware.store import read_store
from monet.search.hardware.table import csv_text, write_optuna, write_parquet

MOST_ROWS, FRONT_REPORTS = 20, 8


class _SearchUnlessNamed(TyperGroup):
    """``monet explore SPACE`` is ``monet explore search SPACE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["search", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_SearchUnlessNamed,
    no_args_is_help=True,
    subcommand_metavar="SPACE [OPTIONS] | COMMAND [ARGS]...",
    help="Search a space of hardware designs: monet explore SPACE [OPTIONS]; see monet explore search --help.",
)


@app.command()
def search(
    space: Annotated[str, typer.Argument(help="YAML file, or the name of a shipped space (monet explore spaces).")],
    method: Annotated[str, typer.Option("--search", help="exhaustive, random, qmc (evenly spread), tpe or nsga2.")] = "exhaustive",
    points: Annotated[int | None, typer.Option(min=1, help="Different points to look at. [default: all, or 500]", show_default=False)] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The same seed gives the same front, whatever --jobs.")] = 0,
    objective: Annotated[list[str] | None, typer.Option(help="latency, energy, edp, memory, area; training.latency. Repeatable. [default: the space's]", show_default=False)] = None,
    store: Annotated[str, typer.Option(metavar="FILE", help="SQLite file that keeps every point. [default: SPACE.sqlite]", show_default=False)] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a store; what it holds is not evaluated again.")] = False,
    cluster: Annotated[str, typer.Option(metavar="ADDRESS", help="Dask scheduler (tcp://host:8786) whose workers evaluate.")] = "",
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which a point's process is ended; tried once more, then recorded.")] = 600.0,
    memory_limit: Annotated[float, typer.Option(min=0, help="GiB that the process of a point may take; 0: no limit.")] = 0.0,
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="Write the points as CSV, - for standard output.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write the front as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write an HTML page: fronts, designs, which parameters matter.")] = "",
    front_reports: Annotated[int, typer.Option(min=0, help="With --report: run reports of so many designs of each front, beside the page.")] = FRONT_REPORTS,
) -> None:  # fmt: skip
    """Evaluate designs of SPACE and keep every one: parameters, figures or the reason there are none."""
    if method not in SEARCHES:
        raise MonetError(f"--search {method!r}: allowed are {', '.join(SEARCHES)}")
    if not report:
        refuse_unused("without --report", {"--front-reports": front_reports != FRONT_REPORTS})
    if cluster:
        refuse_unused("with --cluster, whose workers evaluate", {"--jobs": jobs != 1})
    loaded = load_space(space)
    modes = {name: workload.mode for name, workload in loaded.workloads.items()}
    chosen = tuple(parse_objective(text, modes) for text in objective or ()) or loaded.objectives
    if any(goal.figure == EXECUTED for goal in chosen) and not loaded.executes:
        raise MonetError(f"--objective {EXECUTED}: steps are executed only for spaces that list it in their objectives")
    path = store or f"{loaded.name}.sqlite"
    check_outputs({**store_files(path), "--report": report}, {"--csv": csv, "--json": json}, (space,))
    with _display(chosen) as show:
        found = explore(
            loaded,
            path,
            search=method,
            points=points,
            seed=seed,
            objectives=chosen,
            resume=resume,
            jobs=jobs,
            cluster_address=cluster,
            timeout_s=timeout,
            memory_bytes=int(memory_limit * 2**30),
            show=show,
        )
    if csv:
        write_text(csv, csv_text(loaded, found.records))
    if json:
        write_json(json, _values(found, method, seed))
    if report and found.feasible:
        _write_report(loaded, found.records, chosen, report, front_reports)
    if "-" not in (csv, json):
        _print(found, path)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not found.feasible:
        typer.echo(f"no point has figures{', so there is no page' if report else ''}; {_commonest(found)}", err=True)
        raise typer.Exit(INFEASIBLE)


@app.command()
def export(
    store: Annotated[str, typer.Argument(help="Store of an exploration.")],
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="CSV file, - for standard output.")] = "",
    parquet: Annotated[str, typer.Option("--parquet", metavar="FILE", help="Parquet file (extra: monet-train[parquet]).")] = "",
    optuna: Annotated[str, typer.Option("--optuna", metavar="FILE", help="SQLite file with an Optuna study, for optuna-dashboard.")] = "",
) -> None:  # fmt: skip
    """Write the points of a store as a table: parameters, status, reason, figures with their units, seconds, version."""
    if not (csv or parquet or optuna):
        raise MonetError("say where to: --csv FILE, --parquet FILE or --optuna FILE")
    check_outputs({"--parquet": parquet, "--optuna": optuna}, {"--csv": csv}, _files_of(store))
    with read_store(store) as opened:
        records = list(opened.records())
        if csv:
            write_text(csv, csv_text(opened.space, records))
        if parquet:
            write_parquet(opened.space, records, parquet)
        if optuna:
            write_optuna(opened.space, records, opened.space.objectives, optuna)


@app.command()
def report(
    store: Annotated[str, typer.Argument(help="Store of an exploration.")],
    file: Annotated[str, typer.Argument(help="HTML file to write.")],
    front_reports: Annotated[int, typer.Option(min=0, help="Run reports of so many designs of each front, beside the page.")] = FRONT_REPORTS,
) -> None:  # fmt: skip
    """Write the HTML page of everything in a store."""
    check_outputs({"FILE": file}, {}, _files_of(store))
    with read_store(store) as opened:
        _write_report(opened.space, list(opened.records()), opened.space.objectives, file, front_reports)


@app.command()
def spaces() -> None:
    """List the spaces that come with monet."""
    rows = []
    for name in space_names():
        space = load_space(name)
        rows.append((name, f"{space.size:,}" if space.size else "any", str(space.base["name"]), space.model.about))
    screen().print(TextTable("", ("space", "points", Heading("hardware", "words"), Heading("", "prose")), rows))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a space file."""
    typer.echo(json.dumps(space_schema(), indent=2, ensure_ascii=False))


def _files_of(store: str) -> tuple[str, ...]:
    """A store and what lies beside it while it is written."""
    return store, f"{store}-wal", f"{store}-shm"


def _write_report(
    space: Space, records: Sequence[Record], objectives: Sequence[Objective], path: str, front_reports: int
) -> None:
    if not any(record.ok for record in records):
        raise MonetError("no point has figures, so there is nothing to draw; monet explore export shows the reasons")
    try:
        links = _run_reports(space, records, path, front_reports) if front_reports else {}
        write_exploration(path, space, records, objectives, links)
    except KeyError as missing:
        raise MonetError(f"a point has no figure {missing}; the store is damaged, or of another version") from None


def _run_reports(space: Space, records: Sequence[Record], path: str, most: int) -> dict[str, dict[str, str]]:
    """Run reports of some designs of every front, evenly along it; point → mode or workload → file beside the page."""
    folder = Path(path).with_suffix("")
    folder = folder.with_name(f"{folder.name}-designs")
    links: dict[str, dict[str, str]] = {}
    for scope in scopes(space):
        front = pareto(space, records, objectives_of(space, scope))
        step = max(1, -(-len(front) // most))
        for number, record in enumerate(front[::step]):
            workloads = space.workloads_at(record.values)
            name = next(key for key, workload in workloads.items() if scope in (key, workload.mode))
            design = {"hardware": space.hardware_document(record.values), "set": {}}
            request = Request.from_json({**workloads[name].to_json(), **design})
            folder.mkdir(exist_ok=True)
            file = folder / f"{scope}-{number + 1:02}.html"
            write_html(request.evaluate(), file)
            links.setdefault(space.key(record.values), {})[scope] = f"{folder.name}/{file.name}"
    return links


def _values(found: Exploration, method: str, seed: int) -> dict[str, Any]:
    return {
        "space": found.space.name,
        "search": method,
        "seed": seed,
        "points": len(found.records),
        "feasible": len(found.feasible),
        "evaluated_now": found.evaluated,
        "objectives": [objective.text for objective in found.objectives],
        "front": [{"parameters": dict(record.values), "metrics": dict(record.metrics)} for record in found.front()],
    }


def _commonest(found: Exploration) -> str:
    """The reason that most points have for not having figures."""
    reasons = Counter(record.reason for record in found.records if not record.ok).most_common(1)
    return f"{reasons[0][1]:,} of {len(found.records):,}: {reasons[0][0]}" if reasons else "none was evaluated"


def _print(found: Exploration, path: str) -> None:
    console, chosen = screen(), found.front()
    infeasible = sum(record.status == "infeasible" for record in found.records)
    failed = [record for record in found.records if record.status == "failed"]
    stopped = " (stopped early)" if found.interrupted else ""
    console.print(
        f"{len(found.records):,} points{stopped}: {len(found.feasible):,} with figures, {infeasible:,} infeasible, "
        f"{len(failed):,} failed; {found.evaluated:,} evaluated now in {found.seconds:.1f} s; kept in {path}"
    )
    for record in failed[:3]:
        console.print(f"failed: {dict(record.values)}: {record.reason}", style="red")
    console.print(_front_table(found, chosen, path))


def _front_table(found: Exploration, chosen: Sequence[Record], path: str) -> TextTable:
    """The designs of a front by number: their objectives, their parameters, their area."""
    parameters, rows = found.space.parameters, []
    values = objective_values(found.space, chosen, found.objectives)
    for number, (record, row) in enumerate(list(zip(chosen, values, strict=True))[:MOST_ROWS], 1):
        figures = (shown(goal, value) for goal, value in zip(found.objectives, row, strict=True))
        settings = (parameter_text(parameter.path, record.values[parameter.name]) for parameter in parameters)
        rows.append((str(number), *figures, *settings, f"{record.metrics['area_mm2']:.1f} mm²"))
    names = (*(goal.text for goal in found.objectives), *(parameter.name for parameter in parameters))
    if "area" not in names:
        names += ("area",)
    size = "1 design" if len(chosen) == 1 else f"{len(chosen)} designs"
    rest = len(chosen) - MOST_ROWS
    more = f"{rest} more: monet explore export {path} --csv FILE" if rest > 0 else ""
    return TextTable(f"Front of {size}", ("", *names), rows, more=more)


@contextmanager
def _display(objectives: Sequence[Objective]) -> Iterator[Callable[[Progress], None]]:
    """Points per second, time left, size of the front and the best of each objective, on a terminal only."""
    columns = (TextColumn("[bold]points"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with bars(*columns, TextColumn("{task.fields[said]}"), transient=False) as display:
        task = display.add_task("points", total=None, said="")

        def show(progress: Progress) -> None:
            if not progress.done:
                display.update(task, total=progress.total, said="starting processes")
                return
            rate = progress.evaluated / progress.seconds if progress.seconds else 0.0
            lowest = map(min, zip(*progress.front, strict=True))  # of each objective
            best = ", ".join(
                f"{goal.text} {shown(goal, value)}" for goal, value in zip(objectives, lowest, strict=False)
            )
            lost = progress.infeasible + progress.failed
            said = f"{rate:.1f}/s · front {len(progress.front)} · best {best}"
            said += f" · {lost} without figures" if lost else ""
            display.update(task, completed=progress.done, total=progress.total, said=said)

        yield show
