"""Cuts for unlike devices against all cuts."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from monet.arrays import F64x2
from monet.search.mining.stages.cuts import best_cuts, by_length


def _slowest(seconds: list[F64x2], cuts: tuple[int, ...]) -> float:
    borders = (0, *cuts, seconds[0].shape[0] - 1)
    return max(table[begin, end] for table, (begin, end) in zip(seconds, pairwise(borders), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_the_slowest_stage_is_as_fast_as_of_all_cuts(seed: int) -> None:
    generator = np.random.default_rng(seed)
    layers, stages = int(generator.integers(4, 10)), int(generator.integers(2, 5))
    tables = []
    for _ in range(stages):
        sums = np.concatenate(([0.0], np.cumsum(generator.random(layers))))
        table = (sums[None, :] - sums[:, None]) * generator.uniform(0.5, 2.0) + generator.random() * 0.3
        table[generator.random(table.shape) < 0.1] = np.inf
        tables.append(table)
    least = min(_slowest(tables, cuts) for cuts in combinations(range(1, layers), stages - 1))
    found = best_cuts(tables)
    if np.isinf(least):
        assert found is None
        return
    assert found is not None
    assert list(found) == sorted(set(found))
    assert len(found) == stages - 1
    assert _slowest(tables, found) == pytest.approx(least)


def test_a_device_twice_as_fast_has_twice_the_layers() -> None:
    slow, fast = ([float(count) * each for count in range(1, 13)] for each in (2.0, 1.0))
    assert best_cuts([by_length(slow), by_length(fast)]) == (4,)
    assert best_cuts([by_length(fast), by_length(fast), by_length(fast)]) == (4, 8)


def test_a_single_stage_has_no_cut() -> None:
    assert best_cuts([by_length([1.0, 2.0])]) == ()
