"""``monet run``: one training step (or inference) on an accelerator — time, energy, memory."""

from __future__ import annotations

from typing import Annotated

import typer

from monet.commands import INFEASIBLE
from monet.commands.options import refuse_unused, with_request
from monet.report.files import check_outputs, write_text
from monet.report.operator_csv import write_csv
from monet.report.perfetto import write_trace
from monet.report.result_file import write_result
from monet.report.screen import screen
from monet.report.terminal import render
from monet.request import Request
from monet.request.multipliable import check_formats
from monet.request.system_request import SystemRequest
from monet.schedule.plan import Plan, load_plan, plan_text


@with_request(of=SystemRequest, needs_hardware=False, hardware="Preset name or path of a YAML file; or give --system.")
def run(
    request: SystemRequest,
    parallel: Annotated[str, typer.Option(metavar="FILE", rich_help_panel="System options", help="YAML file with a parallel plan (monet distribute --save-plan), in place of --data, --tensor and so on.")] = "",
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the plan that was used as YAML, - for standard output.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write the result as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML report.")] = "",
    trace: Annotated[str, typer.Option("--trace", metavar="FILE", help="Write a Perfetto/Chrome trace.")] = "",
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="Write the table of operators as CSV.")] = "",
) -> None:  # fmt: skip
    """Cost one training step: latency, energy, memory over time, by phase, operator, core and level."""
    check_outputs(
        {"--report": report, "--trace": trace},
        {"--json": json, "--csv": csv, "--save-plan": save_plan},
        (*request.files(), *((parallel,) if parallel else ())),
    )
    if request.system:
        _run_on_system(_under(request, parallel), {"--csv": csv, "--save-plan": save_plan}, json, report, trace)
        return
    refuse_unused("without --system", {"--parallel": parallel})
    _note_groups(request)
    check_formats(request)
    result = request.evaluate()
    for path, write in ((json, write_result), (csv, write_csv), (trace, write_trace)):
        if path:
            write(result, path)
    if report:
        from monet.report.html import write_html  # its modules take a while to import, and few runs ask for a page

        write_html(result, report)
    if save_plan:
        write_text(save_plan, plan_text(Plan.from_dict(result.plan)))
    if "-" not in (json, csv, save_plan):
        screen().print(render(result))
    if not result.feasible:
        raise typer.Exit(INFEASIBLE)


def _under(request: SystemRequest, file: str) -> SystemRequest:
    """A request under the parallel plan of a file, if one is given."""
    if not file:
        return request
    from monet.distributed.plan import load_parallel_plan

    return request.under(load_parallel_plan(file), file)


def _run_on_system(request: SystemRequest, unused: dict[str, object], json: str, report: str, trace: str) -> None:
    """One training step over the devices of a system."""
    from monet.report.distributed import render as rendered
    from monet.report.distributed_trace import write_distributed_trace

    refuse_unused("with --system", unused)
    result = request.distribute()
    if json:
        write_result(result, json)
    if trace:
        write_distributed_trace(result, trace)
    if report:
        result.report(report)
    if json != "-":
        screen().print(rendered(result))
    if not result.feasible:
        raise typer.Exit(INFEASIBLE)


def _note_groups(request: Request) -> None:
    """Say so if a plan is given for its cores, and has groups that nothing asks for."""
    file = request.allocation
    if file and isinstance(file, str) and request.fusion in ("auto", "none") and (groups := load_plan(file).groups):
        typer.echo(
            f"note: --allocation takes cores only; give --fusion {file} for the {len(groups)} groups of {file} too",
            err=True,
        )
