"""``monet systems``: the systems of devices that are built in, one of them in full, and the schema of the file."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from monet.distributed.systems.collectives import collective_cost
from monet.distributed.systems.system import System, load_system, system_names, system_schema, system_text
from monet.distributed.systems.topology import NetworkLevel
from monet.hardware.drawing import peak_rates, si
from monet.report.files import check_outputs, write_text
from monet.report.screen import screen
from monet.report.table import Heading, TextTable

app = typer.Typer(
    help="Systems of devices and a network: list those built in, show one, file schema.",
    invoke_without_command=True,
    no_args_is_help=False,
)
SIZES = (2**20, 2**24, 2**28)  # of the collectives that are shown


@app.callback()
def list_systems(context: typer.Context) -> None:
    """List the built-in systems: devices, and the levels of their networks."""
    if context.invoked_subcommand is None:
        _print_list()


@app.command("list")
def list_command() -> None:
    """List the built-in systems, as monet systems alone does."""
    _print_list()


def _print_list() -> None:
    rows = []
    for system in (load_system(name) for name in system_names()):
        kinds = ", ".join(f"{part.count:,} × {part.accelerator.name}" for part in system.devices)
        rows.append((system.name, kinds, "; ".join(map(_level_text, system.levels))))
    headings = ("name", Heading("devices", "words"), Heading("network, from the innermost level", "prose"))
    screen().print(TextTable("", headings, rows))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A preset name, or the path of a YAML file.")],
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print the file itself: a start for one of your own.")] = False,
) -> None:  # fmt: skip
    """Show one system: its devices, levels and sources, and what an all-reduce takes on each level."""
    check_outputs({}, {"--json": json} | ({"--yaml": "-"} if as_yaml else {}))
    system = load_system(name)
    if json:
        write_text(json, _json(system))
    if as_yaml:
        typer.echo(system_text(name), nl=False)
    if json or as_yaml:
        return
    console = screen()
    console.print(_tree(system))
    console.print()
    console.print(_collectives(system))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a system file."""
    typer.echo(json.dumps(system_schema(), indent=2, ensure_ascii=False))


def _json(system: System) -> str:
    return json.dumps({**system.document, "size": system.size}, indent=2, ensure_ascii=False) + "\n"


def _level_text(level: NetworkLevel) -> str:
    extent = "x".join(map(str, level.extents))
    return f"{level.name} {level.topology.replace('_', ' ')} of {extent}, {si(level.bandwidth_bytes_per_s, 'B/s')}"


def _tree(system: System) -> Tree:
    tree = Tree(Text(f"{system.name}: {system.about}", style="bold"))
    for part in system.devices:
        device = part.accelerator
        rates = ", ".join(f"{dtype} {si(rate, 'op/s')}" for dtype, rate in list(peak_rates(device).items())[:3])
        memory = si(float(device.dram.capacity_bytes), "B")
        tree.add(Text(f"{part.count:,} × {device.name}: {rates} peak, {memory} of DRAM"))
    for level in system.levels:
        branch = tree.add(Text(_level_text(level)))
        branch.add(
            Text(
                f"a device gets {si(level.device_bandwidth_bytes_per_s, 'B/s')} at most, launch {si(level.launch_s, 's')}, "
                f"step {si(level.latency_s, 's')}, {si(level.energy_j_per_bit, 'J')}/bit"
            )
        )
        shares = ", ".join(f"{100 * share:.0f} % from {si(size, 'B')}" for size, share in level.efficiency)
        branch.add(Text(f"achieved {shares or '100 %'}; algorithms {', '.join(level.algorithms)}"))
    sources = tree.add("sources")
    for source in system.source:
        sources.add(Text(source))
    return tree


def _collectives(system: System) -> TextTable:
    """All-reduce among the members of the innermost level, and of the first two groups of each level outside of it."""
    rows, inside = [], 1
    for level in system.levels:
        members = min(level.size if inside == 1 else 2, system.size // inside) * inside
        group = system.spans(1, members, members)
        for size in SIZES:
            cost = collective_cost("all_reduce", size, group)
            bus = 2 * (members - 1) / members * size / cost.seconds if cost.seconds else 0.0
            rows.append((level.name, f"{members:,}", si(float(size), "B"), si(cost.seconds, "s"), si(bus, "B/s"), cost.algorithm))  # fmt: skip
        inside *= level.size
    headings = ("level", "devices", "bytes", "time", "bus bandwidth", Heading("algorithm", "words"))
    return TextTable("All-reduce", headings, rows)
