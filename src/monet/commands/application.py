"""The commands put together: what ``monet`` runs. A command is imported when it is called, so that help is instant."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from monet.commands import COMMANDS
from monet.errors import MonetError


class _Commands(TyperGroup):
    """Commands that are imported when they are called; until then there is only what help says of them."""

    def __init__(self, **given: Any) -> None:
        listed = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}
        super().__init__(**given | {"commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, command_named(str(name)), rest


def command_named(name: str) -> Any:
    """A command, ready to be called."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"monet.commands.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        for command in group.commands.values():
            _strict(command)
        return group
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    single.command(name)(found)
    return _strict(typer.main.get_command(single))


def _strict(command: Any) -> Any:
    """A command whose help is shown as it is written, brackets too, and that takes no empty text for a value."""
    command.help = command.help and escape(command.help)
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = escape(parameter.help)
        parameter.callback = parameter.callback or _not_empty
    return command


def _not_empty(context: Any, parameter: Any, value: Any) -> Any:
    """Refuse ``--json ""``, which a script writes when a variable of its own is empty."""
    source = context.get_parameter_source(parameter.name)
    if value == "" and source is not None and source.name == "COMMANDLINE":
        raise MonetError(f"{parameter.opts[-1]} '': the text is empty; give a value, or leave the option out")
    return value


app = typer.Typer(
    name="monet",
    cls=_Commands,
    help="What it costs to train a neural network on a given accelerator: time, energy, memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from monet import __version__

        typer.echo(f"monet {__version__}")
        raise typer.Exit
