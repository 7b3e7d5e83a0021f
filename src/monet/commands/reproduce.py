"""``monet reproduce``: one study of the paper, its figure and its numbers beside ours."""

from __future__ import annotations

from typing import Annotated

import typer

from monet.commands import MOST_SEED
from monet.errors import MonetError
from monet.report.files import check_outputs, write_json
from monet.report.html.study import write_study
from monet.report.screen import screen
from monet.studies.study import STUDIES, Options, study_named

USUAL, MOST = 5, 10  # efforts


def reproduce(
    study: Annotated[str, typer.Argument(help="Name of the study; without one, what there is.")] = "",
    effort: Annotated[int, typer.Option(min=1, max=MOST, help="1: a quick look, 10: as thorough as it gets.")] = USUAL,
    full: Annotated[bool, typer.Option("--full", help="All of it, as --effort 10; may take an hour.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of all random choices; the same seed gives the same answer.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; does not change the answer.")] = 1,
    store: Annotated[str, typer.Option(metavar="FOLDER", help="Where studies of hardware keep their points. [default: the user's cache]", show_default=False)] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page.")] = "",
) -> None:  # fmt: skip
    """Repeat one study of the MONET paper: its figure and its published numbers beside ours."""
    if not study:
        for name, (_, about) in STUDIES.items():
            typer.echo(f"{name:24}{about}")
        return
    run = study_named(study)
    if full and effort != USUAL:
        raise MonetError(f"--full, --effort {effort}: give one of them; --full is --effort {MOST}")
    effort = MOST if full else effort
    check_outputs({"--report": report}, {"--json": json})
    errors = screen(errors=True)
    outcome = run(Options(seed, effort, jobs, lambda line: errors.print(line, style="dim"), store))
    values = {"study": study, "seed": seed, "effort": effort} | dict(outcome.values)
    if json:
        write_json(json, values)
    if report:
        write_study(report, outcome.title, outcome.facts, outcome.panels)
    if json != "-":
        console = screen()
        for block in outcome.tables:
            console.print(block)
