"""``monet run``: one training step (or inference) on an accelerator — time, energy, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from monet.commands.options import with_request
from monet.request import Request

if TYPE_CHECKING:
    from monet.schedule.plan import Plan

INFEASIBLE = 3  # exit code


@with_request()
def run(
    request: Request,
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the plan that was used as YAML, - for standard output.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write the result as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML report.")] = "",
    trace: Annotated[str, typer.Option("--trace", metavar="FILE", help="Write a Perfetto/Chrome trace.")] = "",
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="Write the table of operators as CSV.")] = "",
) -> None:  # fmt: skip
    """Cost one training step: latency, energy, memory over time, by phase, operator, core and level."""
    from monet.report.files import check_outputs

    check_outputs({"--report": report, "--trace": trace}, {"--json": json, "--csv": csv, "--save-plan": save_plan})
    _note_groups(request)
    result = request.evaluate()
    _write(result, json, report, trace, csv, save_plan)
    if "-" not in (json, csv, save_plan):
        from monet.report.terminal import render, screen

        screen().print(render(result))
    if not result.feasible:
        raise typer.Exit(INFEASIBLE)


def _note_groups(request: Request) -> None:
    """Say so if a plan is given for its cores, and has groups that nothing asks for."""
    from monet.schedule.plan import load_plan

    file = request.allocation
    if file and isinstance(file, str) and request.fusion in ("auto", "none") and (groups := load_plan(file).groups):
        typer.echo(
            f"note: --allocation takes cores only; give --fusion {file} for the {len(groups)} groups of {file} too",
            err=True,
        )


def _write(result: Any, json: str, report: str, trace: str, csv: str, save_plan: str) -> None:
    from monet.report.files import write_text
    from monet.report.result_file import write_result

    if json:
        write_result(result, json)
    if csv:
        from monet.report.table import write_csv

        write_csv(result, csv)
    if trace:
        from monet.report.perfetto import write_trace

        write_trace(result, trace)
    if report:
        from monet.report.html import write_html

        write_html(result, report)
    if save_plan:
        from monet.schedule.plan import Plan, plan_text

        plan: Plan = Plan.from_dict(result.plan)
        write_text(save_plan, plan_text(plan))
