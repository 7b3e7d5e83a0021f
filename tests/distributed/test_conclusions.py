"""What a user concludes from varying one thing: time, memory and bubble move the right way, and by the right reason."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from monet.distributed.layout import lay
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import DistributedResult
from monet.request.system_request import SystemRequest

GPT = "gpt:layers=12,hidden=64,heads=8,vocabulary=128,positions=64,sequence=64,dropout=0.1"


def system(bandwidth: float = 10e9, latency: float = 1e-6) -> dict[str, Any]:
    level = {"bandwidth_bytes_per_s": bandwidth, "latency_s": latency, "energy_j_per_bit": 1e-12}
    return {
        "name": "boards",
        "devices": "micro-npu",
        "network": {
            "board": {"size": 4, **level},
            "rack": {"size": 8, **level, "bandwidth_bytes_per_s": bandwidth / 4},
        },
    }


@cache
def result(bandwidth: float = 10e9, latency: float = 1e-6, **given: Any) -> DistributedResult:
    values = {"batch": 16, "optimizer": "adam", "precision": "bf16", "fusion": "none", **given}
    return SystemRequest(GPT, system=system(bandwidth, latency), **values).distribute()


def activations(found: DistributedResult) -> int:
    return found.stages[0].peak_memory_bytes.activations


def exposed(found: DistributedResult, group: str) -> float:
    return sum(seconds for kind, seconds in found.time.communication.items() if kind.startswith(group))


@pytest.mark.parametrize(
    "plan",
    [
        {"data": 4},
        pytest.param({"tensor": 4, "sequence_parallel": True}, marks=pytest.mark.slow),
        pytest.param({"pipeline": 4, "micro_batch": 2}, marks=pytest.mark.slow),
        pytest.param({"data": 4, "shard": "parameters"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_more_bandwidth_and_less_latency_are_never_slower(plan: dict[str, Any]) -> None:
    steps = [result(bandwidth=rate, **plan).latency_s for rate in (1e8, 1e9, 1e10, 1e11)]
    rises = [later / min(steps[: number + 1]) for number, later in enumerate(steps[1:])]
    # set after it was seen: with parameters sharded, collectives and tiles queue for a device's DRAM
    assert max(rises) <= (1.06 if "shard" in plan else 1.02)
    assert steps[0] > steps[-1]
    assert result(latency=1e-4, **plan).latency_s > result(latency=1e-6, **plan).latency_s
    assert result(bandwidth=1e8, **plan).peak_memory_bytes == result(bandwidth=1e11, **plan).peak_memory_bytes


@pytest.mark.slow
def test_interleaving_divides_the_bubble_and_sends_more() -> None:
    plain, chunked = result(pipeline=4, bandwidth=1e12), result(pipeline=4, interleave=3, bandwidth=1e12)
    assert chunked.time.bubble < 0.5 * plain.time.bubble  # a third of it, but for stages that are not quite equal
    assert chunked.latency_s < plain.latency_s
    sent = [next(row.bytes for row in one.communication if row.group == "pipeline") for one in (plain, chunked)]
    assert sent[1] == pytest.approx(sent[0] * 11 / 3)  # cuts between chunks
    assert activations(chunked) > activations(plain)


@pytest.mark.slow
def test_more_micro_batches_have_a_smaller_share_of_bubble() -> None:
    shares = [
        (one := result(pipeline=4, batch=batch)).time.bubble / one.latency_s for batch in (4, 8, 16, 64)
    ]  # fmt: skip
    assert shares == sorted(shares, reverse=True)
    for share, passes in zip(shares, (4, 8, 16, 64), strict=True):
        assert share == pytest.approx(3 / (passes + 3), abs=0.08)  # of equal stages, which first and last are not quite


def test_schedules_differ_in_bubble_and_in_what_is_held() -> None:
    usual, zero, gpipe = (
        result(pipeline=4, pipeline_schedule=name, batch=8) for name in ("1f1b", "zero-bubble", "gpipe")
    )
    assert zero.time.bubble < 0.8 * usual.time.bubble
    assert gpipe.time.bubble == pytest.approx(usual.time.bubble, rel=0.05)
    assert activations(gpipe) == pytest.approx(2 * activations(usual))  # eight micro-batches under way, not four
    assert [stage.micro_batches_held for stage in usual.stages] == [4, 3, 2, 1]


@pytest.mark.slow
def test_sequence_parallelism_shares_what_tensor_ranks_kept_whole() -> None:
    whole, shared = result(tensor=4), result(tensor=4, sequence_parallel=True)
    assert activations(shared) < 0.8 * activations(whole)
    parts = [one.stages[0].peak_memory_bytes for one in (whole, shared)]
    assert parts[0].weights == parts[1].weights
    sent = [sum(row.bytes for row in one.communication if row.group == "tensor") for one in (whole, shared)]
    assert sent[1] == pytest.approx(1.25 * sent[0], rel=0.05)  # gathered again in backward: 10 halves instead of 8


@pytest.mark.slow
def test_tensor_ranks_share_weights_and_pay_in_communication() -> None:
    found = [result(tensor=degree, bandwidth=1e9) for degree in (1, 2, 4, 8)]
    weights = [one.stages[0].peak_memory_bytes.weights for one in found]
    assert all(after < 0.6 * before for before, after in pairwise(weights))
    waits = [exposed(one, "tensor") for one in found]
    assert waits == sorted(waits)
    busy = [one.time.compute for one in found]
    assert busy == sorted(busy, reverse=True)
    assert waits[3] / found[3].latency_s > waits[1] / found[1].latency_s


@pytest.mark.slow
def test_sharding_follows_the_closed_forms() -> None:
    """Rajbhandari et al. 2020: with n replicas states, then gradients, then parameters take an n-th."""
    sizes = [
        result(data=8, shard=shard, batch=64).stages[0].peak_memory_bytes
        for shard in ("none", "states", "gradients", "parameters")
    ]
    states = [one.optimizer_state for one in sizes]
    assert states[1:] == pytest.approx([states[0] / 8] * 3, rel=0.01)
    assert sizes[2].gradients == pytest.approx(sizes[1].gradients / 8, rel=0.01)
    assert sizes[3].weights == pytest.approx(sizes[2].weights / 8, rel=0.1)  # tables of positions are no parameters
    sent = [
        sum(row.bytes for row in result(data=8, shard=shard, batch=8).communication if row.group == "data")
        for shard in ("none", "states", "parameters")
    ]
    assert sent[1] == pytest.approx(sent[0], rel=0.01)
    assert (
        1.3 * sent[0] < sent[2] < 1.55 * sent[0]
    )  # gathered twice, scattered once, but for what backward does not read


@pytest.mark.slow
def test_more_devices_at_a_fixed_batch_are_faster_up_to_a_point() -> None:
    found = [result(data=count) for count in (1, 2, 4, 8)]
    steps = [one.latency_s for one in found]
    assert steps == sorted(steps, reverse=True)
    shares = [one.mfu for one in found]
    assert shares == sorted(shares, reverse=True)  # but each is used less
    assert found[-1].device_hours > found[0].device_hours


@pytest.mark.slow
def test_recomputation_saves_memory_for_time_in_order() -> None:
    found = [result(pipeline=2, recompute=name) for name in ("none", "selective", "full")]
    assert [activations(one) for one in found] == sorted(map(activations, found), reverse=True)
    assert [one.time.recomputation for one in found] == sorted(one.time.recomputation for one in found)
    assert [one.hfu - one.mfu for one in found] == sorted(one.hfu - one.mfu for one in found)
    assert found[2].hfu > found[2].mfu > 0


def test_an_update_that_waits_for_memory_is_called_update() -> None:
    """Adam computes next to nothing more than SGD: what it takes longer is moving its states."""
    plain, adam = result(batch=1, optimizer="sgd"), result(batch=1)
    assert adam.time.compute == pytest.approx(plain.time.compute, rel=0.01)  # its states are also read beside compute
    more = adam.time.update - plain.time.update
    assert more == pytest.approx(adam.latency_s - plain.latency_s, rel=0.02)
    states = adam.stages[0].peak_memory_bytes.optimizer_state - plain.stages[0].peak_memory_bytes.optimizer_state
    bandwidth = SystemRequest(GPT, system=system()).load_system().devices[0].accelerator.dram.bandwidth_bytes_per_s
    assert more > 2 * states / bandwidth > 0.5 * more  # read and written


def test_zero_bubble_fills_with_what_gradients_of_weights_take() -> None:
    """All of the backward pass but what the stage before waits for; at least a third of it, where products decide."""
    coster = SystemRequest(GPT, system=system(), fusion="none").coster()
    laid = lay(ParallelPlan(pipeline=4), SystemRequest(GPT, system=system()).load_system(), 16)
    middle = coster.chunks(laid.plan, laid.network, laid.devices, laid.micro_batches)[1]
    assert 1 / 3 < middle.backward["weight_gradient"] / middle.backward["seconds"] < 2 / 3
