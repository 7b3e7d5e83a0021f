"""``monet rerun``: the same evaluation again from the inputs a result records; equal, or what differs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from monet.distributed.result import DistributedResult
from monet.report.difference import shortened, unequal
from monet.report.files import check_outputs
from monet.report.result_file import read_any_result, write_result
from monet.report.screen import screen
from monet.request import Request
from monet.request.system_request import SystemRequest
from monet.schedule.result import Result

# Wall time differs from run to run; nothing else may.
NOT_COMPARED = frozenset({"seconds_to_evaluate", "inputs"})


def rerun(
    result: Annotated[str, typer.Argument(metavar="RESULT.json", help="What monet run --json wrote.")],
    top: Annotated[int, typer.Option(help="How many differences to show.", min=1)] = 20,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write the new result as JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write an HTML report of the new result.")] = "",
) -> None:  # fmt: skip
    """Evaluate again from the inputs inside a result; exit code 1 when the outcome differs."""
    check_outputs({"--report": report}, {"--json": json}, [result])
    before = read_any_result(result)
    after: Result | DistributedResult
    if isinstance(before, DistributedResult):
        after = SystemRequest.of_distributed(before).distribute()
    else:
        after = Request.of(before).evaluate()
    if json:
        write_result(after, json)
    if report:
        after.report(report)
    console = screen(errors=json == "-")
    found = differences(before, after)
    if not found:
        console.print(f"equal: {before!r}, made by monet {before.version}, evaluated again by {after.version}")
        return
    version = "" if before.version == after.version else f" (monet {before.version} then, {after.version} now)"
    console.print(f"{len(found)} differences{version}:")
    for path, old, new in found[:top]:
        console.print(f"  {path}: {shortened(old, 60, 'absent')} → {shortened(new, 60, 'absent')}")
    if len(found) > top:
        console.print(f"  and {len(found) - top} more")
    raise typer.Exit(1)


def differences(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """Places where two results differ, inputs and wall time left out."""
    plain = [json.loads(json.dumps(result.to_json())) for result in (before, after)]
    first, second = ({key: value for key, value in values.items() if key not in NOT_COMPARED} for values in plain)
    return unequal(first, second)
