"""Local improvement of a plan by its scheduled cost: groups added, dropped, split, merged, tiled otherwise.

First the candidates that gain most, each tried on the plan as it is (what it overlaps gives way, or is kept in part);
then single changes in a random order, until a whole round brings nothing or the budget is spent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from monet.schedule.plan import Plan
from monet.search.fusion.candidates import Candidate, variants_for
from monet.search.fusion.evaluation import FusionEvaluator, Variant, plan_with
from monet.search.fusion.structure import Structure, bits, circle, is_connected, is_convex
from monet.search.fusion.traffic import Baseline

Chosen = dict[int, Variant]  # by the operators of a group
LEAST_GAIN = 1e-7  # part of the cost: less is no improvement
KICK = 3  # random changes after which it climbs again
MOST_KICKS = 20  # in a row that lead to nothing that was not known


class Climber:
    """A plan on its way up: chosen groups, what they cost, what is left of the budget."""

    def __init__(
        self, evaluator: FusionEvaluator, of: Structure, baseline: Baseline, base: Plan, limit: int, budget: int
    ) -> None:
        self.evaluator, self.of, self.baseline, self.base = evaluator, of, baseline, base
        self.limit, self.last = limit, evaluator.work + budget
        self.chosen: Chosen = {}
        self.cost = evaluator.cost(base)

    @property
    def spent(self) -> bool:
        """Whether the budget of work is used up."""
        return self.evaluator.work >= self.last

    def start_if_better(self, chosen: Chosen) -> None:
        """Go on from these groups if they cost less."""
        cost = self.evaluator.cost(plan_with(self.base, tuple(chosen.values())))
        if cost < self.cost:
            self.chosen, self.cost = dict(chosen), cost

    def accept(self, chosen: Chosen) -> bool:
        """Take other groups if they can be ordered and cost less."""
        if circle(self.of, list(chosen)):
            return False
        cost = self.evaluator.cost(plan_with(self.base, tuple(chosen.values())))
        if cost >= self.cost * (1 - LEAST_GAIN):
            return False
        self.chosen, self.cost = chosen, cost
        return True

    def without(self, mask: int) -> Chosen:
        """The chosen groups that do not overlap some operators."""
        return {other: variant for other, variant in self.chosen.items() if not other & mask}

    def add(self, candidate: Candidate) -> bool:
        """Take a candidate in; overlapping groups go, or lose the operators that they share with it."""
        if self.chosen.get(candidate.mask) == candidate.variant:
            return False
        free = self.without(candidate.mask) | {candidate.mask: candidate.variant}
        kept = dict(free)
        for other, variant in self.chosen.items():
            rest = other & ~candidate.mask
            if other & candidate.mask and rest.bit_count() > 1 and not variant.group.tile and self.legal(rest):
                kept[rest] = variants_for(self.baseline, self.base, rest)[0]
        return (len(kept) > len(free) and self.accept(kept)) or self.accept(free)

    def legal(self, mask: int) -> bool:
        """Whether some operators may be a group."""
        return mask.bit_count() <= self.limit and is_connected(self.of, mask) and is_convex(self.of, mask)

    def moves(self, mask: int) -> Iterator[Chosen]:
        """All single changes of one chosen group."""
        rest = {other: variant for other, variant in self.chosen.items() if other != mask}
        yield rest
        for neighbour in _neighbours(self.chosen[mask], variants_for(self.baseline, self.base, mask)):
            yield rest | {mask: neighbour}
        for number in bits(mask):
            less = mask & ~(1 << number)
            if less.bit_count() > 1 and self.legal(less):
                yield rest | {less: self.alike(mask, less)}
        near = 0
        for number in bits(mask):
            near |= self.of.near[number]
        for number in bits(near & ~mask):
            yield from self._grown(mask, number)

    def _grown(self, mask: int, number: int) -> Iterator[Chosen]:
        owner = next((other for other in self.chosen if other >> number & 1), 0)
        for grown in {mask | 1 << number, mask | owner}:
            if grown == mask or not self.legal(grown):
                continue
            rest = {other: variant for other, variant in self.chosen.items() if not other & grown}
            left = owner & ~grown
            if left.bit_count() > 1 and self.legal(left):
                rest[left] = self.alike(owner, left)
            yield rest | {grown: self.alike(mask, grown)}

    def alike(self, mask: int, other: int) -> Variant:
        """The variant of a changed group that is nearest to how it ran."""
        old, every = self.chosen[mask], variants_for(self.baseline, self.base, other)
        names = {name for name, _ in every[0].group.tile} | set(every[0].group.operators)
        same = [variant for variant in every if bool(variant.group.tile) == bool(old.group.tile)]
        sizes = [size for _, size in old.group.tile]
        return min(
            same or list(every),
            key=lambda variant: (
                sum(abs(size - (sizes[0] if sizes else size)) for _, size in variant.group.tile),
                len(set(variant.moved) ^ {pair for pair in old.moved if pair[0] in names}),
            ),
        )


def _neighbours(old: Variant, every: Sequence[Variant]) -> list[Variant]:
    """Other variants of the same group, and its own tile twice and half as large, the other halo."""
    found = [variant for variant in every if variant != old]
    if old.group.tile:
        (dim, size), *rest = old.group.tile
        for other in (size // 2, size * 2):
            if other:
                found.append(replace(old, group=old.group._replace(tile=((dim, other), *rest))))
    return list(dict.fromkeys(found))


def climb(climber: Climber, candidates: Sequence[Candidate], rng: random.Random, report: Callable[[str], None]) -> None:
    """Improve until the budget is spent: to a plan that no single change improves, then from there again after a few
    random changes, kept if they lead to a better one. Without candidates, or if nothing is left to change, earlier."""
    _uphill(climber, candidates, rng)
    report("no single change improves the plan")
    quiet = 0
    while not climber.spent and quiet < MOST_KICKS and (candidates or climber.chosen):
        best, cost = dict(climber.chosen), climber.cost
        before = climber.evaluator.scheduled
        _kick(climber, candidates, rng)
        _uphill(climber, rng.sample(list(candidates), min(len(candidates), 20)), rng)
        quiet = quiet + 1 if climber.evaluator.scheduled == before else 0
        if climber.cost >= cost * (1 - LEAST_GAIN):
            climber.chosen, climber.cost = best, cost
        else:
            report("improved")


def _uphill(climber: Climber, candidates: Sequence[Candidate], rng: random.Random) -> None:
    improved = True
    while improved and not climber.spent:
        improved = False
        for candidate in candidates:
            if climber.spent:
                return
            improved |= climber.add(candidate)
        masks = list(climber.chosen)
        rng.shuffle(masks)
        for mask in masks:
            if climber.spent:
                return
            improved |= _better(climber, mask, rng)


def _kick(climber: Climber, candidates: Sequence[Candidate], rng: random.Random) -> None:
    """A few random changes, whatever they cost."""
    for _ in range(KICK):
        chosen = dict(climber.chosen)
        if candidates and (not chosen or rng.random() < 0.5):
            candidate = rng.choice(list(candidates))
            chosen = climber.without(candidate.mask) | {candidate.mask: candidate.variant}
        else:
            del chosen[rng.choice(list(chosen))]
        cost = climber.evaluator.cost(plan_with(climber.base, tuple(chosen.values())))
        if cost < float("inf") and not circle(climber.of, list(chosen)):
            climber.chosen, climber.cost = chosen, cost


def _better(climber: Climber, mask: int, rng: random.Random) -> bool:
    if mask not in climber.chosen:
        return False
    moves = list(climber.moves(mask))
    rng.shuffle(moves)
    for chosen in moves:
        if climber.spent:
            return False
        if climber.accept(chosen):
            return True
    return False
