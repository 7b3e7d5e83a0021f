"""``monet models``: what is built in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from monet.errors import MonetError
from monet.frontends import FAMILIES, ZOO, ZooModel, zoo_model
from monet.frontends.zoo.parameters import parameters, shown
from monet.report.files import check_outputs, write_json
from monet.report.quantities import count, nbytes
from monet.report.screen import screen
from monet.report.table import Heading, TextTable


def models(
    model: Annotated[str, typer.Argument(help="One model or family, with parameters or without: what it costs, what its parameters mean.", show_default=False)] = "",
    counts: Annotated[bool, typer.Option("--counts", help="Count parameters, work and saved bytes of one training step of every model.")] = False,
    json: Annotated[str, typer.Option("--json", help="Write all of it as JSON to FILE, or to standard output for -.", metavar="FILE")] = "",
) -> None:  # fmt: skip
    """List the built-in models, and the families with their parameters."""
    check_outputs({}, {"--json": json})
    if counts and (model or json):
        raise MonetError("--counts: has no effect on one model, or on JSON, which have them anyway; leave it out")
    chosen = [zoo_model(model)] if model else list(ZOO.values())
    if json:
        write_json(json, [_row(listed) for listed in chosen])
        return
    console = screen()
    if model or counts:
        console.print(_counts(chosen))
        console.print("\nBatch 1, fp32; a training step, or the forward pass if nothing is trained.", style="dim")
    else:
        described = [(listed.name, _size(listed), _described(listed)) for listed in chosen]
        console.print(_table(("model", "size", Heading("what it is", "prose")), described))
        console.print("\nParameters follow a name: gpt:layers=48,hidden=6144 resnet18:classes=10", style="dim")
        console.print("One in full: monet models gpt. Work and bytes of all: monet models --counts\n", style="dim")
        settings = [(family.name, ", ".join(map("=".join, _settings(family)))) for family in FAMILIES.values()]
        console.print(_table(("family", Heading("parameters", "prose")), settings))
    if model and _settings(chosen[0]):
        rows = [
            (*setting, parameter.about)
            for setting, parameter in zip(_settings(chosen[0]), parameters(chosen[0].family).values(), strict=True)
        ]
        console.print("", _table(("parameter", Heading("value", "words"), Heading("meaning", "prose")), rows), sep="\n")


def _table(headings: tuple[Heading | str, ...], rows: Sequence[tuple[str, ...]]) -> TextTable:
    return TextTable("", headings, rows)


def _size(model: ZooModel) -> str:
    return f"{model.image}²" if model.image else f"{model.sequence} tok" if model.sequence else ""


def _described(model: ZooModel) -> str:
    """The family of a model, what it sets, and what is said of it."""
    kin = [relative for relative in FAMILIES.values() if type(relative.family) is type(model.family)]
    settings = [
        "=".join(setting) for relative in kin for setting in _settings(model) if setting not in _settings(relative)
    ]
    named = [f"{kin[0].name}: {', '.join(settings)}" if settings else kin[0].name] if kin else []
    return "; ".join([*named, *([model.about] if model.about else [])])


def _settings(model: ZooModel) -> list[tuple[str, str]]:
    """Name and value of every parameter."""
    found = parameters(model.family).items()
    return [(name, shown(getattr(model.family, name), parameter.unset)) for name, parameter in found]


def _counts(models: list[ZooModel]) -> TextTable:
    rows = []
    for model in models:
        row = _row(model)
        saved = nbytes(row["saved_for_backward_bytes"]) if row["trains"] else ""
        rows.append((model.name, _size(model), count(row["parameters"]), count(row["macs"]["total"]), saved))
    return _table(("model", "size", "parameters", "MACs", "saved"), rows)


def _row(model: ZooModel) -> dict[str, Any]:
    """A model and what it costs at default size, as plain values."""
    figures = _figures(model)
    return {
        "name": model.name,
        "about": _described(model),
        "image": model.image or None,
        "sequence": model.sequence or None,
        "trains": model.family.trains,
        "settings": dict(_settings(model)),
        "parameters": figures.pop("parameters"),
        "saved_for_backward_bytes": figures.pop("saved"),
        "macs": figures,
    }


def _figures(model: ZooModel) -> dict[str, int]:
    """Counts of one step, or of the forward pass where nothing is trained.

    Equal layers cost the same, so a deep transformer is counted from one and from two of its layers.
    """
    from monet.frontends.zoo.transformers import Transformer
    from monet.graph.counts import macs_by_part, parameter_count, saved_bytes
    from monet.training.step import training_step

    def counted(variant: ZooModel) -> dict[str, int]:
        graph = training_step(variant()) if variant.family.trains else variant()
        return {"parameters": parameter_count(graph), "saved": saved_bytes(graph), **macs_by_part(graph).as_dict()}

    family = model.family
    if not isinstance(family, Transformer) or family.layers < 3:
        return counted(model)
    first, second = (counted(replace(model, family=replace(family, layers=layers))) for layers in (1, 2))
    return {key: value + (family.layers - 1) * (second[key] - value) for key, value in first.items()}
