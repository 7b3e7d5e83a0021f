"""``monet mine --joint``: designs together with options of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monet.commands.mine_outcome import Outputs, designs_bar
from monet.commands.options import flag_of
from monet.errors import MonetError, OptionError, nearest
from monet.quantities import plain_number
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
    outputs: Outputs,
) -> None:
    """Mine, print, write."""
    with designs_bar("bounding all designs of every combination") as tell:
        found = mine_jointly(
            problem, options, path, evaluations=evaluations, slack=gap, jobs=jobs, resume=resume,
            watch=lambda done, most, best, said: tell(done, most, f"best {best:.4g}; {said}"),
        )  # fmt: skip
    outputs.hand_over(
        summary=lambda: summary(found), page=(lambda path: write_joint(path, found)) if found.best else None,
        tables=lambda: _print(found), interrupted=found.interrupted, best=(found.space, found.best),
    )  # fmt: skip


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
