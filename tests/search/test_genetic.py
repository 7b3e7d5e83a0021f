"""The genetic runner against exhaustive enumeration, and what it promises: same seed same answer, nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from monet.search.genetic import Evolution, EvolutionSettings, Genome, Score, _State, evolve, non_dominated

CHOICES = (3, 2, 4, 1, 3, 2, 4)  # 576 genomes


def costs(genome: Genome) -> Score:
    """Two values that pull in different directions, neither a sum of single genes."""
    table = np.random.default_rng(5).random((2, len(CHOICES), 4))
    first = sum(table[0, gene, value] for gene, value in enumerate(genome))
    second = sum(table[1, gene, value] for gene, value in enumerate(genome)) + 0.3 * (genome[0] == genome[4])
    return Score((float(first), float(second)), 1.0 if genome[2] == 3 and genome[5] == 1 else 0.0)


def run(evaluated: list[Genome] | None = None, **options: object) -> Evolution:
    seen: list[Genome] = [] if evaluated is None else evaluated

    def evaluate(genomes: Sequence[Genome]) -> list[Score]:
        seen.extend(genomes)
        return [costs(one) for one in genomes]

    settings = EvolutionSettings(population=24, generations=12, batch=int(str(options.pop("batch", 0))))
    return evolve(CHOICES, evaluate, settings=settings, **{"seed": 1, **options})  # type: ignore[arg-type]


def test_front_is_the_exhaustive_one() -> None:
    every = {genome: costs(genome) for genome in product(*(range(count) for count in CHOICES))}
    best = {every[one].values for one in non_dominated(every)}
    found = run()
    reached = {found.scores[one].values for one in found.front}
    assert len(found.scores) < len(every)
    assert len(best & reached) >= 0.8 * len(best)
    ends = min(best), min(best, key=lambda values: values[1])
    assert set(ends) <= reached  # the best of each value alone


def test_non_dominated_by_definition() -> None:
    every = {genome: costs(genome) for genome in product(*(range(count) for count in CHOICES))}
    feasible = {one.values for one in every.values() if one.violation <= 0}
    kept = {
        mine
        for mine in feasible
        if not any(other != mine and other[0] <= mine[0] and other[1] <= mine[1] for other in feasible)
    }
    assert {every[one].values for one in non_dominated(every)} == kept


def test_same_seed_same_run_whatever_the_batch() -> None:
    first = run()
    np.random.seed(99)  # the global state has no part in it
    assert list(run().scores.items()) == list(first.scores.items())
    assert list(run(batch=1).scores.items()) == list(first.scores.items())
    assert list(run(batch=5).scores.items()) == list(first.scores.items())
    assert list(run(seed=2).scores) != list(first.scores)


def test_nothing_is_evaluated_twice_and_seeds_come_first() -> None:
    evaluated: list[Genome] = []
    seeds = [(0, 0, 0, 0, 0, 0, 0), (2, 1, 2, 0, 2, 1, 3)]
    run(evaluated, seeds=seeds)
    assert len(evaluated) == len(set(evaluated))
    assert evaluated[:2] == seeds


def test_repaired_genomes_only() -> None:
    evaluated: list[Genome] = []
    run(evaluated, repair=lambda genome: (genome[0], *genome[1:4], genome[0], *genome[5:]))
    assert all(genome[4] == genome[0] for genome in evaluated)


def test_infeasible_genomes_are_never_on_the_front() -> None:
    found = run()
    assert all(found.scores[one].violation == 0 for one in found.front)
    assert any(score.violation > 0 for score in found.scores.values())


def test_infinite_values_of_what_is_infeasible() -> None:
    def evaluate(genomes: Sequence[Genome]) -> list[Score]:
        return [costs(one) if one[0] else Score((np.inf, np.inf), 1.0) for one in genomes]

    found = evolve(
        CHOICES, evaluate, seed=3, settings=EvolutionSettings(population=10, generations=5), seeds=[(0,) * 7]
    )
    assert found.front
    assert all(one[0] for one in found.front)


@pytest.mark.parametrize("choices", [(1, 1), (2,), (2, 2)])
def test_spaces_smaller_than_a_population_end(choices: tuple[int, ...]) -> None:
    found = evolve(choices, lambda some: [Score((float(sum(one)), -float(sum(one)))) for one in some], seed=0)
    assert len(found.scores) == np.prod(choices)


def test_interrupt_keeps_what_there_is() -> None:
    calls = 0

    def evaluate(genomes: Sequence[Genome]) -> list[Score]:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return [costs(one) for one in genomes]

    found = evolve(CHOICES, evaluate, seed=1, settings=EvolutionSettings(population=24, generations=12))
    assert found.interrupted
    assert found.front
    assert found.generations == 3


def test_genes_without_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one choice"):
        evolve((2, 0), lambda some: [], seed=0)


def attractive(genome: Genome) -> Score:
    """The more a genome breaks the limit, the better all its values."""
    cost, excess = costs(genome).values, max(0, sum(genome) - 4)
    return Score((cost[0] - 10.0 * excess, cost[1] - 10.0 * excess), float(excess))


@pytest.mark.parametrize("seed", range(3))
def test_attractive_genomes_that_are_infeasible_do_not_lead_the_search(seed: int) -> None:
    every = {genome: attractive(genome) for genome in product(*(range(count) for count in CHOICES))}
    best = {every[one].values for one in non_dominated(every)}
    settings = EvolutionSettings(population=16, generations=14)
    found = evolve(CHOICES, lambda some: [attractive(one) for one in some], seed=seed, settings=settings)
    assert len(found.scores) < 0.45 * len(every)
    reached = {found.scores[one].values for one in found.front}
    assert len(best & reached) >= 0.7 * len(best)
    late = list(found.scores.values())[-6 * settings.population :]
    chance = sum(score.violation == 0 for score in every.values()) / len(every)
    assert sum(score.violation == 0 for score in late) / len(late) > 1.25 * chance


def test_a_run_that_starts_infeasible_walks_to_where_it_is_feasible() -> None:
    """Of two infeasible genomes the one that breaks the limit by less survives, whatever its values."""
    length = 16

    def evaluate(genomes: Sequence[Genome]) -> list[Score]:
        return [Score((-float(sum(one)), -float(sum(one))), float(max(0, sum(one) - 2))) for one in genomes]

    settings = EvolutionSettings(population=12, generations=40, mutation=1.0)
    seeds = [(1,) * length, (1,) * (length - 1) + (0,)]
    found = evolve((2,) * length, evaluate, seed=5, settings=settings, seeds=seeds)
    assert found.front
    assert found.scores[found.front[0]].values == (-2.0, -2.0)


def test_a_mutant_differs_and_every_other_value_is_as_likely() -> None:
    state = _State(np.array(CHOICES), lambda some: [], lambda genome: genome, EvolutionSettings(mutation=1e-9))
    random, start = np.random.default_rng(0), (1, 0, 2, 0, 1, 1, 3)
    seen: dict[tuple[int, int], int] = {}
    for _ in range(3000):
        child = state.mutated(start, random)
        (gene,) = [at for at, (old, new) in enumerate(zip(start, child, strict=True)) if old != new]  # one, not none
        assert 0 <= child[gene] < CHOICES[gene]
        seen[gene, child[gene]] = seen.get((gene, child[gene]), 0) + 1
    assert set(seen) == {(g, v) for g, count in enumerate(CHOICES) for v in range(count) if v != start[g]}
    assert min(seen.values()) > 0.6 * 3000 / 6 / 3


def test_children_take_every_gene_from_a_parent_and_both_keep_all() -> None:
    state = _State(np.array(CHOICES), lambda some: [], lambda genome: genome, EvolutionSettings())
    random, first, second = np.random.default_rng(0), (0,) * 7, (2, 1, 3, 0, 2, 1, 3)
    swapped = np.zeros(7)
    for _ in range(500):
        a, b = state.crossed(first, second, random)
        assert all({x, y} == {p, q} for x, y, p, q in zip(a, b, first, second, strict=True))
        swapped += np.array(a) == np.array(second)
    assert (swapped[[0, 1, 2, 4, 5, 6]] > 100).all()
    assert (swapped[[0, 1, 2, 4, 5, 6]] < 400).all()
