"""``monet graph``: the training graph of a model, counted, printed, exported."""

from __future__ import annotations

from typing import Annotated

import typer

_MODEL = "Zoo name, path to an ONNX file, or file.py:function that returns a torch module."


def graph(
    model: Annotated[str, typer.Argument(help=_MODEL)],
    batch: Annotated[int | None, typer.Option(help="Samples per step.")] = None,
    image: Annotated[int | None, typer.Option(help="Image height and width.")] = None,
    sequence: Annotated[int | None, typer.Option(help="Tokens per sample.")] = None,
    inputs: Annotated[list[str] | None, typer.Option("--input", help="Input of a torch module: 1x3x224x224, 1x128:int64.")] = None,
    dimensions: Annotated[list[str] | None, typer.Option("--dimension", help="Dynamic axis of an ONNX file: NAME=SIZE.")] = None,
    mode: Annotated[str, typer.Option(help="training, or inference: forward only.")] = "training",
    loss: Annotated[str, typer.Option(help="cross-entropy, mse or sum. [default: as the model is trained]", show_default=False)] = "",
    class_axis: Annotated[int | None, typer.Option(help="Axis of the output that holds the classes.")] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adamw.")] = "sgd",
    learning_rate: Annotated[float | None, typer.Option(help="Step size of the optimizer.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay of the optimizer.")] = None,
    clip_norm: Annotated[float | None, typer.Option(help="Clip gradients to this global norm.")] = None,
    micro_batches: Annotated[int, typer.Option(help="Split the batch and accumulate gradients over so many passes.")] = 1,
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16 (mixed, fp32 master weights), fp64.")] = "fp32",
    freeze: Annotated[list[str] | None, typer.Option(help="Do not train parameters that match this pattern.")] = None,
    lora: Annotated[int, typer.Option(help="Rank of low-rank adapters; everything else is frozen.")] = 0,
    attention: Annotated[str, typer.Option(help="explicit, or fused: keeps the log-sum-exp only.")] = "explicit",
    saved: Annotated[str, typer.Option(help="framework: what PyTorch keeps; compact: 1-bit masks, 1-byte indices.")] = "framework",
    json: Annotated[str, typer.Option("--json", help="Write the summary as JSON to FILE, - for standard output.", metavar="FILE")] = "",
    onnx: Annotated[str, typer.Option("--onnx", help="Export the graph as ONNX to FILE.", metavar="FILE")] = "",
    text: Annotated[str, typer.Option("--text", help="Write the readable text form to FILE, - for standard output.", metavar="FILE")] = "",
) -> None:  # fmt: skip
    """Show the training graph: operators, work and memory by phase; export it."""
    from monet.errors import MonetError
    from monet.frontends import load_model
    from monet.report.files import write_json, write_text
    from monet.report.graph_summary import render, summarise
    from monet.training import TrainingOptions, prepare, training_step

    if mode not in ("training", "inference"):
        raise MonetError(f"--mode {mode!r}: allowed are training, inference")
    forward = load_model(
        model,
        batch=_per_pass(batch, micro_batches),
        image=image,
        sequence=sequence,
        inputs=tuple(inputs or ()),
        dimensions=_sizes(dimensions or []),
    )
    options = TrainingOptions(
        loss=loss, class_axis=class_axis, optimizer=optimizer, rate=learning_rate, decay=weight_decay,
        clip_norm=clip_norm, accumulate=micro_batches, precision=precision, freeze=tuple(freeze or ()), lora=lora,
        attention=attention, saved=saved,
    )  # fmt: skip
    result = training_step(forward, options) if mode == "training" else prepare(forward, options)
    if onnx:
        from monet.report.onnx import export_onnx

        export_onnx(result, onnx)
    if text:
        write_text(text, str(result))
    if json:
        write_json(json, summarise(result))
    if "-" not in (json, text):
        from rich.console import Console

        console = Console()
        console.print(render(summarise(result)))
        if onnx:
            console.print(f"\nwrote {onnx}", style="dim", highlight=False)


def _per_pass(batch: int | None, micro_batches: int) -> int | None:
    from monet.errors import MonetError

    if micro_batches < 1:
        raise MonetError(f"--micro-batches {micro_batches}: at least 1 is needed")
    if micro_batches == 1:
        return batch
    if batch is None or batch % micro_batches:
        raise MonetError(f"--micro-batches {micro_batches} must divide --batch (given: {batch})")
    return batch // micro_batches


def _sizes(pairs: list[str]) -> dict[str, int]:
    from monet.errors import MonetError

    sizes = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not value.isdecimal() or int(value) < 1:
            raise MonetError(f"--dimension {pair!r}: write NAME=SIZE with a size of at least 1")
        sizes[name] = int(value)
    return sizes
