"""A result in the terminal: headline figures with their bounds, phases, where time and energy go, memory, operators."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from monet.report.columns import Column, Row
from monet.report.info import critical_path, energy, headline, operators, time_partition
from monet.report.info.memory import by_fullness
from monet.report.quantities import joules, percent, seconds, step_name, times
from monet.schedule.result import Result
from monet.schedule.result_rows import MemoryTrace, PhaseRow

SLOWEST = 10
FULLEST = 6
BAR = 24
PIPE_WIDTH = 140
WORDS = ("phase", "core", "bound by", "in", "")  # columns that are not figures
PHASES: tuple[Column[tuple[str, PhaseRow]], ...] = (
    Column("phase", "", lambda phase: phase[0]),
    Column("from", "s", lambda phase: phase[1].start_s),
    Column("to", "s", lambda phase: phase[1].end_s),
    Column("core time", "s", lambda phase: phase[1].busy_s),
    Column("energy", "J", lambda phase: phase[1].energy_j),
    Column("off-chip", "B", lambda phase: phase[1].dram_bytes),
    Column("MACs", "", lambda phase: phase[1].macs),
    Column("operators", "n", lambda phase: phase[1].operators),
)
MEMORIES: tuple[Column[MemoryTrace], ...] = (
    Column("memory", "", lambda memory: memory.name),
    Column("peak", "B", lambda memory: memory.peak_bytes),
    Column("of", "B", lambda memory: memory.capacity_bytes),
    Column("full", "%", lambda memory: memory.full),
    Column("at", "s", lambda memory: memory.peak_time_s),
    Column("in", "", lambda memory: memory.peak_operator),
)
OPERATORS = ("operator", "phase", "core", "time", "share", "used", "energy", "off-chip", "bound by")
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


def cells_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of rows that are texts."""
    made = table(title, *names)
    for row in rows:
        made.add_row(*row)
    return made


def rows_table(
    title: str, columns: Sequence[Column[Row]], rows: Iterable[Row], style: Callable[[Row], str] = lambda row: ""
) -> Table:
    """A table of rows, each perhaps in a style of its own."""
    made = table(title, *(column.label for column in columns))
    for row in rows:
        made.add_row(*(column.text(row) for column in columns), style=style(row))
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
        bound, _, what = card.bound.partition(": ")
        distance = times(card.distance) if card.distance else ""
        detail = card.detail + (f"; bound: {what}" if what else "")
        made.add_row(card.label, card.value, bound, distance, Text(detail, style="dim"))
    return made


def _bars(title: str, rows: Iterable[tuple[tuple[str, ...], float, str]]) -> Table:
    """Words and figures of each row, then its share as per cent and as a bar in some style; rows of none left out."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False)
    for cells, share, style in rows:
        if share:
            made.add_row(*cells, percent(share), Text(bar(share), style=style))
    for column in made.columns:
        column.justify = "right"
    for column in (made.columns[0], made.columns[-1]) if made.columns else ():
        column.justify, column.no_wrap = "left", True
    return made


def time_table(result: Result) -> Table:
    """Where the time of the cores that worked goes, by cause."""
    parts = zip(time_partition.shares(result).items(), STYLES, strict=True)
    return _bars(
        "Where the cores' time goes", (((time_partition.words(part),), share, style) for (part, share), style in parts)
    )


def energy_table(result: Result) -> Table:
    """Energy by level, largest first."""
    levels, whole = energy.largest(result.energy_breakdown.by_level), result.energy_j or 1.0
    return _bars("Energy by level", (((name, joules(spent)), spent / whole, "cyan") for name, spent in levels.items()))


def _memory(result: Result) -> Table:
    traces = by_fullness(result)
    made = rows_table("Memory at its peak", MEMORIES, traces[:FULLEST])
    if len(traces) > FULLEST:
        made.add_row(Text(f"{len(traces) - FULLEST} more", style="dim"))
    return made


def limits_line(result: Result) -> Text:
    """What bounds the operators, and what the critical path is made of."""
    whole = sum(took for took, _ in headline.limits(result).values()) or 1.0
    limits = ", ".join(
        f"{name} {percent(took / whole)} ({number})" for name, (took, number) in headline.limits(result).items()
    )
    path = ", ".join(
        f"{'waiting' if name == 'gap' else name} {percent(value / (result.latency_s or 1.0))}"
        for name, value in critical_path.shares(result).items()
    )
    return Text.assemble(
        ("Operators are bound by  ", "bold"), limits, *((("\nOn the critical path    ", "bold"), path) if path else ())
    )


def _operators(result: Result) -> Table:
    columns = [column for column in operators.columns(result) if column.label in OPERATORS]
    return rows_table(f"Slowest of {len(result.operators)} operators", columns, operators.slowest(result, SLOWEST))


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
        rows_table("Phases", PHASES, result.phases.items()),
        side_by_side,
        limits_line(result),
        _memory(result),
        _operators(result),
    ):
        blocks += [Text(), part]
    if result.notes:
        blocks += [Text(), *(Text(f"note: {note}", style="dim") for note in result.notes)]
    return Group(*blocks)
