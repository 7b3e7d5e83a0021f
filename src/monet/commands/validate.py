"""``monet validate``: every published or measured figure that we check ourselves against."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import track
from rich.text import Text

from monet.report.files import check_outputs, write_json
from monet.report.screen import screen
from monet.report.table import Heading, TextTable
from monet.validation import CheckedFigure, Rule, Verdict, check, select


def validate(
    only: Annotated[str, typer.Option("--only", metavar="NAME", help="Only figures whose topic or name contains NAME.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
) -> None:  # fmt: skip
    """Check monet against published and measured figures; exit code 1 when a stated tolerance is exceeded."""
    check_outputs({}, {"--json": json})
    chosen = select(only)
    progress = track(chosen, "checking", console=screen(errors=True), transient=True)
    checked = [check(figure) for figure in progress]
    count = {verdict: sum(row.verdict is verdict for row in checked) for verdict in Verdict}
    if json:
        totals = {verdict.value: number for verdict, number in count.items()}
        write_json(json, {"figures": [row.as_dict() for row in checked], "totals": totals})
    if json != "-":
        console = screen()
        for topic in dict.fromkeys(row.figure.topic for row in checked):
            of_topic = [row for row in checked if row.figure.topic == topic]
            sources = list(dict.fromkeys(row.figure.source for row in of_topic))
            console.print(_table(topic, of_topic, sources))
            for index, source in enumerate(sources, 1):
                console.print(Text(f"  [{index}] {source}", style="dim"))
            console.print(Text())
        console.print(_summary(checked))
    if count[Verdict.EXCEEDED]:
        raise typer.Exit(1)


def number(value: float) -> str:
    """Whole numbers and large ones to the last digit, others to six digits."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1e5 else f"{value:,.6g}"


def _table(topic: str, checked: list[CheckedFigure], sources: list[str]) -> TextTable:
    headings = (
        "figure", "published", "ours", "error", "allowed", Heading("", "words"),
        Heading("source", "words", "dim"),  # by number; why, where a figure was not run; what ours is made of
    )  # fmt: skip
    rows = []
    styles = {"beside": "dim", "ok": "green", "EXCEEDED": "bold red", "not run": "yellow"}
    for row in checked:
        figure = row.figure
        cells = (
            figure.name,
            f"{number(figure.published)} {figure.unit}".rstrip(),
            "—" if row.ours is None else f"{number(row.ours)} {figure.unit}".rstrip(),
            "" if row.error is None else "0" if row.error == 0 else f"{100 * row.error:+.2f} %".replace("-", "−"),
            figure.note if figure.rule is Rule.BESIDE else allowed(figure.rule.value, figure.tolerance),
            Text(row.verdict.value, style=styles[row.verdict.value]),
            f"[{sources.index(figure.source) + 1}] {row.reason or row.parts}".rstrip(),
        )
        rows.append(cells)
    return TextTable(topic, headings, rows)


def allowed(rule: str, tolerance: float) -> str:
    """The stated tolerance: equal, ±5 %, ≤ +5 %."""
    if rule == "at most":
        return f"≤ +{100 * tolerance:g} %" if tolerance else "≤"
    return f"±{100 * tolerance:g} %" if tolerance else "equal"


def _summary(checked: list[CheckedFigure]) -> str:
    held = (row for row in checked if row.figure.rule is not Rule.BESIDE)
    done = [abs(row.error) for row in held if row.error is not None]
    worst = max(done, default=0.0)
    parts = [f"{sum(row.verdict is verdict for row in checked)} {verdict.value}" for verdict in Verdict]
    exact = sum(error == 0 for error in done)
    return (
        f"{len(checked)} figures: {', '.join(parts)}; {exact} equal to the last digit given, "
        f"largest error {100 * worst:.1f} % of those with a tolerance"
    )
