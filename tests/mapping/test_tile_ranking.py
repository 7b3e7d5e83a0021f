"""Tiles of an operator alone: leaving out what cannot be among the best leaves the same ones, in the same order."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import numpy as np
import pytest

from monet import compiled
from monet.hardware import load_hardware
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.parts import best_parts
from monet.mapping.mapper.search import Target
from monet.mapping.mapper.tiling import OBJECTIVES
from monet.mapping.unfused import tile_ranking
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.tile_candidates import tile_arrays
from monet.mapping.unfused.tile_ranking import ROOM, Ranking, rank_tiles
from tests.mapping.nests import conv, linear

STORE = CostStore()
NESTS = {
    "forward": conv(K=24, C=16, OY=8, OX=8, FY=3, FX=3, pad=1),
    "input gradient": conv("x", K=24, C=16, OY=7, OX=7, FY=3, FX=3, stride=2, pad=1),
    "weight gradient": conv("w", N=2, K=24, C=16, OY=8, OX=8, FY=3, FX=3, pad=1),
    "prime": linear(197, 64, 509),
}

KEEP = 8  # of the best


def ranking_of(name: str, goal: str, hardware: str, room: float) -> Ranking:
    """What ``unfused`` gives the kernel, with a share of the memories' room."""
    accelerator = load_hardware(hardware)
    core, border = accelerator.cores[0].core, border_of(accelerator, accelerator.cores[0])
    inside = "latency" if goal == "throughput" else goal
    target = Target(core, inside, border.stream if core.streamed else None, resident=False)
    whole = best_parts(NESTS[name], target, STORE, phased=False)
    arrays = tile_arrays(whole.frame, border.memories, target.constraints, whole.frame.factors)
    streams = {slot: whole.cost.stream_bits(slot) for slot in core.streamed}
    leakage = core.leakage_w / core.clock_hz
    fixed = arrays.fixed_prices(border.memories, whole.energy_j, leakage, streams, whole.cost)
    ranking = arrays.priced(fixed, border, goal)
    ranking.per_slot[:, ROOM] *= room
    return ranking


@pytest.fixture(scope="module")
def plain() -> Any:
    """The file of the kernel as plain Python: compiling one links its parts, which then cannot be called."""
    before = dict(compiled._kernels)
    spec = spec_from_file_location("plain_tile_ranking", tile_ranking.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    compiled._kernels.clear()
    compiled._kernels.update(before)
    return module


def every_tile_ranked(ranking: Ranking, plain: Any) -> tuple[Any, Any]:
    """All tiles in all orders, one after another."""
    dims = ranking.candidates.size
    scores, ranked = np.full(KEEP, np.inf), np.full((KEEP, dims + 2), -1, np.int64)
    by_slot = (np.zeros(plain.SLOTS) for _ in range(3))
    tile, more = plain.Tile(np.zeros(dims, np.int64), *by_slot, plain.sliding_dims(ranking)), True
    while more:
        if plain.fits(tile.pick, tile.bits, ranking):
            plain.rank_orders(tile, scores, ranked, ranking)
        more = plain.next_pick(tile.pick, ranking.candidates, 1)
    return scores, ranked


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize("goal", [*OBJECTIVES, "throughput"])
def test_what_is_left_out_is_not_among_the_best(name: str, goal: str, plain: Any) -> None:
    for hardware, room in (("tpu-like", 0.003), ("edge-tpu", 0.01)):
        ranking = ranking_of(name, goal, hardware, room)
        scores, ranked = np.empty(KEEP), np.empty((KEEP, ranking.candidates.size + 2), np.int64)
        rank_tiles(ranking, scores, ranked)
        plain_scores, plain_ranked = every_tile_ranked(ranking, plain)
        assert np.isfinite(scores[0])
        assert scores.tolist() == plain_scores.tolist()
        assert ranked.tolist() == plain_ranked.tolist()
