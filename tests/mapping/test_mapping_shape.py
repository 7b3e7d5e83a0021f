"""What is worked out once for all cores of a shape gives each of them what it would have got alone."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import pytest

from monet.hardware.core import Core, MemoryLevel
from monet.mapping.cost_store import CostStore
from monet.mapping.errors import DoesNotFit
from monet.mapping.mapper.search import Target, best_tiling_of, evaluate
from monet.mapping.nest.prices import known_shape, prices_of, shape_of
from tests.mapping.random_cases import STREAM, random_core, random_nest


def is_border(core: Core, level: MemoryLevel) -> bool:
    return level.instances == 1 and all(core.top(slot) == level for slot in level.operands)


def other_figures(core: Core) -> Core:
    """The same shape with other energies, clock, leakage and a larger top memory."""
    levels = [
        replace(
            level,
            read_energy_j=level.read_energy_j * (2 + i),
            write_energy_j=level.write_energy_j * (5 - i),
            leakage_w=level.leakage_w + 1e-3,
            size_bytes=level.size_bytes * (3 if is_border(core, level) else 1),
        )
        for i, level in enumerate(core.levels)
    ]
    rates = tuple(replace(rate, energy_j=3 * rate.energy_j) for rate in core.rates)
    return replace(core, levels=tuple(levels), rates=rates, clock_hz=core.clock_hz / 2, dispatch_cycles=7)


@pytest.mark.parametrize("seed", range(30))
def test_cores_of_one_shape_are_searched_as_if_alone(seed: int) -> None:
    rng = random.Random(seed)
    nest, core = random_nest(rng, 8, 4000), random_core(rng)
    other, objective = other_figures(core), ("latency", "energy", "edp")[seed % 3]
    store = CostStore()
    assert known_shape(other, store) is known_shape(core, store)
    try:
        best_tiling_of(nest, Target(core, objective, STREAM, limit=4), store)
    except DoesNotFit:
        with pytest.raises(DoesNotFit):
            best_tiling_of(nest, Target(other, objective, STREAM, limit=4), store)
        return
    shared_frame, shared = best_tiling_of(nest, Target(other, objective, STREAM, limit=4), store)
    frame, fresh = best_tiling_of(nest, Target(other, objective, STREAM, limit=4), CostStore())
    assert frame is not shared_frame
    assert shared == fresh
    prices = prices_of(other, STREAM)
    assert evaluate(shared_frame, shared.mapping, prices) == evaluate(frame, fresh.mapping, prices)


def test_what_moves_data_is_part_of_the_shape() -> None:
    core = random_core(random.Random(1))
    narrow = replace(core.levels[0], size_bytes=core.levels[0].size_bytes + 8)
    slower = replace(core, levels=(narrow, *core.levels[1:]))
    assert shape_of(slower) != shape_of(core)
    assert shape_of(replace(core, zero_skipping=not core.zero_skipping)) != shape_of(core)


def test_hashes_are_not_carried_to_other_processes() -> None:
    nest, core = random_nest(random.Random(2), 8, 4000), random_core(random.Random(2))
    for one in (nest, core):
        hash(one)
        copy = pickle.loads(pickle.dumps(one))
        assert "_hash" not in copy.__dict__
        assert copy == one
        assert hash(copy) == hash(one)
