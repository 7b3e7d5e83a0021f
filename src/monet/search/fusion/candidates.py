"""Candidate groups and what each gains: the whole step with this group alone fused, against nothing fused.

So a candidate is costed by the same models as ``monet run``, in the place where it stands; that the gains of several
add up is the only assumption of the exact partition, and the search reports how far it holds. Groups that by estimate
gain no more than a part of them are not costed; repeated layers are costed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from monet.schedule.plan import Plan
from monet.search.fusion.evaluation import FusionEvaluator, Variant, plan_with
from monet.search.fusion.structure import Level, Structure, bits, one_larger, single_operators
from monet.search.fusion.traffic import Baseline, weighted
from monet.search.fusion.variants import variants_of

LEAST = 1e-5  # a group that may gain less than this part of the whole step is not looked at
WIDEST = 50_000  # groups of one size, from which the next size grows
QUICK = 3  # variants that a group is first costed with
HOPE = 0.25  # a group whose first variants lose less than this share of its estimate is costed with the others too


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group worth choosing: its operators, how it runs best alone, and what that gains (units of the objective)."""

    mask: int
    variant: Variant
    gain: float


@dataclass(frozen=True, slots=True)
class Census:
    """How many groups there are, and what became of them."""

    legal: int = 0
    complete: bool = True  # whether these are all legal groups, not the first of too many
    hopeful: int = 0  # may gain more than any part of them
    distinct: int = 0  # after folding repeated layers
    costed: int = 0  # distinct ones that went through the full schedule
    schedules: int = 0  # with all their tile sizes
    gaining: int = 0  # that gain, all layers
    dominated: int = 0  # of these, that gain no more than a part of them


@dataclass(frozen=True)
class Fold:
    """Groups that are the same in different layers; the first stands for all. ``estimate``: what one may gain;
    ``more``: by how much that is more than the estimate of any part of it."""

    masks: tuple[int, ...]
    estimate: float
    more: float


def hopeful_groups(
    of: Structure, baseline: Baseline, objective: str, limit: int
) -> tuple[int, bool, list[tuple[int, float, float]]]:
    """How many legal groups were enumerated, whether these are all, and those that may gain more than any group with an
    operator less: (operators, estimate of the gain, how much more).

    Where many operators share one tensor (the steps of an LSTM all read its sequence, a sum adds the gradients of all),
    any handful of them is legal: far too many to list. So the best by estimate grow first, at every place of the
    network in turn, until there are ``WIDEST`` of the next size."""
    seconds, joules = float(baseline.seconds.sum()), float(baseline.joules.sum())
    least = LEAST * weighted(objective, seconds, joules, seconds, joules)
    estimate: dict[int, float] = {}
    level, legal, complete, found = single_operators(of), 0, True, []
    for _ in range(2, limit + 1):
        level = one_larger(of, _best_first(level, estimate), WIDEST)
        legal += len(level)
        complete = complete and len(level) < WIDEST
        for mask in level:
            estimate[mask] = here = baseline.potential(mask, objective)
            if here < least:
                continue
            more = here - max(estimate.get(mask & ~(1 << number), 0.0) for number in bits(mask))
            if more > least:
                found.append((mask, here, more))
    return legal, complete, found


def _best_first(level: Level, estimate: Mapping[int, float]) -> Level:
    """A level in the order to grow it in: for every first operator its best group, then for every one the second."""
    turn: dict[int, int] = {}
    ranked = []
    for mask in sorted(level, key=lambda mask: (-estimate.get(mask, 0.0), mask)):
        turn[mask & -mask] = here = turn.get(mask & -mask, -1) + 1
        ranked.append((here, mask))
    return {mask: level[mask] for _, mask in sorted(ranked)}


def folded(baseline: Baseline, groups: Iterable[tuple[int, float, float]], base: Plan) -> list[Fold]:
    """Groups with equal operators, wiring, placement and traffic together, those that promise most first."""
    operators, alike = baseline.scheduler.workload.operators, dict[object, int]()
    kinds = [alike.setdefault((each.alike, base.placements[each.op.name]), len(alike)) for each in operators]
    classes: dict[tuple[object, ...], tuple[list[int], float, float]] = {}
    for mask, estimate, more in groups:
        numbers, place = list(bits(mask)), dict[str, int]()
        wiring = []
        for number in numbers:
            here = []
            for name in operators[number].storages:
                readers, writers, size, persistent = baseline.touched[name]
                leaves = bool((readers | writers) & ~mask)
                here.append((place.setdefault(name, len(place)), leaves, persistent, size))
            wiring.append((kinds[number], tuple(here)))
        key = (tuple(wiring), baseline.saveable_bytes(mask), f"{estimate:.1e}", in_place(mask))
        classes.setdefault(key, ([], estimate, more))[0].append(mask)
    found = [Fold(tuple(masks), estimate, more) for masks, estimate, more in classes.values()]
    return sorted(found, key=lambda fold: (-fold.more * len(fold.masks), fold.masks[0]))


def in_place(mask: int) -> bool:
    """Whether the operators of a group follow each other anyway: as a sequence it then changes nothing."""
    lowest = mask & -mask
    return mask // lowest & (mask // lowest + 1) == 0


class Costing:
    """Gains of folds, by variant, with a budget of work."""

    def __init__(self, evaluator: FusionEvaluator, baseline: Baseline, base: Plan, budget: int) -> None:
        self.evaluator, self.baseline, self.base = evaluator, baseline, base
        self.began, self.last = evaluator.scheduled, evaluator.work + budget
        self.unfused_cost = evaluator.cost(base)
        self.best: dict[Fold, tuple[float, int]] = {}

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self.evaluator.work >= self.last

    def cost(self, fold: Fold, quick: bool) -> None:
        """Cost the group that stands for a fold: its first variants, or all others."""
        every = variants_for(self.baseline, self.base, fold.masks[0])
        alone = in_place(fold.masks[0])
        useful = [n for n, variant in enumerate(every) if variant.group.tile or variant.moved or not alone]
        first = [
            n for n in useful if not any(placement.cores[0] for _, placement in every[n].moved if not placement.split)
        ][:QUICK]
        for number in first if quick else [n for n in useful if n not in first]:
            if self.spent:
                return
            gain = self.unfused_cost - self.evaluator.cost(plan_with(self.base, (every[number],)))
            if fold not in self.best or gain > self.best[fold][0]:
                self.best[fold] = gain, number

    def candidates(self) -> list[Candidate]:
        """All groups that gain, with their best variant."""
        found = []
        for fold, (gain, number) in self.best.items():
            for mask in fold.masks if gain > 0 else ():
                every = variants_for(self.baseline, self.base, mask)
                found.append(Candidate(mask, every[min(number, len(every) - 1)], gain))
        return found


def variants_for(baseline: Baseline, base: Plan, mask: int) -> tuple[Variant, ...]:
    """Variants of a group given by its operators."""
    operators = baseline.scheduler.workload.operators
    if mask not in baseline.variants:
        baseline.variants[mask] = variants_of(baseline.scheduler, base, [operators[number] for number in bits(mask)])
    return baseline.variants[mask]


def undominated(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Without those that gain no more than a candidate inside them."""
    kept: list[Candidate] = []
    by_operator: dict[int, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: (candidate.mask.bit_count(), candidate.mask)):
        touching = (c for number in bits(candidate.mask) for c in by_operator.get(number, ()))
        if any(c.gain >= candidate.gain and not c.mask & ~candidate.mask for c in touching):
            continue
        kept.append(candidate)
        for number in bits(candidate.mask):
            by_operator.setdefault(number, []).append(candidate)
    return kept
