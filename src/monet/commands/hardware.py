"""``monet hardware``: the accelerators that are built in, one of them in full, and the schema of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.text import Text
from rich.tree import Tree

from monet.hardware.accelerator import Accelerator
from monet.hardware.drawing import (
    area,
    core_lines,
    drawing,
    endpoint_line,
    facts,
    grouped_cores,
    level_line,
    link_line,
    parameter_text,
    peak_rates,
    rates_text,
    si,
    stated_peaks,
)
from monet.hardware.errors import HardwareError
from monet.hardware.export import as_json, plain
from monet.hardware.hierarchy import unused
from monet.hardware.interleaving import place_lines
from monet.hardware.loading import description_text, load_description, load_hardware, preset_names
from monet.hardware.loading import schema as hardware_schema
from monet.hardware.power import budget, full_use, full_use_power_w
from monet.hardware.resolve import resolve
from monet.hardware.skeleton import skeleton
from monet.nesting import check_nesting
from monet.report.files import check_outputs, write_text
from monet.report.screen import screen
from monet.report.table import Heading, TextTable

app = typer.Typer(
    help="Accelerators: list those built in, show one, begin a new one, file schema.",
    invoke_without_command=True,
    no_args_is_help=False,
)


@app.callback()
def list_hardware(context: typer.Context) -> None:
    """List the built-in accelerators: cores, peak rate, memory, DRAM bandwidth, area, node."""
    if context.invoked_subcommand is not None:
        return
    _print_list()


@app.command("list")
def list_command() -> None:
    """List the built-in accelerators, as monet hardware alone does."""
    _print_list()


def _print_list() -> None:
    rows = [
        (row.name, row.cores, row.on_chip, row.dram, row.area, row.node, row.peak)
        for row in (facts(load_hardware(name)) for name in preset_names())
    ]
    cores, peak = Heading("cores", "words"), Heading("peak rate", "prose")
    screen().print(TextTable("", ("name", cores, "on chip", "DRAM", "area", "node", peak), rows))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A preset name, or the path of a YAML file.")],
    setting: Annotated[list[str] | None, typer.Option("--set", help="PATH=VALUE, repeatable.")] = None,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Print the file itself, with what --set changes: a start for one of your own.")] = False,
) -> None:  # fmt: skip
    """Show one accelerator: tree, drawing, peak rate, area and power by part."""
    check_outputs({}, {"--json": json} | ({"--yaml": "-"} if as_yaml else {}))
    settings = _settings(setting or [])
    description = load_description(name, settings)
    accelerator = resolve(description)
    if json:
        _write_json(accelerator, json)
    if as_yaml:
        typer.echo(description_text(name, settings), nl=False)
    if json or as_yaml:
        return
    console = screen()
    console.print(_tree(accelerator, description.about))
    for line in unused(accelerator):
        console.print(f"warning: {line}", style="yellow")
    if description.parameters:
        console.print("\nparameters (set with --set NAME=VALUE)")
        for key, parameter in description.parameters.items():
            sizes = (parameter_text(parameter.sets[0], value) for value in parameter.values)
            values = f": {', '.join(sizes)}" if parameter.values else ""
            console.print(f"  {key}{values}")
    console.print()
    console.print(drawing(accelerator), no_wrap=True, overflow="ignore", crop=False)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="What the accelerator is called.")] = "my-chip",
    cores: Annotated[int, typer.Option(help="Matrix cores; several have a memory each and share an L2.")] = 1,
    array: Annotated[str, typer.Option(metavar="COLUMNSxROWS", help="Multipliers of a core.")] = "16x16",
    systolic: Annotated[bool, typer.Option("--systolic", help="Data ripple through the array from neighbour to neighbour.")] = False,
    output: Annotated[str, typer.Option(metavar="FILE", help="YAML file to write, which must not be there yet. [default: standard output]", show_default=False)] = "-",
) -> None:  # fmt: skip
    """Print a hardware file to begin with: commented, valid, ready to run."""
    text = skeleton(name, cores, array, systolic)
    check_outputs({}, {"--output": output})
    if output != "-" and Path(output).exists():
        raise HardwareError(f"--output {output}: there is such a file already; name another")
    write_text(output, text)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a hardware file."""
    typer.echo(json.dumps(hardware_schema(), indent=2, ensure_ascii=False))


