"""``monet diff``: what changed between two results, by phase, operator and level."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from monet.commands.explain import change_text
from monet.commands.options import refuse_unused
from monet.distributed.result import DistributedResult
from monet.errors import MonetError
from monet.hardware.drawing import parameter_text
from monet.report.difference import Compared, info, shortened
from monet.report.files import check_outputs, write_json
from monet.report.quantities import joules, nbytes, percent, quantity, seconds
from monet.report.result_file import read_any_result
from monet.report.screen import screen
from monet.report.table import Heading, TextTable
from monet.schedule.result import Result

DEFAULT_TOP = 12
SECTIONS = (
    ("headline", "Headline"),
    ("phases", "Phases"),
    ("energy_by_level", "Energy by level"),
    ("memory_peak", "Memory peaks"),
    ("time_partition", "Where the cores' time goes"),
)


def diff(
    first: Annotated[str, typer.Argument(metavar="A.json", help="A result of monet run --json.")],
    second: Annotated[str, typer.Argument(metavar="B.json", help="Another one.")],
    top: Annotated[int, typer.Option(help="How many operators and inputs to show.", min=1)] = DEFAULT_TOP,
    everything: Annotated[bool, typer.Option("--all", help="Show rows that did not change, too.")] = False,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page.")] = "",
) -> None:  # fmt: skip
    """Show what changed from one result to another, by phase, operator, level."""
    check_outputs({"--report": report}, {"--json": json}, [first, second])
    read = [read_any_result(path) for path in (first, second)]
    over_systems = [result for result in read if isinstance(result, DistributedResult)]
    if len(over_systems) == len(read):
        refuse_unused("on results of systems, which are shown whole", {"--top": top != DEFAULT_TOP})
        _diff_systems(over_systems, (first, second), everything, json, report)
        return
    if over_systems:
        raise MonetError(f"{first} and {second}: one is of a device, the other of a system; compare two of a kind")
    results = [result for result in read if isinstance(result, Result)]
    for path, result in zip((first, second), results, strict=True):
        if not result.feasible:
            raise MonetError(f"{path}: infeasible, nothing to compare: {result.reason and result.reason.message}")
    found = info(*results)
    if json:
        write_json(json, found)
    shown = [made for key, title in SECTIONS if (made := _section(title, found[key], everything))]
    shown += [made for made in (_inputs(found["inputs"], top), _operators(found["operators"], top)) if made]
    if report:
        _write_page(report, shown, found["titles"], (first, second))
    if json == "-":
        return
    console = screen()
    console.print(
        Text.assemble(
            "A  ", (found["titles"][0], "bold"), f"  {first}\nB  ", (found["titles"][1], "bold"), f"  {second}"
        )
    )
    for made in shown:
        console.print(Text())
        console.print(made)
    if not shown:
        console.print("\nNothing differs.")


def _diff_systems(
    results: list[DistributedResult], files: tuple[str, str], everything: bool, json: str, report: str
) -> None:
    """What changed between two steps over systems: headline, plan, time, memory, network."""
    from monet.report.distributed_difference import compared, plans, titles

    sections = compared(*results)
    if json:
        rows = {title: [vars_of(row) for row in section] for title, section in sections.items()}
        write_json(json, {"titles": titles(*results), "plan": plans(*results), **rows})
    shown = [made for title, section in sections.items() if (made := _section(title, section, everything))]
    changed = [(name, str(one), str(two)) for name, one, two in plans(*results)]
    if changed:
        headings = [Heading(name, "words") for name in ("what", "A", "B")]
        shown.insert(0, TextTable("Plan", headings, changed))
    if report:
        _write_page(report, shown, titles(*results), files)
    if json == "-":
        return
    console = screen()
    for letter, title, file in zip("AB", titles(*results), files, strict=True):
        console.print(Text.assemble(f"{letter}  ", (title, "bold"), f"  {file}"))
    for made in shown:
        console.print(Text())
        console.print(made)
    if not shown:
        console.print("\nNothing differs.")


def vars_of(row: Compared) -> dict[str, Any]:
    """A compared figure as plain values."""
    return {name: getattr(row, name) for name in ("name", "unit", "first", "second", "ratio")}


def _write_page(path: str, shown: list[TextTable], titles: list[str], files: tuple[str, str]) -> None:
    """The same tables as a page."""
    from monet.report.html.study import table_panel, words_panel, write_study

    facts = [f"{letter}: {title}, {file}" for letter, title, file in zip("AB", titles, files, strict=True)]
    panels = [table_panel(made) for made in shown] or [words_panel("Nothing differs", [])]
    write_study(path, "What changed", facts, panels)


def _amount(value: float, unit: str) -> str:
    if unit == "share":
        return percent(value)
    return f"{value:,.0f}" if unit == "cycles" else quantity(value, unit)


def _section(title: str, rows: list[Compared], everything: bool) -> TextTable | None:
    wanted = [row for row in rows if everything or row.ratio != 1.0]
    if not wanted:
        return None
    cells = []
    for row in wanted:
        if row.unit == "share":
            change = f"{100 * (row.second - row.first):+.1f} points".replace("-", "−")
        else:
            change = "new" if row.ratio is None else change_text(row.ratio)
        cells.append((row.name, _amount(row.first, row.unit), _amount(row.second, row.unit), change))
    return TextTable(title, ("", "A", "B", "change"), cells)


def _inputs(rows: list[dict[str, Any]], top: int) -> TextTable | None:
    if not rows:
        return None
    cells = [(row["path"], *(_input(row["path"], row[which]) for which in ("first", "second"))) for row in rows[:top]]
    headings = [Heading(name, "words") for name in ("what", "A", "B")]
    return TextTable("Inputs", headings, cells, more=f"{len(rows) - top} more" if len(rows) > top else "")


def _input(path: str, value: Any) -> str:
    return shortened(None if value is None else parameter_text(path, value), 40, "—")


def _operators(rows: dict[str, Any], top: int) -> TextTable | None:
    changed, only = rows["changed"], {"A": rows["only_first"], "B": rows["only_second"]}
    if not changed and not any(only.values()):
        return None
    gone = "; ".join(f"{len(names)} only in {where}" for where, names in only.items() if names)
    title = f"Operators: {len(changed)} changed, {rows['same']} the same{'; ' + gone if gone else ''}"
    headings = ("operator", "time A", "time B", "change", "energy A", "energy B", "off-chip A", "off-chip B")
    cells = []
    for row in changed[:top]:
        before, after = row.first, row.second
        ratio = after.span_s / before.span_s if before.span_s else None
        cells.append((
            row.name, seconds(before.span_s), seconds(after.span_s), change_text(ratio),
            joules(before.energy_j), joules(after.energy_j), nbytes(before.dram_bytes), nbytes(after.dram_bytes),
        ))  # fmt: skip
    more = (
        f"only in {where}: {', '.join(names[:4])}{' …' if len(names) > 4 else ''}"
        for where, names in only.items()
        if names
    )
    return TextTable(title, headings, cells, more="\n".join(more))
