"""A result in the terminal: headline figures with their bounds, phases, where time and energy go, memory, operators."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from monet.report.html import critical_path, energy, headline, time_partition
from monet.report.html.operators import row_of
from monet.report.quantities import joules, nbytes, percent, quantity, seconds, step_name, times
from monet.report.spans import operator_spans, phase_spans
from monet.schedule.result import Result

SLOWEST = 10
BAR = 24
PIPE_WIDTH = 140
WORDS = ("phase", "core", "bound by", "in", "")  # columns that are not figures
# one style per cause of time, in the order of TIME_PARTS
STYLES = ("green", "dark_sea_green2", "yellow", "tan", "red", "purple", "blue", "magenta", "bright_black")


def screen(*, errors: bool = False, quiet: bool = False) -> Console:
    """A console for tables. A pipe has no width of its own and gets 140 columns, so that rows stay rows."""
    made = Console(stderr=errors, quiet=quiet)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPE_WIDTH
    return made


def table(title: str, *names: str) -> Table:
    """A table without lines: the first column is words, the others figures."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    made.add_column(names[0], overflow="fold")
    for name in names[1:]:
        made.add_column(
            name, justify="left" if name in WORDS else "right", overflow="fold" if name in WORDS else "ellipsis"
        )
    return made


def bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of a character."""
    eighths = max(0, min(width * 8, round(share * width * 8)))
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def _headline(result: Result) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim")
    made.add_column("")
    made.add_column("", justify="right", style="bold")
    made.add_column("lower bound", justify="right")
    made.add_column("distance", justify="right")
    made.add_column("")
    for card in headline.info(result):
        bound, _, what = card["bound"].partition(": ")
        distance = times(card["distance"]) if card["distance"] else ""
        detail = card["detail"] + (f"; bound: {what}" if what else "")
        made.add_row(card["label"], card["value"], bound, distance, Text(detail, style="dim"))
    return made


def _phases(result: Result) -> Table:
    made = table("Phases", "phase", "from", "to", "core time", "energy", "off-chip", "MACs", "operators")
    spans = phase_spans(result)
    for name, row in result.phases.items():
        made.add_row(
            name,
            seconds(spans[name].start_s),
            seconds(spans[name].end_s),
            seconds(row["busy_s"]),
            joules(row["energy_j"]),
            nbytes(row["dram_bytes"]),
            quantity(row["macs"], ""),
            f"{row['operators']:,}",
        )
    return made


def time_table(result: Result) -> Table:
    """Where the time of the cores that worked goes, by cause."""
    totals = time_partition.total(result)
    whole = sum(totals.values()) or 1
    made = Table(title="Where the cores' time goes", title_justify="left", title_style="bold", box=None, pad_edge=False)
    made.show_header = False
    made.add_column(no_wrap=True)
    made.add_column(justify="right")
    made.add_column(no_wrap=True)
    for (part, ticks), style in zip(totals.items(), STYLES, strict=True):
        if ticks:
            made.add_row(time_partition.words(part), percent(ticks / whole), Text(bar(ticks / whole), style=style))
    return made


def energy_table(result: Result) -> Table:
    """Energy by level, largest first."""
    made = Table(title="Energy by level", title_justify="left", title_style="bold", box=None, pad_edge=False)
    made.show_header = False
    made.add_column(no_wrap=True)
    made.add_column(justify="right")
    made.add_column(justify="right")
    made.add_column(no_wrap=True)
    rows: list[dict[str, Any]] = next(
        (view["rows"] for view in energy.info(result)["views"] if view["by"] == "level"), []
    )
    for row in rows:
        share = row["joules"] / (result.energy_j or 1.0)
        made.add_row(row["name"], joules(row["joules"]), percent(share), Text(bar(share), style="cyan"))
    return made


def _memory(result: Result) -> Table:
    made = table("Memory at its peak", "memory", "peak", "of", "full", "at", "in")
    drams = {dram["name"] for dram in result.hardware_summary.get("drams", ())}
    traces = sorted(result.memory, key=lambda one: (one.name not in drams, -one.peak_bytes / (one.capacity_bytes or 1)))
    for trace in traces[:6]:
        made.add_row(
            trace.name,
            nbytes(trace.peak_bytes),
            nbytes(trace.capacity_bytes),
            percent(trace.peak_bytes / (trace.capacity_bytes or 1)),
            seconds(trace.peak_time_s),
            trace.peak_operator,
        )
    if len(traces) > 6:
        made.add_row(Text(f"{len(traces) - 6} more", style="dim"))
    return made


def limits_line(result: Result) -> Text:
    """What bounds the operators, and what the critical path is made of."""
    whole = sum(took for took, _ in headline.limits(result).values()) or 1.0
    limits = ", ".join(
        f"{name} {percent(took / whole)} ({number})" for name, (took, number) in headline.limits(result).items()
    )
    path = ", ".join(
        f"{'waiting' if name == 'gap' else name} {percent(value / (result.latency_s or 1.0))}"
        for name, value in sorted(critical_path.shares(result).items(), key=lambda one: -one[1])
    )
    return Text.assemble(
        ("Operators are bound by  ", "bold"), limits, *((("\nOn the critical path    ", "bold"), path) if path else ())
    )


def _operators(result: Result) -> Table:
    made = table(
        f"Slowest of {len(result.operators)} operators",
        *("operator", "phase", "core", "time", "share", "used", "energy", "off-chip", "bound by"),
    )
    spans = operator_spans(result)
    slowest = sorted(result.operators, key=lambda row: (-spans[row["name"]].seconds, row["name"]))[:SLOWEST]
    for row in (row_of(result, one, spans[one["name"]]) for one in slowest):
        made.add_row(
            row["name"],
            row["phase"],
            row["core"],
            seconds(row["span_s"]),
            percent(row["share"]),
            percent(row["utilisation"]),
            joules(row["energy_j"]),
            nbytes(row["dram_bytes"]),
            row["bound_by"],
        )
    return made


def title_text(result: Result) -> Text:
    """What was run on what."""
    return Text.assemble(
        (result.model, "bold"),
        f"  {step_name(result)}, batch {result.batch}, on ",
        (result.hardware, "bold"),
        (f"   {len(result.timeline):,} tiles and transfers in {seconds(result.seconds_to_evaluate)}", "dim"),
    )


def render(result: Result) -> RenderableType:
    """The summary as terminal tables; an infeasible result is its reason."""
    if not result.feasible:
        reason = result.reason.message if result.reason else "no reason given"
        return Group(title_text(result), Text(f"does not fit: {reason}", style="bold red"))
    side_by_side = Table.grid(padding=(0, 4))
    side_by_side.add_row(time_table(result), energy_table(result))
    blocks: list[RenderableType] = [title_text(result)]
    for part in (
        _headline(result),
        _phases(result),
        side_by_side,
        limits_line(result),
        _memory(result),
        _operators(result),
    ):
        blocks += [Text(), part]
    if result.notes:
        blocks += [Text(), *(Text(f"note: {note}", style="dim") for note in result.notes)]
    return Group(*blocks)
