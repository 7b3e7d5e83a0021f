"""``monet models``: what is built in."""

from __future__ import annotations

from typing import Annotated

import typer


def models(
    json: Annotated[
        str, typer.Option("--json", help="Write JSON to FILE, or to standard output for -.", metavar="FILE")
    ] = "",
) -> None:
    """List the built-in models: parameters, work and saved bytes of one training step at default size."""
    from rich.console import Console
    from rich.table import Table

    from monet.frontends import ZOO
    from monet.graph.counts import macs_by_part, parameter_count, saved_bytes
    from monet.report.files import write_json
    from monet.report.units import count, size
    from monet.training import training_step

    rows = []
    for model in ZOO.values():
        step = training_step(model())
        rows.append(
            {
                "name": model.name,
                "about": model.about,
                "image": model.image or None,
                "sequence": model.sequence or None,
                "parameters": parameter_count(step),
                "macs": macs_by_part(step).as_dict(),
                "saved_for_backward_bytes": saved_bytes(step),
            }
        )
    if json:
        write_json(json, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("model", "left"),
        ("size", "right"),
        ("parameters", "right"),
        ("MACs/step", "right"),
        ("saved", "right"),
        ("about", "left"),
    ):
        table.add_column(name, justify=justify, no_wrap=name != "about")  # type: ignore[arg-type]
    for model, row in zip(ZOO.values(), rows, strict=True):
        sizes = f"{model.image}²" if model.image else f"{model.sequence} tok" if model.sequence else ""
        macs, saved = row["macs"]["total"], row["saved_for_backward_bytes"]  # type: ignore[index]
        table.add_row(model.name, sizes, count(row["parameters"]), count(macs), size(saved), model.about)  # type: ignore[arg-type]
    console = Console()
    console.print(table)
    console.print("\nBatch 1, fp32. Use them as: monet graph NAME --batch 8 --optimizer adam", style="dim")
