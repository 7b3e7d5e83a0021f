"""``monet mine --stages --joint``: designs for the stages of a pipeline together with options of the parallel plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from monet.commands.mine_outcome import Outputs
from monet.commands.mine_stages import asked_stages, print_stages, stages_bar
from monet.commands.options import flag_of
from monet.errors import MonetError, OptionError, nearest
from monet.options import Option, options_of
from monet.quantities import plain_number
from monet.report.html.stages import write_plans
from monet.report.plans import headline, plans_table, summary
from monet.report.screen import screen
from monet.request.system_request import DEGREES, SystemRequest
from monet.search.hardware.space import changed_workload
from monet.search.hardware.workload import Workload, knobs
from monet.search.mining.stages.plans import Asked, PlanMining, mine_plans
from monet.search.mining.templates import Limits, Template

STAGES = "stages"  # as the command calls the degree of the pipeline
MOST_COMBINATIONS = 64
NOT_CHOSEN = ("model", "weight", "batch", "cuts", "pipeline", "bucket_bytes")


def plan_options(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Options of a plan or of training to choose among, as written: ``tensor=1,2``, ``stages=4,8``, ``precision=bf16,fp16``."""
    degrees = {name: each for name, each in options_of(SystemRequest).items() if name in DEGREES}
    known: dict[str, Option] = {STAGES: degrees["pipeline"]} | knobs() | degrees
    known = {name: each for name, each in known.items() if name not in NOT_CHOSEN}
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        name = name.replace("-", "_")
        if not equals or not values:
            raise MonetError(f"--joint {text!r}: write NAME=VALUE,VALUE, as in tensor=1,2")
        if name not in known:
            raise MonetError(f"--joint {text!r}: no option {name!r} of a pipeline; {nearest(name, known)}")
        if name in found:
            raise MonetError(f"--joint {text!r}: {name} is given twice")
        try:
            read = [known[name].read(_plain(value.strip())) for value in values.split(",")]
        except OptionError as error:
            raise MonetError(f"--joint {text!r}: {flag_of(known[name])} {error.value!r}: {error.reason}") from None
        found[name] = list(dict.fromkeys(read))
    count = math.prod(len(values) for values in found.values())
    if count > MOST_COMBINATIONS:
        raise MonetError(f"--joint: {count:,} combinations, more than {MOST_COMBINATIONS}; give fewer values")
    return found


def _plain(text: str) -> Any:
    return text == "yes" if text in ("yes", "no") else plain_number(text)


def combinations_of(
    template: Template, name: str, workload: Workload, request: SystemRequest, stages: int, limits: Limits, metric: str,
    floor: float, options: Mapping[str, Sequence[Any]],
) -> Iterator[Asked]:  # fmt: skip
    """Every combination with what makes its problem."""
    for values in itertools.product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        plan = {each: value for each, value in chosen.items() if each in DEGREES}
        other = {each: value for each, value in chosen.items() if each not in DEGREES and each != STAGES}
        many = int(chosen.get(STAGES, stages))

        def make(plan: Any = plan, other: Any = other, many: int = many) -> Any:
            changed = changed_workload(workload, other) if other else workload
            return asked_stages(template, name, changed, replace(request, **plan), many, limits, metric, floor)

        yield chosen, make


def run_plans(
    combinations: Sequence[Asked],
    path: str,
    *,
    top: int,
    evaluations: int,
    gap: float,
    jobs: int,
    resume: bool,
    outputs: Outputs,
) -> None:
    """Mine, print, write."""
    with stages_bar() as watch:
        found = mine_plans(
            combinations, path, top=top, evaluations=evaluations, slack=gap, jobs=jobs, resume=resume, watch=watch
        )
    outputs.hand_over(
        summary=lambda: summary(found), page=lambda path: write_plans(path, found), tables=lambda: _print(found),
        interrupted=found.interrupted,
    )  # fmt: skip


def _print(found: PlanMining) -> None:
    console = screen()
    for line in headline(found):
        console.print(line, soft_wrap=True)
    console.print()
    console.print(plans_table(found))
    if found.best.found is not None:
        console.print()
        print_stages(found.best.found)
