"""What is critical in a step and what has slack, in the model of whole operators on one core each; and what one more
core of each kind would buy there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from monet.hardware.accelerator import Accelerator
from monet.report.quantities import percent, seconds
from monet.report.table import Heading, TextTable
from monet.schedule.workload import Workload
from monet.search.mining.criticality import TICKS_PER_S, best_listed, criticality, tasks_on


@dataclass(frozen=True, slots=True)
class OneMore:
    """A kind of core, how many there are, and the step with one more, in the model."""

    kind: str
    cores: int
    step_s: float


@dataclass(frozen=True, slots=True)
class CriticalWork:
    """Longest path, step on the cores there are, operators by how much they may move (name, seconds, slack)."""

    path_s: float
    step_s: float
    operators: tuple[tuple[str, float, float], ...]
    more: tuple[OneMore, ...]

    @property
    def critical(self) -> tuple[tuple[str, float, float], ...]:
        """Operators that cannot move, longest first."""
        return tuple(sorted((each for each in self.operators if each[2] <= 0), key=lambda each: -each[1]))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "longest_path_s": self.path_s,
            "step_s": self.step_s,
            "critical_operators": [{"name": name, "seconds": took} for name, took, _ in self.critical],
            "operators_with_slack": len(self.operators) - len(self.critical),
            "one_more_core": [{"kind": each.kind, "cores": each.cores, "step_s": each.step_s} for each in self.more],
        }


def critical_work(workload: Workload, accelerator: Accelerator) -> CriticalWork:
    """Criticality of a workload on an accelerator's cores."""
    tasks, kinds, counts = tasks_on(workload, accelerator)
    found, after = criticality(tasks), tasks.after()
    step = best_listed(tasks, counts, found, after).makespan
    more = []
    for place, kind in enumerate(kinds):
        larger = tuple(count + (number == place) for number, count in enumerate(counts))
        taken = best_listed(tasks, larger, found, after).makespan
        more.append(OneMore(kind, counts[place], min(step, taken) / TICKS_PER_S))
    slack, took = found.mobility / TICKS_PER_S, tasks.ticks / TICKS_PER_S
    rows = tuple(zip(tasks.names, took.tolist(), slack.tolist(), strict=True))
    return CriticalWork(found.length / TICKS_PER_S, step / TICKS_PER_S, rows, tuple(more))


def critical_table(work: CriticalWork, top: int) -> TextTable:
    """The longest critical operators, and the slack of the others in one line below."""
    slack = [each for each in work.operators if each[2] > 0]
    waiting = sum(took for _, took, _ in slack)
    rows = [(name, seconds(took), percent(took / work.path_s)) for name, took, _ in work.critical[:top]]
    rest = len(work.critical) - len(rows)
    more = f"{rest} more are critical; " if rest > 0 else ""
    more += f"{len(slack)} operators of {seconds(waiting)} together have slack" if slack else "nothing has slack"
    title = f"Critical operators, each whole on one core: longest path {seconds(work.path_s)}"
    return TextTable(title, ("operator", "time", "of the path"), rows, more=more)


def one_more_table(work: CriticalWork) -> TextTable:
    """What a further core of each kind would buy in that model."""
    rows = [
        (
            each.kind,
            f"{each.cores:,}",
            seconds(work.step_s),
            seconds(each.step_s),
            percent(1 - each.step_s / work.step_s),
        )
        for each in work.more
    ]
    headings = (Heading("core", "words"), "there are", "step", "with one more", "saves")
    return TextTable("One more core, operators whole and unfused", headings, rows)
