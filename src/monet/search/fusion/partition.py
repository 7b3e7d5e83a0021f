"""The exact partition: which candidate groups to take so that the sum of their gains is largest.

Set packing by CP-SAT (operators in no chosen group stand alone and gain nothing). That the groups can be ordered
together is added lazily: a solution whose groups wait for each other in a circle forbids that circle, and it goes on.
Every answer is optimal for the cuts so far, so the first one without a circle is optimal. One worker, fixed seed,
deterministic time: the same answer everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monet.search.fusion.structure import Structure, bits, circle

DETERMINISTIC_TIME = 20.0  # of a whole call, in the solver's own unit (about a second of one core)
SCALE = 100_000_000  # gains are whole numbers in the solver: parts of the largest


@dataclass(frozen=True, slots=True)
class Partition:
    """Chosen candidates (positions), the sum of their gains, and what no choice can exceed."""

    chosen: tuple[int, ...]
    gain: float
    bound: float
    rounds: int

    @property
    def optimal(self) -> bool:
        """Whether it was proved to be the best, to the solver's resolution."""
        return self.bound <= self.gain + 1e-5 * abs(self.gain) + 1e-30


def best_partition(
    of: Structure,
    masks: Sequence[int],
    gains: Sequence[float],
    *,
    not_these: Sequence[Sequence[int]] = (),
    seed: int = 0,
    deterministic_time: float = DETERMINISTIC_TIME,
) -> Partition:
    """Choose disjoint candidates, orderable together, with the largest sum of gains. ``not_these``: solutions that are
    known already; the answer differs from each."""
    from ortools.sat.python import cp_model

    positive = [number for number, gain in enumerate(gains) if gain > 0]
    if not positive:
        return Partition((), 0.0, 0.0, 0)
    largest = max(gains[number] for number in positive)
    # rounded up, so that the solver's bound is one on the sum of gains too
    weight = {number: math.ceil(SCALE * gains[number] / largest) for number in positive}
    model = cp_model.CpModel()
    take = {number: model.new_bool_var(f"take{number}") for number in positive}
    members: dict[int, list[int]] = {}
    for number in positive:
        for operator in bits(masks[number]):
            members.setdefault(operator, []).append(number)
    for some in members.values():
        if len(some) > 1:
            model.add_at_most_one(take[number] for number in some)
    for known in not_these:
        inside = {number for number in known if number in take}
        outside = [take[number] for number in positive if number not in inside]
        model.add_bool_or([*(take[number].negated() for number in sorted(inside)), *outside])
    model.maximize(sum(weight[number] * take[number] for number in positive))
    spent, rounds, bound = 0.0, 0, 0.0
    while True:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is ours: it ends the search, not one solve
        solver.parameters.random_seed = seed
        solver.parameters.max_deterministic_time = max(0.01, deterministic_time - spent)
        status = solver.solve(model)
        spent, rounds = spent + solver.deterministic_time, rounds + 1
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Partition((), 0.0, bound, rounds)
        bound = solver.best_objective_bound * largest / SCALE
        chosen = [number for number in positive if solver.value(take[number])]
        stuck = circle(of, [masks[number] for number in chosen])
        if not stuck:
            return Partition(tuple(chosen), sum(gains[number] for number in chosen), bound, rounds)
        if spent >= deterministic_time:  # take out of the circles what gains least
            chosen = _broken(of, masks, gains, chosen)
            return Partition(tuple(chosen), sum(gains[number] for number in chosen), bound, rounds)
        model.add_bool_or(take[chosen[position]].negated() for position in stuck)


def _broken(of: Structure, masks: Sequence[int], gains: Sequence[float], chosen: list[int]) -> list[int]:
    while True:
        stuck = circle(of, [masks[number] for number in chosen])
        if not stuck:
            return chosen
        chosen.remove(min((chosen[position] for position in stuck), key=lambda number: (gains[number], number)))
