"""The search finds the optimum of its named space: equal to enumerating all permutations and cuts."""

from __future__ import annotations

import math
import random

import pytest
from exhaustive import best_score, loops_of
from random_cases import random_core, random_frame, random_nest

from monet.mapping.cost import energy_j, frame_cost
from monet.mapping.tiling import OBJECTIVES, Constraints, candidate_tiles, search_frame


def small_frame(rng: random.Random):
    """A frame with few enough loops to enumerate, whose tiles are divisors only."""
    while True:
        nest, core = random_nest(rng, 8, 4000), random_core(rng)
        frame = random_frame(rng, nest, core)
        most = 5 if len(frame.crossings) <= 3 else 4
        divisors_only = all(all(steps % tile == 0 for tile in candidate_tiles(steps)) for steps in frame.steps.values())
        if 1 < len(loops_of(frame)) <= most and divisors_only:
            return frame


@pytest.mark.parametrize("seed", range(240))
def test_equal_to_exhaustive_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    frame, objective = small_frame(rng), OBJECTIVES[seed % 3]
    expected = best_score(frame, objective)
    found = search_frame(frame, objective, Constraints())
    if found is None:
        assert math.isinf(expected)
        return
    assert found.score == pytest.approx(expected, rel=1e-12)
    counts = frame_cost(frame, found.mapping)
    assert counts.cycles == pytest.approx(found.cycles, rel=1e-12)
    assert math.fsum(energy_j(frame, counts).values()) == pytest.approx(found.energy_j, rel=1e-12)
