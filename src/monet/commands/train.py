"""``monet train``: real training steps of a small model, and the loss beside that of fp32."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from monet.commands import MOST_SEED
from monet.commands.options import with_request
from monet.commands.progress import counted
from monet.errors import OptionError
from monet.numerics.gradient_error import check_executable
from monet.numerics.learning import LossCurve, data_for, learn
from monet.report.files import check_outputs, write_json
from monet.report.html.study import write_study
from monet.report.learning import drawing, info, panels, table
from monet.report.screen import screen
from monet.request import Request
from monet.transforms.precision import precision_named

BATCH = 32


@with_request("model", "training", without=("mode", "micro_batches", "optimizer", "saved"))
def train(
    request: Request,
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Training steps.")] = 100,
    data: Annotated[str, typer.Option(help="cart-pole, arm (simulated dynamics), or an .npz file with samples of every input and label. [default: what fits the model]", show_default=False)] = "",
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adamw.")] = "adam",
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of weights, data, batches and stochastic rounding; the same seed gives the same curve.")] = 0,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page.")] = "",
) -> None:  # fmt: skip
    """Train a small model for real, in NumPy, and draw its loss against that of fp32: does a number format learn?"""
    check_outputs({"--report": report}, {"--json": json}, (*request.files(), data))
    asked = replace(request, batch=request.batch or BATCH, optimizer=optimizer)
    given = asked.precision or "fp32"
    policy = precision_named(given)
    wanted = [(policy.name, given), *([("fp32", "fp32")] if policy.name != "fp32" else [])]
    curves = [_curve(replace(asked, precision=precision), name, steps, data, seed) for name, precision in wanted]
    values = {"model": request.model, "batch": asked.batch, "steps": steps, "seed": seed, "optimizer": optimizer}
    if json:
        write_json(json, values | {"curves": info(curves)})
    title = f"{request.model}, {steps} steps of {optimizer}, batch {asked.batch}"
    if report:
        write_study(report, title, (f"seed {seed}", data or "simulated dynamics"), panels(curves))
    if json != "-":
        console = screen()
        console.print(title)
        console.print(drawing(curves))
        console.print(table(curves))


def _curve(request: Request, name: str, steps: int, data: str, seed: int) -> LossCurve:
    if not isinstance(request.model, str):
        raise OptionError("model", request.model, "the name or file of a model is needed")
    step = request.graph()
    check_executable(step)
    samples = data_for(step, data, seed)
    with counted(name, steps) as watch:
        return learn(step, samples, steps, seed=seed, precision=name, say=lambda number, _: watch(number + 1))
