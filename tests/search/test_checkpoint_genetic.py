"""NSGA-II against the exact static optimum, and genomes against the problem they stand for."""

from __future__ import annotations

import random
from functools import cache

import pytest

import monet
from monet.search.checkpoint.genetic import Genes, StaticCost, exact_curve, genes_of, narrowable, static_front
from monet.search.checkpoint.static import Choice, best_under
from monet.search.genetic import EvolutionSettings
from monet.transforms.checkpoint_plan import CheckpointPlan
from monet.transforms.checkpoint_problem import CheckpointProblem, problem_of

NETWORKS = {"resnet18": {"batch": 1}, "gpt2-mini": {"sequence": 64}}


@cache
def problem_named(model: str) -> CheckpointProblem:
    return problem_of(monet.training_step(monet.load_model(model, **NETWORKS[model])))


@cache
def optima(model: str) -> dict[int, Choice]:
    """Exact optima at budgets that the seeds do not use."""
    problem = problem_named(model)
    return {share: best_under(problem, problem.keep_all_bytes * share // 100) for share in range(3, 100, 8)}


@cache
def seeds(model: str) -> tuple[CheckpointPlan, ...]:
    return tuple(one.plan for one in exact_curve(problem_named(model), points=8, most=40))


def distance(model: str, seed: int, plans: tuple[CheckpointPlan, ...], settings: EvolutionSettings) -> float:
    """Most repeated work above the optimum at any budget, as a share of the forward pass."""
    problem = problem_named(model)
    front = static_front(problem, plans, seed=seed, settings=settings, rounds=3)
    assert list(front.work) == sorted(front.work, reverse=True)
    worst = 0.0
    for share, best in optima(model).items():
        position = front.under(problem.keep_all_bytes * share // 100)
        assert position is not None
        assert front.work[position] >= best.bound - 0.5  # nobody beats a proof
        worst = max(worst, (front.work[position] - best.cost) / problem.forward_cost)
    return worst


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("model", NETWORKS)
def test_front_is_the_exact_optimum_to_one_per_cent_of_forward(model: str, seed: int) -> None:
    assert distance(model, seed, seeds(model), EvolutionSettings(population=30, generations=8)) <= 0.01


def test_front_without_exact_seeds_is_close_too() -> None:
    """Local repair alone, from keep all and recompute all: the search does not live off the solver."""
    assert distance("resnet18", 0, (), EvolutionSettings(population=40, generations=40)) <= 0.02


def random_genomes(genes: Genes, seed: int, count: int) -> list[tuple[int, ...]]:
    chance = random.Random(seed)
    return [tuple(chance.randrange(many) for many in genes.counts) for _ in range(count)]


@pytest.mark.parametrize("model", NETWORKS)
def test_costs_of_genomes_are_those_of_their_plans(model: str) -> None:
    problem = problem_named(model)
    genes = genes_of(problem, {"narrow": narrowable(problem)})
    costs = StaticCost(genes)
    genomes = [genes.repaired(one) for one in random_genomes(genes, 1, 20)]
    work, size = costs.costs(genomes)
    for genome, w, b in zip(genomes, work, size, strict=True):
        kept, narrowed = genes.surviving(genome)
        assert (w, b) == (problem.cost(kept, narrowed), problem.bytes(kept, narrowed))
        assert genes.repaired(genome) == genome
        assert genes.genome(genes.plan(genome)) == genome


def test_repair_changes_bytes_but_no_work() -> None:
    problem = problem_named("resnet18")
    genes = genes_of(problem)
    for genome in random_genomes(genes, 2, 20):
        kept, _ = genes.surviving(genome)
        after, _ = genes.surviving(genes.repaired(genome))
        assert problem.cost(after) == problem.cost(kept)
        assert problem.bytes(after) <= problem.bytes(kept)


def test_exact_curve_falls_and_is_proved() -> None:
    curve = exact_curve(problem_named("resnet18"), points=8, most=30)
    assert all(one.proved for one in curve)
    assert [one.cost for one in curve] == sorted((one.cost for one in curve), reverse=True)
    assert curve[-1].cost == 0
