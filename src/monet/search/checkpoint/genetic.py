"""Checkpoint plans as genomes, and NSGA-II over repeated work and kept bytes.

One gene for every value that can be kept: 0 lets it go (it is recomputed if something needs it), the others are ways to
keep it. Bits that change nothing are repaired: a value that nothing reads is let go, one that cannot be made again is
kept. Costs here are static (a repeated operator costs the same beside whatever else is repeated), so the exact optimum
is known and every front is measured against it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from monet.graph.graph import Graph
from monet.search.checkpoint.liveness import peak_of
from monet.search.checkpoint.outcome import Outcome
from monet.search.checkpoint.static import PROOF, Choice, best_under
from monet.search.genetic import EvolutionSettings, Genome, Score, evolve
from monet.transforms.checkpoint_plan import CheckpointPlan
from monet.transforms.checkpoint_problem import CheckpointProblem
from monet.transforms.recompute import recompute

Array = np.ndarray[Any, Any]

GONE = ""  # the choice of gene 0
STEP = 0.001  # of the forward pass: plans of a front that are closer are one
MOST_REPAIRED = 100  # plans of a front whose bits are tried


@dataclass(frozen=True)
class Genes:
    """What each gene stands for: a value of the problem, and its choices (the first is to let it go).

    Without ``recompute`` nothing that the plain step keeps is let go.
    """

    problem: CheckpointProblem
    values: tuple[int, ...]
    choices: tuple[tuple[str, ...], ...]
    recompute: bool = True

    @property
    def counts(self) -> tuple[int, ...]:
        """Choices per gene."""
        return tuple(map(len, self.choices))

    def plan(self, genome: Sequence[int]) -> CheckpointPlan:
        """The plan of a genome."""
        problem, chosen = self.problem, dict[str, str]()
        for gene, value, choices in zip(genome, self.values, self.choices, strict=True):
            storage, choice = problem.values[value].storage, choices[gene]
            if choice == GONE:
                if storage in problem.saved:
                    chosen[storage] = "recompute"
            elif choice != "keep" or storage not in problem.saved:
                chosen[storage] = choice
        return CheckpointPlan(chosen)

    def genome(self, plan: CheckpointPlan) -> Genome:
        """The genome of a plan; ways to keep that have no gene become plain keeping."""
        saved, found = self.problem.saved, []
        for value, choices in zip(self.values, self.choices, strict=True):
            storage = self.problem.values[value].storage
            choice = plan.choices.get(storage, "keep" if storage in saved else GONE)
            choice = GONE if choice == "recompute" else choice
            found.append(choices.index(choice) if choice in choices else choices.index("keep"))
        return tuple(found)

    def surviving(self, genome: Sequence[int]) -> tuple[frozenset[int], frozenset[int]]:
        """Values that survive until backward whole, and those that do as the few bits that backward reads."""
        chosen = [
            (value, choices[gene]) for gene, value, choices in zip(genome, self.values, self.choices, strict=True)
        ]
        narrowed = frozenset(value for value, choice in chosen if choice == "narrow")
        return frozenset(value for value, choice in chosen if choice != GONE) - narrowed, narrowed

    def repaired(self, genome: Genome) -> Genome:
        """The genome without bits that change nothing or cannot be."""
        kept, narrowed = self.surviving(genome)
        if not self.recompute:
            kept |= {self.problem.value_of_storage[name] for name in self.problem.saved} - narrowed
        kept = possible(self.problem, kept, narrowed)
        useful = self.problem.useful(kept, narrowed - kept) | (narrowed - kept)
        return tuple(
            0 if value not in useful else 1 if value in kept and value in narrowed else gene or 1
            for gene, value in zip(genome, self.values, strict=True)
        )


def possible(problem: CheckpointProblem, kept: frozenset[int], narrowed: frozenset[int]) -> frozenset[int]:
    """``kept`` and whatever else has to be kept because its operator cannot be repeated."""
    while lost := [i for i in problem.repeated(kept, narrowed) if not problem.operators[i].repeatable]:
        more = {v for i in lost for v in problem.operators[i].writes if problem.values[v].keepable}
        if more <= kept:
            return kept  # nothing that could be kept helps; the plan's own check says so
        kept |= more
    return kept


def genes_of(
    problem: CheckpointProblem, treatments: Mapping[str, Collection[str]] | None = None, recompute: bool = True
) -> Genes:
    """Genes for keep or recompute; ``treatments`` adds choices: offload or narrow → the storages that have it."""
    values, choices = [], []
    for index, value in enumerate(problem.values):
        if value.keepable:
            more = (treatment for treatment, storages in (treatments or {}).items() if value.storage in storages)
            values.append(index)
            choices.append((GONE, "keep", *more))
    return Genes(problem, tuple(values), tuple(choices), recompute)


def narrowable(problem: CheckpointProblem) -> frozenset[str]:
    """Storages of which backward needs less than everything."""
    return frozenset(value.storage for value in problem.values if value.needed and value.narrowable)


# --- static costs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StaticCost:
    """Repeated work and kept bytes of many genomes at once."""

    genes: Genes

    @cached_property
    def _sizes(self) -> Array:
        return np.array([max(0, value.bytes) for value in self.genes.problem.values], np.int64)

    @cached_property
    def _narrowed(self) -> Array:
        """By gene: the choice that narrows, -1 if it has none."""
        return np.array([allowed.index("narrow") if "narrow" in allowed else -1 for allowed in self.genes.choices])

    def costs(self, genomes: Sequence[Genome] | Array) -> tuple[Array, Array]:
        """(work repeated, bytes kept) of every genome."""
        work, kept, narrowed, _ = self._settled(np.asarray(genomes, np.int64).reshape(len(genomes), -1))
        less = np.array([value.narrowed_bytes for value in self.genes.problem.values], np.int64)
        return work, self._sizes @ kept + less @ narrowed

    def repaired(self, genomes: Array) -> Array:
        """Genomes without bits that nothing reads: ``Genes.repaired`` of many, where all can be repeated."""
        *_, useful = self._settled(genomes)
        return np.where(useful[list(self.genes.values)].T, genomes, 0)

    def _settled(self, genomes: Array) -> tuple[Array, Array, Array, Array]:
        """(work repeated, values kept whole, values narrowed, survivors that something reads); values by genomes."""
        problem, values = self.genes.problem, list(self.genes.values)
        kept, narrowed = (np.zeros((len(problem.values), len(genomes)), bool) for _ in range(2))
        narrowed[values] = (genomes == self._narrowed).T
        kept[values] = (genomes > 0).T
        kept &= ~narrowed
        needed = np.array([value.needed for value in problem.values])[:, None]
        read = np.zeros_like(kept)  # by what is repeated
        missing = needed & ~kept & ~narrowed
        work = np.zeros(len(genomes), np.int64)
        for operator in reversed(problem.operators):  # what reads a value comes after what makes it
            if operator.writes:
                writes, reads = list(operator.writes), list(operator.reads)
                again = (missing[writes] | (read[writes] & ~kept[writes])).any(axis=0)
                work += operator.cost * again
                read[reads] |= again
        return work, kept, narrowed, (kept & (read | needed)) | (narrowed & needed)

    def scores(self, genomes: Sequence[Genome]) -> list[Score]:
        """Both as shares, of the forward pass and of what the plain step keeps."""
        problem = self.genes.problem
        work, size = self.costs(genomes)
        forward, whole = max(1, problem.forward_cost), max(1, problem.keep_all_bytes)
        return [Score((float(w / forward), float(b / whole))) for w, b in zip(work, size, strict=True)]


@dataclass(frozen=True)
class StaticFront:
    """Plans that none beats in both repeated work and kept bytes, by bytes; ``evaluated``: how many were tried."""

    genes: Genes
    genomes: tuple[Genome, ...]
    work: tuple[int, ...]
    kept_bytes: tuple[int, ...]
    evaluated: int

    def under(self, budget: int) -> int | None:
        """Position of the plan with least repeated work within a budget of bytes."""
        fits = [i for i, size in enumerate(self.kept_bytes) if size <= budget]
        return min(fits, key=lambda i: self.work[i]) if fits else None


def static_front(
    problem: CheckpointProblem,
    seeds: Iterable[CheckpointPlan] = (),
    *,
    narrow: bool = False,
    seed: int = 0,
    settings: EvolutionSettings | None = None,
    rounds: int = 4,
    watch: Callable[[int, dict[Genome, Score]], None] | None = None,
) -> StaticFront:
    """NSGA-II on repeated work and kept bytes, then ``rounds`` of local repair of its front.

    Keep all and recompute all are always among the first. Local repair tries every single bit of every plan on the
    front, and takes what none beats.
    """
    genes = genes_of(problem, {"narrow": narrowable(problem)} if narrow else None)
    costs = StaticCost(genes)
    first = [genes.plan([1] * len(genes.values)), genes.plan([0] * len(genes.values)), *seeds]
    found = evolve(
        genes.counts,
        costs.scores,
        seed=seed,
        settings=settings or EvolutionSettings(population=60, generations=60),
        seeds=[genes.genome(plan) for plan in first],
        repair=genes.repaired,
        watch=watch,
    )
    tried, front = len(found.scores), np.array(_lowest(np.array(list(found.scores)), costs)[0])
    for _ in range(0 if found.interrupted else rounds):
        many, front, better = _local_repair(front, costs)
        tried += many
        if not better:
            break
    front, work, size = _lowest(front, costs)
    return StaticFront(genes, tuple(map(tuple, front.tolist())), tuple(work.tolist()), tuple(size.tolist()), tried)


def _lowest(genomes: Array, costs: StaticCost) -> tuple[Array, Array, Array]:
    """Genomes that none beats in both work and bytes, by bytes, with both."""
    work, size = costs.costs(genomes)
    order = np.lexsort((work, size))
    least = np.minimum.accumulate(work[order])
    first = order[np.concatenate(([True], least[1:] < least[:-1]))]
    return genomes[first], work[first], size[first]


def _local_repair(front: Array, costs: StaticCost) -> tuple[int, Array, bool]:
    """Try every single bit of the front: (genomes tried, the front now, whether it has changed). Of a long front an
    even choice by bytes is tried."""
    some = front[np.unique(np.linspace(0, len(front) - 1, MOST_REPAIRED).astype(np.int64))]
    genes = some.shape[1]
    near = np.repeat(some, genes, axis=0)
    bit = np.tile(np.arange(genes), len(some))
    genome = np.arange(len(near))
    near[genome, bit] = near[genome, bit] == 0
    near = np.unique(costs.repaired(near), axis=0)
    everything = np.concatenate((front, near))  # of equals the known one stays
    now = _lowest(everything, costs)[0]
    return len(near), now, len(now) != len(front) or bool((now != front).any())


def exact_curve(
    problem: CheckpointProblem,
    *,
    narrow: bool = False,
    points: int = 12,
    tolerance: float = 0.005,
    resolution: float = 0.01,
    most: int = 80,
    watch: Callable[[Choice], None] | None = None,
) -> tuple[Choice, ...]:
    """Exact optima over budgets, by kept bytes: an even grid, then halfway wherever the next cheaper one costs more
    than ``tolerance`` of the forward pass less, down to budgets ``resolution`` of keep-all apart."""
    whole = problem.keep_all_bytes
    known: dict[int, Choice] = {}

    def solve(budget: int) -> Choice:
        if budget not in known:
            known[budget] = best_under(problem, budget, narrow)
            if watch:
                watch(known[budget])
        return known[budget]

    budgets = sorted({round(whole * i / points) for i in range(points + 1)})
    for budget in budgets:
        solve(budget)
    step = max(1, round(resolution * whole))
    gaps = list(pairwise(budgets))
    while gaps and len(known) < most:
        # the widest first, so that stopping early leaves no large hole
        gaps.sort(key=lambda pair: known[pair[0]].share - known[pair[1]].share)
        low, high = gaps.pop()
        if known[low].share - known[high].share <= tolerance or high - low <= step:
            continue
        middle = (low + high) // 2
        solve(middle)
        gaps += [(low, middle), (middle, high)]
    widest_first = sorted(known.values(), key=lambda choice: -choice.budget)
    best = {(choice.kept, choice.narrowed): choice for choice in widest_first}
    return tuple(sorted(best.values(), key=lambda choice: (choice.kept_bytes, choice.budget)))


def genetic_outcomes(graph: Graph, front: StaticFront, exact: Sequence[Choice]) -> list[Outcome]:
    """Outcomes of a front, most memory first. Plans that save less than ``STEP`` of the forward pass over their
    neighbour are left out. What is proved comes from the exact optima of budgets at or above a plan's own bytes."""
    forward, found, last = max(1, front.genes.problem.forward_cost), list[Outcome](), float("inf")
    for genome, work, size in zip(front.genomes, front.work, front.kept_bytes, strict=True):
        if work and last - work < STEP * forward:
            continue
        last = work
        plan = front.genes.plan(genome)
        bound = least_work(exact, size)
        gap = max(0.0, (work - bound) / forward)
        peak = peak_of(recompute(graph, plan))
        found.append(Outcome("ga", plan, size, work / forward, gap <= PROOF, gap, peak))
    return found[::-1]


def least_work(exact: Sequence[Choice], kept_bytes: int) -> float:
    """What plans that keep so many bytes are proved to repeat at least."""
    return max((choice.bound for choice in exact if choice.budget >= kept_bytes), default=0.0)
