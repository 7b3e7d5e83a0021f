"""``monet graph``: the training graph of a model, counted, printed, exported."""

from __future__ import annotations

from typing import Annotated

import typer

from monet.commands.options import with_request
from monet.report.files import check_outputs, write_json, write_text
from monet.report.graph_summary import render, summarise
from monet.report.screen import screen
from monet.request import Request


@with_request("model", "training", "checkpoint")
def graph(
    request: Request,
    json: Annotated[str, typer.Option("--json", help="Write the summary as JSON to FILE, - for standard output.", metavar="FILE")] = "",
    onnx: Annotated[str, typer.Option("--onnx", help="Export the graph as ONNX to FILE.", metavar="FILE")] = "",
    text: Annotated[str, typer.Option("--text", help="Write the readable text form to FILE, - for standard output.", metavar="FILE")] = "",
) -> None:  # fmt: skip
    """Show the training graph: operators, work and memory by phase; export it."""
    check_outputs({"--onnx": onnx}, {"--json": json, "--text": text}, request.files())
    result = request.graph()
    if onnx:
        from monet.report.onnx import export_onnx

        export_onnx(result, onnx)
    if text:
        write_text(text, str(result))
    if json:
        write_json(json, summarise(result))
    if "-" not in (json, text):
        console = screen()
        console.print(render(summarise(result)))
        if onnx:
            console.print(f"\nwrote {onnx}", style="dim")
