"""The search finds the optimum of its named space: equal to enumerating all permutations and cuts."""

from __future__ import annotations

import math
import random

import pytest

from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import frames
from monet.mapping.mapper.tiling import OBJECTIVES, Constraints, candidate_tiles, compile_frame, search_frame
from monet.mapping.nest.cost import energy_j, frame_cost
from monet.mapping.nest.prices import prices_of
from tests.mapping.cores import three_level
from tests.mapping.exhaustive import best_score, loops_of
from tests.mapping.nests import conv
from tests.mapping.random_cases import STREAM, random_core, random_frame, random_nest


def small_frame(rng: random.Random, ragged: bool):
    """A frame with few enough loops to enumerate; ``ragged``: some tile does not divide its dimension."""
    while True:
        nest, core = random_nest(rng, 8, 4000), random_core(rng)
        frame = random_frame(rng, nest, core)
        most = 5 if len(frame.crossings) <= 3 else 4
        has_ragged = any(steps % tile for steps in frame.steps.values() for tile in candidate_tiles(steps))
        if 1 < len(loops_of(frame)) <= most - (2 if ragged else 0) and has_ragged == ragged:
            return frame, prices_of(core, STREAM)


@pytest.mark.parametrize("seed", range(240))
def test_equal_to_exhaustive_enumeration(seed: int) -> None:
    check(*small_frame(random.Random(seed), ragged=False), OBJECTIVES[seed % 3])


@pytest.mark.parametrize("seed", range(45))
def test_equal_with_tiles_that_do_not_divide(seed: int) -> None:
    check(*small_frame(random.Random(seed), ragged=True), OBJECTIVES[seed % 3])


def check(frame, prices, objective: str) -> None:
    expected = best_score(frame, prices, objective)
    found = search_frame(frame, prices, objective, Constraints(), CostStore())
    if found is None:
        assert math.isinf(expected)
        return
    assert found.score == pytest.approx(expected, rel=1e-12)
    counts = frame_cost(frame, found.mapping)
    if not frame.core.streamed:
        assert counts.cycles == pytest.approx(found.cycles, rel=1e-12)
    assert math.fsum(energy_j(frame, counts, prices).values()) == pytest.approx(found.energy_j, rel=1e-12)


@pytest.mark.parametrize("which", ["y", "x", "w"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_rows_and_columns_that_may_change_places(which: str, objective: str) -> None:
    core, nest = three_level(16), conv(which, N=2, K=2, C=2, OY=2, OX=2, FY=2, FX=2)
    checked = 0
    for frame in frames(nest, core, STREAM, CostStore(), 20):
        arrays = compile_frame(frame, Constraints())
        if arrays and min(arrays.mirrored) >= 0 and len(loops_of(frame)) <= 5 and checked < 2:
            check(frame, prices_of(core, STREAM), objective)
            checked += 1
    assert checked
