"""Legal groups and the exact partition against brute force over everything."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import pytest

from monet.search.fusion.partition import best_partition
from monet.search.fusion.structure import Structure, bits, circle, legal_groups, mask_of, structure


def random_structure(rng: random.Random, count: int) -> tuple[Structure, list[tuple[int, int]]]:
    """A random graph with edges from smaller to larger numbers, and some data that several read."""
    density = rng.uniform(0.15, 0.6)
    edges = [(a, b) for a, b in combinations(range(count), 2) if rng.random() < density]
    sharing = [rng.sample(range(count), min(count, rng.randint(2, 3))) for _ in range(rng.randint(0, 2))]
    return structure(count, edges, sharing), edges


def by_definition(of: Structure, edges: list[tuple[int, int]], numbers: tuple[int, ...]) -> bool:
    """Connected and convex, by walking paths."""
    inside = set(numbers)
    reached, todo = {numbers[0]}, [numbers[0]]
    while todo:
        for other in bits(of.near[todo.pop()]):
            if other in inside and other not in reached:
                reached.add(other)
                todo.append(other)
    if reached != inside:
        return False
    after: dict[int, list[int]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    for one in inside:
        todo, seen = [b for b in after.get(one, []) if b not in inside], set[int]()
        while todo:
            here = todo.pop()
            if here in inside:
                return False
            if here not in seen:
                seen.add(here)
                todo += after.get(here, [])
    return True


def partitions(numbers: list[int]) -> Iterator[list[list[int]]]:
    """All set partitions."""
    if not numbers:
        yield []
        return
    first, rest = numbers[0], numbers[1:]
    for smaller in partitions(rest):
        yield [[first], *smaller]
        for position in range(len(smaller)):
            yield [*smaller[:position], [first, *smaller[position]], *smaller[position + 1 :]]


def can_be_ordered(edges: list[tuple[int, int]], parts: list[list[int]]) -> bool:
    """Kahn's algorithm on the parts."""
    owner = {one: number for number, part in enumerate(parts) for one in part}
    left = set(range(len(parts)))
    arcs = {(owner[a], owner[b]) for a, b in edges if owner[a] != owner[b]}
    while left:
        free = {one for one in left if not any(b == one and a in left for a, b in arcs)}
        if not free:
            return False
        left -= free
    return True


@pytest.mark.parametrize("seed", range(40))
def test_legal_groups_are_all_there_are(seed: int) -> None:
    rng = random.Random(seed)
    of, edges = random_structure(rng, rng.randint(4, 9))
    limit = rng.randint(2, 6)
    expected = {
        mask_of(some)
        for size in range(2, limit + 1)
        for some in combinations(range(of.count), size)
        if by_definition(of, edges, some)
    }
    found = legal_groups(of, limit)
    assert set(found) == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("seed", range(120))
def test_the_partition_is_the_best_of_all(seed: int) -> None:
    rng = random.Random(1000 + seed)
    count = rng.randint(3, 8) if seed % 10 else 10
    of, edges = random_structure(rng, count)
    masks = legal_groups(of, rng.randint(2, 6))
    cost = {1 << one: rng.uniform(1, 10) for one in range(count)}
    alone = dict(cost)
    for mask in masks:
        whole = sum(alone[1 << one] for one in bits(mask))
        cost[mask] = whole * rng.uniform(0.3, 1.15)
    gains = [sum(alone[1 << one] for one in bits(mask)) - cost[mask] for mask in masks]
    found = best_partition(of, masks, gains)
    best = min(
        sum(cost[mask_of(part)] for part in parts)
        for parts in partitions(list(range(count)))
        if all(mask_of(part) in cost for part in parts) and can_be_ordered(edges, parts)
    )
    assert sum(alone.values()) - found.gain == pytest.approx(best, rel=1e-6)
    assert found.optimal
    assert found.bound >= found.gain * (1 - 1e-9)
    chosen = [masks[number] for number in found.chosen]
    assert not circle(of, chosen)
    assert sum(mask.bit_count() for mask in chosen) == mask_of(one for mask in chosen for one in bits(mask)).bit_count()


def test_groups_that_wait_for_each_other_are_not_taken_together() -> None:
    of = structure(4, [(0, 3), (2, 1)], [[0, 1], [2, 3]])  # {0, 1} waits for 2, {2, 3} for 0
    masks = [0b0011, 0b1100]
    assert set(masks) <= set(legal_groups(of, 2))
    assert circle(of, masks) == (0, 1)
    found = best_partition(of, masks, [3.0, 2.0])
    assert found.chosen == (0,)
    assert found.rounds == 2


def test_next_best_partitions_differ() -> None:
    of = structure(4, [(0, 1), (1, 2), (2, 3)])
    masks = legal_groups(of, 2)
    gains = [3.0, 4.0, 2.0]
    first = best_partition(of, masks, gains)
    second = best_partition(of, masks, gains, not_these=[first.chosen])
    third = best_partition(of, masks, gains, not_these=[first.chosen, second.chosen])
    assert [one.gain for one in (first, second, third)] == pytest.approx([5.0, 4.0, 3.0])


def test_nothing_gains() -> None:
    of = structure(2, [(0, 1)])
    assert best_partition(of, legal_groups(of, 2), [-1.0]).chosen == ()
