"""Local search on an allocation: one operator at a time, those on the critical path first, every other placement of it
(and the same for its neighbours) tried through the full schedule, the best kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monet.schedule.measurement.energy import energy_of
from monet.schedule.measurement.measure import Measures
from monet.search.allocation.choices import AllocationSpace
from monet.search.allocation.evaluator import AllocationEvaluator
from monet.search.genetic import Genome

MOST_TRIED = 24  # other placements of one operator, drawn at random if it has more


def improve(evaluator: AllocationEvaluator, space: AllocationSpace, start: Genome, budget: int, seed: int) -> Genome:
    """The genome that descent from ``start`` ends at, after at most ``budget`` new evaluations."""
    random = np.random.default_rng(seed)
    neighbours, current = _neighbours(space), start
    value, limit = _value(evaluator, space, start), len(evaluator.known) + budget
    gained = True
    while gained and len(evaluator.known) < limit:
        gained = False
        for number in _order(evaluator, space, current):
            tried = _moves(space, current, number, neighbours[number], random)
            room = limit - len(evaluator.known)
            if room <= 0:
                break
            scored = [(_value(evaluator, space, move), order, move) for order, move in enumerate(tried[:room])]
            best = min(scored, default=None)
            if best and best[0] < value:
                value, current, gained = best[0], best[2], True
    return current


def _value(evaluator: AllocationEvaluator, space: AllocationSpace, genome: Genome) -> float:
    placements = space.placements(genome)
    evaluator.figures(placements)
    return evaluator.value(evaluator.key(placements))


def _order(evaluator: AllocationEvaluator, space: AllocationSpace, genome: Genome) -> list[int]:
    """Classes by what they add to the objective: time on the critical path, or energy; those without any last."""
    scheduler = evaluator.scheduler
    schedule = scheduler.schedule(evaluator.plan(space.placements(genome)))
    energy = energy_of(schedule, scheduler.machine, len(scheduler.workload.operators))
    if evaluator.objective == "energy":
        share = dict(enumerate(map(float, energy.by_operator)))
    else:
        share = {}
        number = {operator.op.name: operator.number for operator in scheduler.workload.operators}
        for step in Measures(schedule, scheduler.machine, scheduler.workload, energy).critical_path():
            where = number[step.operator]
            share[where] = share.get(where, 0.0) + step.end_s - step.start_s
    totals = [-sum(share.get(member, 0.0) for member in members) for members in space.classes]
    return sorted(range(len(totals)), key=lambda number: (totals[number], number))


def _neighbours(space: AllocationSpace) -> list[tuple[int, ...]]:
    """For every class the classes that read what it writes or write what it reads."""
    owner = {number: place for place, members in enumerate(space.classes) for number in members}
    found: list[set[int]] = [set() for _ in space.classes]
    for earlier, later in space.scheduler.workload.dependencies:
        a, b = owner[earlier], owner[later]
        if a != b:
            found[a].add(b)
            found[b].add(a)
    return [tuple(sorted(adjacent)) for adjacent in found]


def _moves(
    space: AllocationSpace, genome: Genome, number: int, neighbours: Sequence[int], random: np.random.Generator
) -> list[Genome]:
    """Genomes that differ in one class; and in it and all neighbours that can take the same placement."""
    forms = space.forms[number]
    here = genome[2 * number], genome[2 * number + 1]
    every = [(f, p) for f, form in enumerate(forms) for p in range(len(form)) if (f, p) != here]
    if len(every) > MOST_TRIED:
        every = [every[index] for index in sorted(random.choice(len(every), MOST_TRIED, replace=False).tolist())]
    found = dict[Genome, None]()
    for form, position in every:
        moved = _with(genome, number, form, position)
        found.setdefault(moved)
        wanted, together = forms[form][position], moved
        for other in neighbours:
            for f, options in enumerate(space.forms[other]):
                if wanted in options:
                    together = _with(together, other, f, options.index(wanted))
        found.setdefault(together)
    found.pop(genome, None)
    return list(found)


def _with(genome: Genome, number: int, form: int, position: int) -> Genome:
    return (*genome[: 2 * number], form, position, *genome[2 * number + 2 :])
