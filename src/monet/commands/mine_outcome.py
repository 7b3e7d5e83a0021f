"""What all kinds of ``monet mine`` do around their search: a bar while it runs; then files, tables and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from monet.commands import INTERRUPTED
from monet.commands.progress import bars
from monet.report.files import write_json


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where what was found goes: a JSON file (- for standard output, and no tables then), an HTML page."""

    json: str = ""
    report: str = ""

    def hand_over(
        self,
        *,
        summary: Callable[[], Any],
        page: Callable[[str], None] | None,
        tables: Callable[[], None],
        interrupted: bool,
    ) -> None:
        """Write and print what was asked for, each made only then; leave with a code that says whether the search came
        to its end. ``page``: None if there is nothing to draw."""
        if self.json:
            write_json(self.json, summary())
        if self.report and page is not None:
            page(self.report)
        if self.json != "-":
            tables()
        if interrupted:
            raise typer.Exit(INTERRUPTED)


@contextmanager
def designs_bar(said: str = "") -> Iterator[Callable[[int, int, str], None]]:
    """A bar of designs evaluated; is told how many, of how many, and what to say beside."""
    columns = (TextColumn("[bold]designs"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    with bars(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task("designs", total=None, said=said)
        yield lambda done, most, said: bar.update(task, completed=done, total=most, said=said)
