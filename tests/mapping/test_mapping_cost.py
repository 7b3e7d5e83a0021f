"""The cost of a given mapping equals what a simulator counts that executes the loop nest."""

from __future__ import annotations

import random
import sys

import pytest

from monet.mapping.nest.cost import frame_cost
from tests.mapping.random_cases import random_core, random_frame, random_mapping, random_nest
from tests.mapping.simulator import simulate

COST = sys.modules[frame_cost.__module__]  # the package's name for it is the function


@pytest.mark.parametrize("seed", range(300))
def test_accesses_equal_simulation(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COST, "_check_capacity", lambda frame, tiles: None)
    rng = random.Random(seed)
    nest, core = random_nest(rng, 4, 300), random_core(rng)
    frame = random_frame(rng, nest, core)
    mapping = random_mapping(rng, frame)
    found = {(one.level, one.slot, one.flow): one.elements for one in frame_cost(frame, mapping).accesses}
    counted = simulate(nest, core, mapping)
    assert {key: value for key, value in found.items() if value} == {k: v for k, v in counted.items() if v}, (
        nest,
        mapping,
    )
