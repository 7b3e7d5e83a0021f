"""``monet mine --joint``: designs together with options of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from monet.commands import INTERRUPTED
from monet.commands.options import flag_of
from monet.commands.progress import bars
from monet.errors import MonetError, OptionError, nearest
from monet.quantities import plain_number
from monet.report.files import write_json
from monet.report.html.joint import write_joint
from monet.report.joint import MOST_SHOWN, combinations_table, designs_table, headline, steps_table, summary
from monet.report.screen import screen
from monet.search.hardware.workload import knobs
from monet.search.mining.joint import JointMining, mine_jointly
from monet.search.mining.mine import Problem

NONE = {"checkpoint": "keep-all", "recompute": "none"}  # what "none" means to an option


def joint_options(texts: Sequence[str], taken: Sequence[str]) -> dict[str, list[Any]]:
    """Options to choose among, as written: ``precision=bf16,fp16``. ``taken``: names of the template's parameters."""
    known = {name: knob for name, knob in knobs().items() if name not in ("model", "weight")}
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not values:
            raise MonetError(f"--joint {text!r}: write NAME=VALUE,VALUE, as in precision=bf16,fp16")
        if name not in known:
            raise MonetError(f"--joint {text!r}: no option {name!r} of a workload; {nearest(name, known)}")
        if name in taken:
            raise MonetError(f"--joint {text!r}: the template has a parameter of that name")
        if name in found:
            raise MonetError(f"--joint {text!r}: {name} is given twice")
        given = [NONE.get(name, value) if value == "none" else value for value in values.split(",")]
        try:
            found[name] = list(dict.fromkeys(known[name].read(plain_number(value.strip())) for value in given))
        except OptionError as error:
            raise MonetError(f"--joint {text!r}: {flag_of(known[name])} {error.value!r}: {error.reason}") from None
    return found


def run_joint(
    problem: Problem,
    options: Mapping[str, Sequence[Any]],
    path: str,
    *,
    evaluations: int,
    gap: float,
    jobs: int,
    resume: bool,
    json: str,
    report: str,
) -> None:
    """Mine, print, write."""
    with _display() as watch:
        found = mine_jointly(
            problem, options, path, evaluations=evaluations, slack=gap, jobs=jobs, resume=resume, watch=watch
        )
    if json:
        write_json(json, summary(found))
    if report and found.best:
        write_joint(report, found)
    if json != "-":
        _print(found)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _display() -> Iterator[Any]:
    columns = (TextColumn("[bold]designs"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    with bars(*columns, TimeElapsedColumn()) as shown:
        task = shown.add_task("designs", total=None, said="bounding all designs of every combination")
        yield lambda done, most, best, said: shown.update(
            task, completed=done, total=most, said=f"best {best:.4g}; {said}"
        )


def _print(found: JointMining) -> None:
    console = screen()
    for line in headline(found):
        console.print(line, soft_wrap=True)
    if not found.best:
        return
    best = designs_table(found, "Best designs", found.ranked[:MOST_SHOWN])
    front = designs_table(found, "Front over area", found.front())
    for table in (combinations_table(found), best, front, steps_table(found)):
        console.print()
        console.print(table)
