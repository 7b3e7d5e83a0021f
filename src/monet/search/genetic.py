"""NSGA-II over vectors of choices: one runner for all searches whose decisions are genes.

A genome is a tuple of whole numbers, gene i one of ``choices[i]`` values (two for a bit). Selection and survival are
pymoo's NSGA-II; crossover and mutation are ours, for choices without an order. No genome is evaluated twice. All
randomness comes from ``seed``; how the evaluations of a generation are batched, or in how many processes they run,
has no part in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monet.search.pareto import front

Genome = tuple[int, ...]
Array = np.ndarray[Any, Any]
MOST_TRIES = 50  # rounds of mating without enough new genomes, after which a generation is as large as it is


@dataclass(frozen=True, slots=True)
class Score:
    """What a genome costs, smaller is better. ``violation`` above zero: infeasible, and by how much; such genomes
    are compared by it alone, and their values may be infinite."""

    values: tuple[float, ...]
    violation: float = 0.0


Evaluate = Callable[[Sequence[Genome]], Sequence[Score]]
Repair = Callable[[Genome], Genome]


@dataclass(frozen=True)
class Evolution:
    """Outcome of a run: every genome evaluated, in order, and the feasible ones that none dominates."""

    scores: dict[Genome, Score]
    front: tuple[Genome, ...]  # by first value, then the others
    generations: int
    interrupted: bool


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """Size of a run. ``mutation``: genes changed per child on average; ``batch``: genomes per call of ``evaluate``, 0
    for a whole generation."""

    population: int = 40
    generations: int = 20
    mutation: float = 1.5
    batch: int = 0


@dataclass
class _State:
    """Genomes seen, their scores, and how to make more."""

    choices: Array
    evaluate: Evaluate
    repair: Repair
    settings: EvolutionSettings
    mutable: Array = field(init=False)
    scores: dict[Genome, Score] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mutable = np.flatnonzero(self.choices > 1)

    def score(self, genomes: Sequence[Genome]) -> None:
        """Evaluate those not yet known, a batch at a time."""
        new = list(dict.fromkeys(genome for genome in genomes if genome not in self.scores))
        size = self.settings.batch or max(1, len(new))
        for start in range(0, len(new), size):
            batch = new[start : start + size]
            self.scores.update(zip(batch, self.evaluate(batch), strict=True))

    def random(self, random: np.random.Generator) -> Genome:
        """A genome at random."""
        return self.repair(tuple(random.integers(0, self.choices).tolist()))

    def mutated(self, genome: Genome, random: np.random.Generator) -> Genome:
        """A genome with some genes set to other values; at least one."""
        found, mutable = list(genome), self.mutable
        if not len(mutable):
            return genome
        hit = random.random(len(mutable)) < min(1.0, self.settings.mutation / len(mutable))
        if not hit.any():
            hit[random.integers(len(mutable))] = True
        for gene in mutable[hit].tolist():
            other = int(random.integers(self.choices[gene] - 1))
            found[gene] = other + (other >= found[gene])
        return self.repair(tuple(found))

    def crossed(self, first: Genome, second: Genome, random: np.random.Generator) -> tuple[Genome, Genome]:
        """Two children. Half of the pairs swap a stretch of genes, as neighbours often belong together; the others
        swap each gene or not."""
        count = len(first)
        if random.random() < 0.5:
            low, high = sorted(random.integers(0, count + 1, 2).tolist())
            swap = (np.arange(count) >= low) & (np.arange(count) < high)
        else:
            swap = random.random(count) < 0.5
        a = tuple(y if s else x for x, y, s in zip(first, second, swap, strict=True))
        b = tuple(x if s else y for x, y, s in zip(first, second, swap, strict=True))
        return self.repair(a), self.repair(b)

    def initial(self, seeds: Sequence[Sequence[int]], random: np.random.Generator) -> list[Genome]:
        """The seeds, then as many of their mutants as of random genomes."""
        given = [self.repair(tuple(map(int, genome))) for genome in seeds]
        found = dict.fromkeys(given)
        for number in range(MOST_TRIES * self.settings.population):
            if len(found) >= self.settings.population:
                break
            if given and number % 2 == 0:
                found.setdefault(self.mutated(given[number // 2 % len(given)], random))
            else:
                found.setdefault(self.random(random))
        return list(found)


class _Mating:
    """Children of a population that nobody has evaluated yet; pymoo calls it for every generation."""

    def __init__(self, state: _State) -> None:
        self.state = state

    def do(self, problem: Any, population: Any, wanted: int, *, algorithm: Any, random_state: Any, **_: Any) -> Any:
        """A pymoo population of at most ``wanted`` new genomes."""
        from pymoo.core.population import Population

        state, found = self.state, dict[Genome, None]()
        genomes = [tuple(row) for row in population.get("X").tolist()]
        for _try in range(MOST_TRIES):
            pairs = algorithm.selection.do(
                problem, population, wanted, n_parents=2, to_pop=False, algorithm=algorithm, random_state=random_state
            )
            for a, b in pairs.tolist():
                for child in state.crossed(genomes[a], genomes[b], random_state):
                    found.setdefault(state.mutated(child, random_state))
            new = [genome for genome in found if genome not in state.scores]
            if len(new) >= wanted:
                break
        return Population.new(X=np.array(new[:wanted], np.int64).reshape(-1, len(state.choices)))


def evolve(
    choices: Sequence[int],
    evaluate: Evaluate,
    *,
    seed: int,
    settings: EvolutionSettings | None = None,
    seeds: Sequence[Sequence[int]] = (),
    repair: Repair | None = None,
    watch: Callable[[int, dict[Genome, Score]], None] | None = None,
) -> Evolution:
    """Minimise all values of ``evaluate`` at once.

    ``seeds`` are in the first generation. ``repair`` turns any genome into a legal one. ``watch`` is called after
    every generation with its number and all scores so far. An interrupt (Ctrl-C) ends the run with what there is.
    """
    settings = settings or EvolutionSettings()
    counts = np.array(choices, np.int64)
    if counts.ndim != 1 or not len(counts) or counts.min() < 1:
        raise ValueError(f"every gene needs at least one choice, got {list(choices)}")
    state = _State(counts, evaluate, repair or (lambda genome: genome), settings)
    generation, interrupted = 0, False
    try:
        algorithm = _algorithm(state, seeds, seed)
        while generation < settings.generations:
            children = algorithm.ask()
            if children is None or not len(children):
                break  # nothing new can be made
            genomes = [tuple(row) for row in children.get("X").tolist()]
            state.score(genomes)
            scores = [state.scores[genome] for genome in genomes]
            children.set("F", np.array([score.values for score in scores]))
            children.set("G", np.array([[score.violation] for score in scores]))
            algorithm.tell(infills=children)
            generation += 1
            if watch:
                watch(generation, state.scores)
    except KeyboardInterrupt:
        interrupted = True
    return Evolution(state.scores, non_dominated(state.scores), generation, interrupted)


def _algorithm(state: _State, seeds: Sequence[Sequence[int]], seed: int) -> Any:
    """pymoo's NSGA-II on our genomes, ready to be asked."""
    from pymoo.algorithms.moo.nsga2 import NSGA2, binary_tournament
    from pymoo.core.problem import Problem
    from pymoo.operators.selection.tournament import TournamentSelection
    from pymoo.termination import get_termination

    first = state.initial(seeds, np.random.default_rng(seed))
    state.score(first[:1])  # how many objectives there are
    objectives = len(state.scores[first[0]].values)
    problem = Problem(n_var=len(state.choices), n_obj=objectives, n_ieq_constr=1, xl=0, xu=state.choices - 1, vtype=int)
    algorithm = NSGA2(
        pop_size=state.settings.population,
        n_offsprings=state.settings.population,
        sampling=np.array(first, np.int64),
        mating=_Mating(state),
        eliminate_duplicates=False,
    )
    algorithm.selection = TournamentSelection(func_comp=binary_tournament)
    algorithm.setup(problem, termination=get_termination("n_gen", 10**9), seed=seed, verbose=False)
    return algorithm


def non_dominated(scores: dict[Genome, Score]) -> tuple[Genome, ...]:
    """Feasible genomes that no other is better than in one value and as good in all others, by their values; of equals,
    the first."""
    feasible = [(genome, score.values) for genome, score in scores.items() if score.violation <= 0]
    kept = front(np.array([values for _, values in feasible])) if feasible else ()
    return tuple(feasible[place][0] for place in sorted(kept, key=lambda place: feasible[place][1]))
