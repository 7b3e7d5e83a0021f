"""What all kinds of ``monet mine`` do around their search: a bar while it runs; then files, tables and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from monet.commands import INTERRUPTED
from monet.commands.options import flag_of
from monet.commands.progress import bars
from monet.hardware.loading import document_text
from monet.report.files import write_json, write_text
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space
from monet.search.hardware.workload import knobs


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where what was found goes: a JSON file (- for standard output, and no tables then), an HTML page, the best design
    as a hardware file."""

    json: str = ""
    report: str = ""
    design: str = ""

    def hand_over(
        self,
        *,
        summary: Callable[[], Any],
        page: Callable[[str], None] | None,
        tables: Callable[[], None],
        interrupted: bool,
        best: tuple[Space, Record | None] | None = None,
    ) -> None:
        """Write and print what was asked for, each made only then; leave with a code that says whether the search came
        to its end. ``page``: None if there is nothing to draw. ``best``: the space and what was found best in it."""
        if self.json:
            write_json(self.json, summary())
        if self.report and page is not None:
            page(self.report)
        if self.design and best is not None and best[1] is not None:
            write_text(self.design, design_text(best[0], best[1]))
        if self.json != "-":
            tables()
        if interrupted:
            raise typer.Exit(INTERRUPTED)


def design_text(space: Space, record: Record) -> str:
    """A design as a hardware file that every command with ``--hardware`` takes; first its parameters, and how the
    workloads ran, whose figures come out the same only with the same options."""
    chosen = ", ".join(f"{name} {value}" for name, value in record.values.items())
    said = [f"# {space.name}, mined: {chosen}"]
    for workload in space.workloads_at(record.values).values():
        written = {name: getattr(workload, name) for name, knob in knobs().items() if name not in ("model", "weight")
                   and getattr(workload, name) != knob.default}  # fmt: skip
        options = "".join(f" {flag_of(knobs()[name])} {value}" for name, value in written.items())
        said.append(f"# for {workload.model}{options}")
    return "\n".join([*said, document_text(space.hardware_document(record.values))])


@contextmanager
def designs_bar(said: str = "") -> Iterator[Callable[[int, int, str], None]]:
    """A bar of designs evaluated; is told how many, of how many, and what to say beside."""
    columns = (TextColumn("[bold]designs"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    with bars(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task("designs", total=None, said=said)
        yield lambda done, most, said: bar.update(task, completed=done, total=most, said=said)
