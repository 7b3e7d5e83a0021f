"""Candidate groups and what each gains: the whole step with this group alone fused, against nothing fused.

So a candidate is costed by the same models as ``monet run``, in the place where it stands; that the gains of several
add up is the only assumption of the exact partition, and the search reports how far it holds. Groups whose upper
estimate says that they cannot gain, or no more than a part of them, are not costed; repeated layers are costed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from monet.schedule.plan import Plan
from monet.search.fusion.evaluation import Evaluator, Variant, plan_with
from monet.search.fusion.structure import Structure, bits, legal_groups
from monet.search.fusion.traffic import Baseline, weighted
from monet.search.fusion.variants import variants_of

LEAST = 1e-5  # a group that can gain less than this part of the whole step is not looked at


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group worth choosing: its operators, how it runs best alone, and what that gains (units of the objective)."""

    mask: int
    variant: Variant
    gain: float


@dataclass(frozen=True, slots=True)
class Census:
    """How many groups there are, and what became of them."""

    legal: int
    hopeful: int  # could gain more than any part of them
    distinct: int  # after folding repeated layers
    costed: int  # distinct ones that went through the full schedule
    schedules: int  # with all their tile sizes
    gaining: int  # that gain, all layers
    dominated: int  # of these, that gain no more than a part of them


@dataclass(frozen=True)
class Fold:
    """Groups that are the same in different layers; the first stands for all."""

    masks: tuple[int, ...]
    potential: float


def hopeful_groups(
    of: Structure, baseline: Baseline, objective: str, limit: int
) -> tuple[int, list[tuple[int, float]]]:
    """How many legal groups there are, and those that may gain more than any group with an operator less, with the
    upper estimate of their gain."""
    groups = legal_groups(of, limit)
    whole = weighted(
        objective, float(baseline.seconds.sum()), float(baseline.joules.sum()),
        float(baseline.seconds.sum()), float(baseline.joules.sum()),
    )  # fmt: skip
    estimate: dict[int, float] = {}
    found = []
    for mask in groups:
        estimate[mask] = here = baseline.potential(mask, objective)
        if here < LEAST * whole:
            continue
        parts = (estimate.get(mask & ~(1 << one), 0.0) for one in bits(mask))
        if here > max(parts) + LEAST * whole:
            found.append((mask, here))
    return len(groups), found


def folded(baseline: Baseline, groups: Iterable[tuple[int, float]], base: Plan) -> list[Fold]:
    """Groups with equal operators, wiring, placement and traffic together, those that promise most first."""
    operators, alike = baseline.scheduler.workload.operators, dict[object, int]()
    kinds = [alike.setdefault((one.alike, base.placements[one.op.name]), len(alike)) for one in operators]
    classes: dict[tuple[object, ...], tuple[list[int], float]] = {}
    for mask, potential in groups:
        numbers, place = list(bits(mask)), dict[str, int]()
        wiring = []
        for number in numbers:
            here = []
            for name in operators[number].storages:
                readers, writers, size, persistent = baseline.touched[name]
                leaves = bool((readers | writers) & ~mask)
                here.append((place.setdefault(name, len(place)), leaves, persistent, size))
            wiring.append((kinds[number], tuple(here)))
        key = (tuple(wiring), baseline.saveable_bytes(mask), f"{potential:.1e}")
        classes.setdefault(key, ([], potential))[0].append(mask)
    found = [Fold(tuple(masks), potential) for masks, potential in classes.values()]
    return sorted(found, key=lambda one: (-one.potential * len(one.masks), one.masks[0]))


def cost_of(
    evaluator: Evaluator, baseline: Baseline, base: Plan, fold: Fold, schedules: int, first: bool
) -> list[tuple[int, float]]:
    """(variant, gain) of the group that stands for a fold: its plain sequence alone (``first``), or its other
    variants, as many as ``schedules`` allows."""
    every = variants_for(baseline, base, fold.masks[0])
    chosen = [0] if first else list(range(1, len(every)))[:schedules]
    alone = evaluator.cost(base)
    return [(number, alone - evaluator.cost(plan_with(base, (every[number],)))) for number in chosen]


def variants_for(baseline: Baseline, base: Plan, mask: int) -> tuple[Variant, ...]:
    """Variants of a group given by its operators."""
    operators = baseline.scheduler.workload.operators
    return variants_of(baseline.scheduler, base, [operators[number] for number in bits(mask)])


def undominated(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Without those that gain no more than a candidate inside them."""
    kept: list[Candidate] = []
    by_operator: dict[int, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: (one.mask.bit_count(), one.mask)):
        inside = {id(c): c for number in bits(one.mask) for c in by_operator.get(number, ()) if not c.mask & ~one.mask}
        if any(c.gain >= one.gain for c in inside.values()):
            continue
        kept.append(one)
        for number in bits(one.mask):
            by_operator.setdefault(number, []).append(one)
    return kept
