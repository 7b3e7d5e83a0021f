"""Parallel plans: what is refused, with which numbers, and where ranks stand."""

from __future__ import annotations

from typing import Any

import pytest

from monet.distributed import ParallelPlan
from monet.distributed.plan import check_divides
from monet.errors import MonetError, OptionError
from monet.transforms.checkpoint_plan import CheckpointPlan


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": 0}, "data=0: a whole number of at least 1"),
        ({"tensor": 2.5}, "tensor=2.5: a whole number"),
        ({"pipeline_schedule": "1f2b"}, "did you mean '1f1b'"),
        ({"shard": "states+"}, "did you mean 'states'"),
        ({"recompute": "selectiv"}, "did you mean 'selective'"),
        ({"sequence_parallel": True}, "tensor=1 has none"),
        ({"interleave": 2}, "needs pipeline of at least 2"),
        ({"pipeline": 4, "cuts": (1, 2)}, "4 chunks have 3 cuts"),
        ({"pipeline": 3, "cuts": (2, 2)}, "ascending"),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ParallelPlan(**given)


def test_a_batch_that_does_not_divide_names_its_neighbours() -> None:
    plan = ParallelPlan(data=4, micro_batch=2)
    assert plan.micro_batches(32) == 4
    with pytest.raises(OptionError, match=r"data=4 × micro_batch=2 = 8 leaves 3; 8 or 16 fit"):
        plan.micro_batches(11)
    with pytest.raises(OptionError, match=r"leaves 3; 8 fit"):
        plan.micro_batches(3)


def test_interleaved_micro_batches_fill_the_pipeline() -> None:
    plan = ParallelPlan(pipeline=4, interleave=2, micro_batch=2)
    assert plan.micro_batches(16) == 8
    with pytest.raises(OptionError, match=r"5 micro-batches do not divide into pipeline=4; 8 or 16 do"):
        plan.micro_batches(10)


def test_devices() -> None:
    plan = ParallelPlan(data=2, tensor=4, pipeline=2)
    plan.check_devices(16)
    with pytest.raises(OptionError, match=r"= 16, 8 more than there are.*data=1 \(8 devices\)"):
        plan.check_devices(8)
    with pytest.raises(OptionError, match=r"= 16, 4 are left over.*data=2 \(16 devices\) or data=3 \(24 devices\)"):
        plan.check_devices(20)


def test_what_cannot_be_divided_names_what_could() -> None:
    check_divides("tensor", 4, 12, "attention heads")
    with pytest.raises(OptionError, match=r"tensor=5: does not divide .* of 12 \(2 left over\); 4 or 6 would"):
        check_divides("tensor", 5, 12, "attention heads")
    with pytest.raises(OptionError, match="; 12 would"):
        check_divides("tensor", 16, 12, "attention heads")


def test_ranks_of_a_tensor_group_are_neighbours() -> None:
    plan = ParallelPlan(data=2, tensor=2, pipeline=3)
    places = [(pipeline, data, tensor) for pipeline in range(3) for data in range(2) for tensor in range(2)]
    assert [plan.rank(*place) for place in places] == list(range(12))


def test_plain_values_there_and_back() -> None:
    plan = ParallelPlan(data=2, pipeline=2, cuts=(3,), recompute=CheckpointPlan({"x": "recompute"}))
    values = plan.to_dict()
    assert values == {"data": 2, "pipeline": 2, "cuts": [3], "recompute": {"recompute": ["x"]}}
    assert ParallelPlan.from_dict(values) == plan
    with pytest.raises(MonetError, match=r"plan.yaml: unknown key 'tensors'; did you mean 'tensor'"):
        ParallelPlan.from_dict({"tensors": 2}, "plan.yaml")
