"""The command line. Commands import what they need when they run, so that help is instant."""

from __future__ import annotations

import sys

import typer

from monet.commands import allocate as allocate_command
from monet.commands import checkpoint as checkpoint_command
from monet.commands import diff as diff_command
from monet.commands import explain as explain_command
from monet.commands import explore as explore_command
from monet.commands import fuse as fuse_command
from monet.commands import graph as graph_command
from monet.commands import hardware as hardware_command
from monet.commands import map as map_command
from monet.commands import models as models_command
from monet.commands import reproduce as reproduce_command
from monet.commands import rerun as rerun_command
from monet.commands import run as run_command
from monet.commands import validate as validate_command
from monet.errors import MonetError

app = typer.Typer(
    name="monet",
    help="What it costs to train a neural network on a given accelerator: time, energy, memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("run")(run_command.run)
app.command("graph")(graph_command.graph)
app.command("map")(map_command.map_command)
app.command("allocate")(allocate_command.allocate)
app.command("fuse")(fuse_command.fuse)
app.command("checkpoint")(checkpoint_command.checkpoint)
app.command("explain")(explain_command.explain)
app.command("diff")(diff_command.diff)
app.command("rerun")(rerun_command.rerun)
app.command("validate")(validate_command.validate)
app.command("reproduce")(reproduce_command.reproduce)
app.command("models")(models_command.models)
app.add_typer(hardware_command.app, name="hardware")
app.add_typer(explore_command.app, name="explore")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from monet import __version__

        typer.echo(f"monet {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point: bad input is one message on standard error and exit code 2, never a traceback."""
    try:
        app()
    except MonetError as error:
        sys.stderr.write(f"monet: {error}\n")
        sys.exit(2)
    except MemoryError:
        sys.stderr.write("monet: not enough memory for sizes this large\n")
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except SystemExit as stop:
        if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):  # as typer passes it on
            sys.stderr.write("monet: interrupted\n")
        raise


if __name__ == "__main__":
    main()
