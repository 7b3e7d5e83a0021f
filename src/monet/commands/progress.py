"""Progress of long work: lines on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from monet.report.quantities import joules, seconds
from monet.report.screen import screen
from monet.search.progress import SearchProgress


def bars(*columns: ProgressColumn, transient: bool = True) -> Progress:
    """Progress on a terminal, ``transient`` if it leaves nothing behind; without columns: what is done, a bar, the
    share, the time left."""
    console = screen(errors=True)
    return Progress(*columns, console=console, transient=transient, disable=not console.is_terminal)


@contextmanager
def searching(what: str) -> Iterator[Callable[[SearchProgress], None]]:
    """A search: its stage, plans tried and their rate, the share of what it may spend, the time left at most, the best
    so far."""
    texts = (
        "{task.percentage:>3.0f} %",
        "{task.fields[tried]:,} plans",
        "{task.fields[rate]}",
        "best {task.fields[best]}",
    )
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), *map(TextColumn, texts))
    with bars(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()) as shown:
        task = shown.add_task(what, total=1.0, tried=0, rate="", best="–")

        def watch(now: SearchProgress) -> None:
            elapsed = shown.tasks[0].elapsed or 0.0
            rate = f"{now.tried / elapsed:,.1f}/s" if elapsed else ""
            best = f"{seconds(now.best.latency_s)}, {joules(now.best.energy_j)}" if now.best else "–"
            shown.update(task, completed=now.share, description=now.stage, tried=now.tried, rate=rate, best=best)

        yield watch


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