def _settings(pairs: list[str]) -> dict[str, object]:
    """``PATH=VALUE`` texts as overrides; values are read as YAML."""
    settings: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise HardwareError(f"--set {pair!r}: expected PATH=VALUE, for example clock_hz=1GHz")
        try:
            check_nesting(value, key)
            settings[key] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError) as error:
            raise HardwareError(f"--set {pair!r}: not a value: {str(error).splitlines()[0]}") from None
    return settings


def _write_json(accelerator: Accelerator, target: str) -> None:
    summary = {
        "area_m2": accelerator.area_m2,
        "on_chip_bytes": accelerator.on_chip_bytes,
        "area_rows": [plain(row) for row in budget(accelerator)],
        "static_power_w": accelerator.static_power_w,
        "full_use_power_w": full_use_power_w(accelerator),
        "full_use_rows": [plain(row) for row in full_use(accelerator)],
        "peak_ops_per_s": stated_peaks(accelerator),
        "sustained_ops_per_s": peak_rates(accelerator),
    }
    text = json.dumps(as_json(accelerator) | summary, indent=2, ensure_ascii=False)
    write_text(target, text + "\n")


def _tree(accelerator: Accelerator, about: str) -> Tree:
    power, clock = si(accelerator.static_power_w, "W"), si(accelerator.clock_hz, "Hz")
    tree = Tree(Text(f"{accelerator.name}: {about}", style="bold"))
    most = si(full_use_power_w(accelerator), "W")
    chip = f"{accelerator.node_nm:g} nm, {clock}, {area(accelerator.area_m2)}, static {power}, at full use {most}"
    tree.add(Text(chip))
    stated = accelerator.stated_clock_hz
    at = f" at {si(stated, 'Hz')}" if stated != accelerator.clock_hz else ""
    tree.add(Text(f"peak {rates_text(stated_peaks(accelerator))}{at}"))
    if at:
        tree.add(Text(f"that products hold within {si(accelerator.tdp_w, 'W')}: {rates_text(peak_rates(accelerator))}"))
    for template, group in grouped_cores(accelerator).items():
        core = group[0].core
        count = f"{len(group)} × " if len(group) > 1 else ""
        size = f"{si(core.clock_hz, 'Hz')}, {area(core.area_m2)} each"
        branch = tree.add(Text(f"{count}{template} ({core.kind}), {size}"))
        for line in core_lines(core):
            branch.add(Text(line))
        for level in core.levels:
            branch.add(Text(level_line(level)))
    for memory in accelerator.memories:
        if memory.level.memory:
            tree.add(Text(level_line(memory.level)))
    for dram in accelerator.drams:
        energies = f"{si(dram.read_energy_j_per_bit, 'J')}/bit read, {si(dram.write_energy_j_per_bit, 'J')}/bit write"
        tree.add(
            Text(
                f"{dram.name} ({dram.kind}): {si(dram.bandwidth_bytes_per_s, 'B/s')} in {dram.channels} channel(s), "
                f"{energies}, {si(dram.static_power_w, 'W')} static, {si(dram.latency_s, 's')} latency"
            )
        )
    for line in place_lines(accelerator):
        tree.add(Text(line))
    for endpoint in accelerator.endpoints:
        tree.add(Text(endpoint_line(endpoint)))
    network = tree.add("network")
    for link in accelerator.links[:12]:
        network.add(Text(link_line(link)))
    if len(accelerator.links) > 12:
        network.add(Text(f"… {len(accelerator.links) - 12} more links"))
    parts = tree.add("area and static power")
    for line in _budget_lines(accelerator):
        parts.add(Text(line))
    busy = tree.add("power at full use")
    for row in full_use(accelerator):
        if row.watts:
            busy.add(Text(f"{row.name}: {si(row.watts, 'W')}"))
    return tree


def _budget_lines(accelerator: Accelerator) -> list[str]:
    """What takes area or static power, part by part; an interface that is not priced is named."""
    lines = []
    for row in budget(accelerator):
        figures = ([area(row.area_m2)] if row.area_m2 else []) + ([si(row.static_w, "W")] if row.static_w else [])
        if figures:
            lines.append(f"{row.name}: {', '.join(figures)}")
    lines += [f"{part.name}: not priced ({part.kind})" for part in accelerator.interfaces if not part.area_m2]
    return lines
