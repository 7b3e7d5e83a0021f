"""``monet mine --stages``: designs for the stages of a pipeline over the network of a system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from monet.commands.mine_outcome import Outputs, designs_bar
from monet.errors import MonetError, OptionError
from monet.report.html.stages import write_stages
from monet.report.screen import screen
from monet.report.stages import WORDS, choices_table, headline, local_table, stages_table, summary, top_table
from monet.request.system_request import SystemRequest
from monet.search.hardware.workload import Workload
from monet.search.mining.stages.mine_stages import StageMining, Watch, mine_stages
from monet.search.mining.stages.problem import StageProblem, fitted
from monet.search.mining.templates import Limits, Template

DEFAULT_TOP = 3


def stage_problem(
    template: Template,
    name: str,
    workload: Workload,
    request: SystemRequest,
    stages: int,
    limits: Limits,
    metric: str,
    floor: float,
) -> tuple[StageProblem, tuple[str, ...]]:
    """What is asked for, checked and made to fit; and what was changed for that."""
    return fitted(asked_stages(template, name, workload, request, stages, limits, metric, floor))


def asked_stages(
    template: Template,
    name: str,
    workload: Workload,
    request: SystemRequest,
    stages: int,
    limits: Limits,
    metric: str,
    floor: float,
) -> StageProblem:
    """What is asked for, checked."""
    if not request.system:
        raise OptionError("system", "", "whose network joins the stages? a preset name or a YAML file (monet systems)")
    asked = replace(request, pipeline=stages)
    plan, system = asked.parallel_plan(), asked.load_system()
    if plan.devices > system.size:
        raise MonetError(f"--stages {stages}: {plan.devices:,} devices, {system.name} has {system.size:,}")
    workload = replace(workload, batch=None)
    return StageProblem(template, name, workload, system, plan, asked.whole_batch(plan), limits, metric, floor)


def run_stages(
    problem: StageProblem,
    notes: tuple[str, ...],
    path: str,
    *,
    top: int,
    which: tuple[str, ...],
    evaluations: int,
    gap: float,
    jobs: int,
    resume: bool,
    outputs: Outputs,
) -> None:
    """Mine, print, write."""
    with stages_bar() as watch:
        found = mine_stages(
            problem, path, top=top, evaluations=evaluations, slack=gap, jobs=jobs, resume=resume, notes=notes,
            watch=watch,
        )  # fmt: skip
    found = replace(found, chosen=found.chosen.only(which))
    outputs.hand_over(
        summary=lambda: summary(found), page=lambda path: write_stages(path, found), tables=lambda: print_stages(found),
        interrupted=found.interrupted,
    )  # fmt: skip


@contextmanager
def stages_bar() -> Iterator[Watch]:
    """A bar of designs evaluated, with the stage that they are for."""
    with designs_bar() as tell:
        yield lambda said, done, most: tell(done, most, said)


def print_stages(found: StageMining) -> None:
    """The tables of a pipeline."""
    console = screen()
    for line in headline(found):
        console.print(line, soft_wrap=True)
    chosen = [name for name in WORDS if getattr(found.chosen, name) is not None]
    if not chosen:
        console.print("no choice of designs was costed")
        return
    tables = [choices_table(found), *(stages_table(found, name) for name in chosen), local_table(found)]
    for table in [*tables, *([top_table(found)] if found.top_k > 1 else [])]:
        console.print()
        console.print(table)
