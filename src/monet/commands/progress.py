"""Progress of long work: lines on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from monet.report.terminal import screen


def bars(*columns: ProgressColumn, transient: bool = True) -> Progress:
    """Progress on a terminal, ``transient`` if it leaves nothing behind; without columns: what is done, a bar, the
    share, the time left."""
    console = screen(errors=True)
    return Progress(*columns, console=console, transient=transient, disable=not console.is_terminal)


@contextmanager
def saying(what: str) -> Iterator[Callable[[str], None]]:
    """One line that says what is being done."""
    with bars(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as shown:
        task = shown.add_task(what)
        yield lambda line: shown.update(task, description=line)


@contextmanager
def counted(what: str, expected: int) -> Iterator[Callable[[int], None]]:
    """How many of about ``expected``, the rate, the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with bars(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as shown:
        task = shown.add_task(what, total=expected, rate="")

        def watch(count: int) -> None:
            elapsed = shown.tasks[0].elapsed or 0.0
            rate = f"{count / elapsed:.1f}/s" if elapsed else ""
            shown.update(task, completed=count, total=max(expected, count), rate=rate)

        yield watch
