"""A result in the terminal: headline figures with their bounds, phases, where time and energy go, memory, operators."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from monet.report.columns import Column, rows_table
from monet.report.info import critical_path, energy, headline, operators, quantisation, time_partition
from monet.report.info.memory import by_fullness
from monet.report.quantities import joules, percent, seconds, step_name, times
from monet.report.table import Bar, Heading, TextTable
from monet.schedule.result import Result
from monet.schedule.result_rows import MemoryTrace, PhaseRow

SLOWEST = 10
FULLEST = 6
BESIDE = 4  # characters between two tables
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
    Column("of", "B", lambda memory: memory.capacity_bytes or None),
    Column("full", "%", lambda memory: memory.full if memory.capacity_bytes else None),
    Column("at", "s", lambda memory: memory.peak_time_s),
    Column("in", "", lambda memory: memory.peak_operator or "(the start)", holds="words"),
)
COPIES: tuple[Column[quantisation.Copies], ...] = (
    Column("of", "", lambda row: row.of),
    Column("format", "", lambda row: row.format, holds="words"),
    Column("values", "n", lambda row: row.values),
    Column("copies", "n", lambda row: row.count),
    Column("size", "B", lambda row: row.bytes),
    Column("padding", "B", lambda row: row.padding_bytes),
    Column("lost", "%", lambda row: row.padding_bytes / row.bytes),
)
OPERATORS = ("operator", "phase", "core", "time", "share", "used", "energy", "off-chip", "bound by")
# one style per cause of time, in the order of TIME_PARTS
STYLES = ("green", "dark_sea_green2", "yellow", "tan", "red", "purple", "blue", "magenta", "cyan", "bright_black")


@dataclass(frozen=True, slots=True)
class Beside:
    """Two tables side by side where there is room, else one below the other."""

    left: TextTable
    right: TextTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.left.natural_width + BESIDE + self.right.natural_width <= options.max_width:
            grid = Table.grid(padding=(0, BESIDE))
            grid.add_row(self.left, self.right)
            yield grid
        else:
            yield Group(self.left, Text(), self.right)


def headline_table(result: Result) -> TextTable:
    """Headline figures with their lower bounds."""
    headings = (
        Heading("", "words"),
        Heading("", "figure", "bold"),
        Heading("lower bound"),
        Heading("gap"),
        Heading("", "prose", "dim"),
    )
    rows = []
    for card in headline.info(result):
        bound, _, what = card.bound.partition(": ")
        distance = times(card.distance) if card.distance else ""
        rows.append((card.label, card.value, bound, distance, card.detail + (f"; bound: {what}" if what else "")))
    return TextTable("", headings, rows)


def time_table(result: Result) -> TextTable:
    """Where the time of the cores that worked goes, by cause."""
    parts = zip(time_partition.shares(result).items(), STYLES, strict=True)
    rows = [(time_partition.words(part), percent(share), Bar(share, style)) for (part, share), style in parts if share]
    return TextTable("Where the cores' time goes", ("", "", Heading("", "bar")), rows)


def energy_table(result: Result) -> TextTable:
    """Energy by level, largest first."""
    levels, whole = energy.largest(result.energy_breakdown.by_level), result.energy_j or 1.0
    rows = [(name, joules(spent), percent(spent / whole), Bar(spent / whole)) for name, spent in levels.items()]
    return TextTable("Energy by level", ("", "", "", Heading("", "bar")), rows)


def _memory(result: Result) -> TextTable:
    traces = by_fullness(result)
    more = f"{len(traces) - FULLEST} more" if len(traces) > FULLEST else ""
    return rows_table("Memory at its peak", MEMORIES, traces[:FULLEST], more=more)


def copies_table(result: Result) -> TextTable:
    """Narrow copies of operands, and what it takes to make them."""
    took = f"{quantisation.took(quantisation.quantising(result))}\n{quantisation.padding(result)}"
    return rows_table("Narrow copies of operands", COPIES, quantisation.copies(result), more=took)


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
        ("Operators are bound by  ", "bold"),
        limits,
        *((("\nOn the critical path    ", "bold"), path) if path else ()),
        (f"\n{time_partition.meaning(result)}", "dim"),
    )


def operators_table(result: Result, most: int = SLOWEST) -> TextTable:
    """The operators that take longest."""
    columns = [column for column in operators.columns(result) if column.label in OPERATORS]
    return rows_table(f"Slowest of {len(result.operators)} operators", columns, operators.slowest(result, most))


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
    blocks: list[RenderableType] = [title_text(result)]
    for part in (
        headline_table(result),
        rows_table("Phases", PHASES, result.phases.items()),
        Beside(time_table(result), energy_table(result)),
        limits_line(result),
        _memory(result),
        *((copies_table(result),) if result.copies else ()),
        operators_table(result),
    ):
        blocks += [Text(), part]
    if result.notes:
        blocks += [Text(), *(Text(f"note: {note}", style="dim") for note in result.notes)]
    return Group(*blocks)
