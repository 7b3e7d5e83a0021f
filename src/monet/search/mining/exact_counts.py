"""WHAM's model solved exactly by CP-SAT: the shortest schedule on some cores, and the best numbers of cores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monet.search.mining.criticality import Tasks, best_listed, criticality

EFFORT = 20.0  # deterministic seconds of the solver


@dataclass(frozen=True, slots=True)
class Exact:
    """What the solver found: ticks, cores by kind, and a bound; ``proved`` if they meet."""

    makespan: int
    bound: int
    counts: tuple[int, ...]

    @property
    def proved(self) -> bool:
        """Whether no schedule is shorter."""
        return self.makespan == self.bound


def exact_schedule(
    tasks: Tasks, counts: Sequence[int], hint: Sequence[int] = (), effort: float = EFFORT
) -> Exact | None:
    """The shortest schedule of whole operators on so many cores of each kind; None if none was found in time.
    ``hint``: starts to begin with."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    starts, makespan = _tasks(model, tasks)
    for kind, count in enumerate(counts):
        _cores(model, tasks, starts, kind, count)
    for start, at in zip(starts, hint, strict=False):
        model.add_hint(start, int(at))
    model.minimize(makespan)
    solved = _solve(model, effort)
    if solved is None:
        return None
    return Exact(round(solved.objective_value), round(solved.best_objective_bound), tuple(counts))


def exact_numbers(
    tasks: Tasks, choices: Sequence[Sequence[int]], areas: Sequence[int], room: int, effort: float = EFFORT
) -> Exact | None:
    """The numbers of cores, of ``choices`` by kind, whose areas together fit a room, with the shortest schedule: every
    choice that no other one within the room has more of everything than, each solved. None if none fits.

    Numbers as variables of one model are far harder for the solver than a few models with numbers given.
    """
    found, after = criticality(tasks), tasks.after()
    inside = [each for each in itertools.product(*choices) if _area(each, areas) <= room]
    best: Exact | None = None
    for counts in sorted(inside, key=lambda each: _area(each, areas)):
        if any(_more(other, counts) for other in inside):
            continue
        listed = best_listed(tasks, counts, found, after)
        solved = exact_schedule(tasks, counts, listed.start.tolist(), effort)
        if solved is not None and (best is None or solved.makespan < best.makespan):
            best = solved
    return best


def _area(counts: Sequence[int], areas: Sequence[int]) -> int:
    return sum(area * count for area, count in zip(areas, counts, strict=True))


def _more(one: Sequence[int], other: Sequence[int]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _tasks(model: Any, tasks: Tasks) -> tuple[list[Any], Any]:
    """Starts in order of dependence, and when the last is done."""
    horizon, length = int(tasks.ticks.sum()), criticality(tasks).length
    starts = [model.new_int_var(0, horizon, f"s{number}") for number in range(len(tasks))]
    makespan = model.new_int_var(length, horizon, "makespan")
    for number, earlier in enumerate(tasks.before):
        for one in earlier:
            model.add(starts[number] >= starts[one] + int(tasks.ticks[one]))
        model.add(makespan >= starts[number] + int(tasks.ticks[number]))
    return starts, makespan


def _cores(model: Any, tasks: Tasks, starts: list[Any], kind: int, count: Any) -> None:
    """At most so many operators of a kind at a time."""
    intervals = [
        model.new_fixed_size_interval_var(starts[number], int(tasks.ticks[number]), f"i{number}")
        for number in range(len(tasks))
        if tasks.kind[number] == kind
    ]
    model.add_cumulative(intervals, [1] * len(intervals), count)


def _solve(model: Any, effort: float) -> Any:
    """A solver with an answer; deterministic, so on one worker and not by the clock."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = effort
    return solver if solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
