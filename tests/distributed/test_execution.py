"""Plans are proved by running them: all ranks together come to the loss, the gradients and the update of one device."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.proof import difference

BAR = 1e-10

PLANS: dict[str, dict[str, Any]] = {
    "data 2": {"data": 2},
    "data 4": {"data": 4, "passes": 2},
    "tensor 2": {"tensor": 2},
    "tensor 4": {"tensor": 4},
    "tensor 2, sequence": {"tensor": 2, "sequence_parallel": True},
    "tensor 4, sequence": {"tensor": 4, "sequence_parallel": True, "passes": 2},
    "pipeline 2": {"pipeline": 2, "passes": 2},
    "pipeline 4": {"pipeline": 4, "passes": 4},
    "pipeline 2, gpipe": {"pipeline": 2, "passes": 3, "pipeline_schedule": "gpipe"},
    "interleaved": {"pipeline": 2, "interleave": 2, "passes": 4},
    "states": {"data": 2, "shard": "states"},
    "gradients": {"data": 4, "shard": "gradients", "passes": 2},
    "parameters": {"data": 2, "shard": "parameters", "passes": 2},
    "selective": {"recompute": "selective"},
    "full": {"recompute": "full"},
    "all, states": {"data": 2, "tensor": 2, "pipeline": 2, "shard": "states", "passes": 2},
    "all, gradients": {"data": 2, "tensor": 2, "pipeline": 2, "shard": "gradients", "passes": 2, "recompute": "full"},
    "all, parameters": {
        "data": 2, "tensor": 2, "pipeline": 2, "interleave": 2, "shard": "parameters", "passes": 2, "bucket_bytes": 0,
    },
    "all, sequence": {
        "data": 2, "tensor": 2, "pipeline": 2, "sequence_parallel": True, "recompute": "selective", "passes": 2,
    },
}  # fmt: skip
NO_TOKENS = ("mlp", "resnet")
EVERY_TIME = {  # by model; the others are slow tests
    "gpt": ("data 2", "tensor 2", "tensor 2, sequence", "pipeline 2", "interleaved", "states", "gradients",
            "parameters", "full", "all, parameters", "all, sequence"),
    "mlp": ("data 2", "tensor 2", "interleaved", "all, states"),
    "resnet": ("data 2", "all, states"),
    "llama": ("tensor 2, sequence", "all, gradients"),
    "bert": ("interleaved", "all, sequence"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "plan"),
    [
        pytest.param(model, plan, marks=() if plan in often else pytest.mark.slow)
        for model, often in EVERY_TIME.items()
        for plan in PLANS
        if not (model in NO_TOKENS and PLANS[plan].get("sequence_parallel"))
    ],
)
def test_ranks_compute_what_one_device_does(model: str, plan: str) -> None:
    assert difference(model, **PLANS[plan]) <= BAR
