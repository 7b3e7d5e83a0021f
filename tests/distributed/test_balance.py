"""Where pipelines are cut: by what layers take, on the devices that they lie on."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from monet.distributed.pipelines.balance import laid_and_cut
from monet.distributed.result import DistributedResult
from monet.distributed.transform.blocks import balanced_over
from monet.errors import OptionError
from monet.request.system_request import SystemRequest
from monet.search.distribution.search import distribute
from monet.search.distribution.space import PlanSpace
from tests.distributed.proof import difference

NETWORK = {"board": {"size": 4, "bandwidth_bytes_per_s": 1e10, "latency_s": 1e-6}}
ALIKE = {"name": "boards", "devices": "micro-npu", "network": NETWORK}
UNLIKE = {
    "name": "boards",
    "devices": [{"hardware": "micro-npu", "count": 2}, {"hardware": "fusemax", "count": 2}],
    "network": NETWORK,
}
GPT = "gpt:layers=6,hidden=32,heads=4,vocabulary={vocabulary},positions=16,sequence=16"
RESNET = "resnet:blocks=2-2,width=8,classes=8,image=16,stem=cifar"


def request(model: str, system: dict[str, Any] = ALIKE, **given: Any) -> SystemRequest:
    return SystemRequest(model, system=system, fusion="none", **{"batch": 8, "pipeline": 2, **given})


def slowest(found: DistributedResult) -> float:
    return max(stage.forward_s + stage.backward_s for stage in found.stages)


@pytest.mark.parametrize("seed", range(20))
def test_cuts_over_unlike_chunks_are_the_best_there_are(seed: int) -> None:
    random = np.random.default_rng(seed)
    chunks, blocks = int(random.integers(1, 5)), int(random.integers(4, 9))
    work = random.integers(0, 9, (chunks, blocks)).astype(float)

    def most(starts: list[int]) -> float:
        spans = pairwise([*starts, blocks])
        return max(float(row[begin:end].sum()) for row, (begin, end) in zip(work, spans, strict=True))

    every = ([0, *cuts] for cuts in combinations(range(1, blocks), chunks - 1))
    assert most(balanced_over(work.tolist())) == min(map(most, every))


def test_unlike_layers_are_cut_where_the_slowest_stage_takes_least() -> None:
    """Layers are costed one by one, so a stage of several may take a little less than they."""
    asked = request(RESNET)
    chosen = asked.distribute()
    others = [request(RESNET, cuts=(str(cut),)).distribute() for cut in (1, 2, 3)]
    assert chosen.parallel["cuts"] in [[1], [2], [3]]
    assert slowest(chosen) <= 1.02 * min(map(slowest, others))
    assert request(RESNET, cuts=("number",)).distribute().parallel["cuts"] == [2]
    assert len(request(RESNET, pipeline=3).distribute().stages) == 3  # which need not divide four


def test_a_heavy_head_is_worth_layers_where_time_decides() -> None:
    heavy, light = GPT.format(vocabulary=8192), GPT.format(vocabulary=64)
    by_number, by_time = request(heavy).distribute(), request(heavy, cuts=("time",)).distribute()
    assert [stage.blocks for stage in by_number.stages] == [3, 3]
    first, last = (stage.blocks for stage in by_time.stages)
    assert first > last
    assert slowest(by_time) <= slowest(by_number)
    assert by_time.latency_s <= by_number.latency_s
    assert [stage.blocks for stage in request(light, cuts=("time",)).distribute().stages] == [3, 3]


def test_a_faster_device_has_more_layers() -> None:
    asked = request(GPT.format(vocabulary=64), UNLIKE, data=2)
    plan = laid_and_cut(asked.coster(), asked.parallel_plan(), asked.load_system(), 8).plan
    found, equal = asked.distribute(), request(GPT.format(vocabulary=64), UNLIKE, data=2, cuts=("3",)).distribute()
    assert found.parallel["cuts"] == list(plan.cuts)
    assert found.latency_s < equal.latency_s
    quick = int(np.argmin([stage.forward_s for stage in equal.stages]))
    assert found.stages[quick].blocks > 3


def test_more_chunks_than_layers_are_refused() -> None:
    with pytest.raises(OptionError, match="6 chunks are 2 more than the 4 layers there are; at most 4"):
        request(RESNET, {**ALIKE, "network": {"board": {**NETWORK["board"], "size": 8}}}, pipeline=6).distribute()
    with pytest.raises(OptionError, match="does not divide layers of a stage of 3"):
        request(GPT.format(vocabulary=64), interleave=2).distribute()


@pytest.mark.parametrize("cuts", [(1,), pytest.param((3,), marks=pytest.mark.slow)])
def test_stages_with_unequal_layers_compute_what_one_device_does(cuts: tuple[int, ...]) -> None:
    assert difference("gpt", pipeline=2, passes=2, cuts=cuts) <= 1e-10


@pytest.mark.slow
@pytest.mark.parametrize(("model", "system"), [(RESNET, ALIKE), (GPT.format(vocabulary=64), UNLIKE)])
def test_the_search_finds_what_costing_all_does(model: str, system: dict[str, Any]) -> None:
    asked = request(model, system)
    coster, place = asked.coster(), asked.load_system()
    space = PlanSpace(4, 4, sum(coster.blocks()), 4, 2, 2, ("none", "states"), ("none", "full"))
    quick, exhaustive = (distribute(coster, place, space, model, exhaustive=each) for each in (False, True))
    assert quick.best is not None
    assert exhaustive.best is not None
    assert quick.best.result.latency_s == exhaustive.best.result.latency_s
