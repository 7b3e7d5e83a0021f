"""Texts kept whole: two small schedules, and what commands print."""

from __future__ import annotations

from tests.regression.evaluate import HERE, Spec, schedule_text, terminal_text

_RUN = "run mlp-robot --hardware edge-tpu --batch 8 --optimizer adam"
_SMALL = "run mlp-pusher --hardware micro-npu --batch 4"
_COMPARED = [
    f"{_SMALL} --json a.json",
    f"{_SMALL} --optimizer momentum --set sram_bytes=1048576 --json b.json",
    "diff a.json b.json",
]

SCHEDULES: dict[str, Spec] = {
    "schedule-training": {"model": "mlp-robot", "batch": 8, "hardware": "edge-tpu", "set": {"x_pes": 2, "y_pes": 1}},
    "schedule-fused": {
        "model": "conv-chain",
        "hardware": "tpu-like-quad",
        "mode": "inference",
        "plan": {
            "groups": [{"operators": ["conv0", "conv1", "conv2", "conv3"], "tile": {"OY": 4}}],
            "allocation": {
                "conv0": "tensor[0]",
                "conv1": {"cores": ["tensor[1]", "tensor[2]"], "split": "K"},
                "conv2": "tensor[3]",
                "conv3": "tensor[0]",
            },
        },
    },
}
TERMINAL: dict[str, tuple[list[str], int]] = {
    "run-40": ([_RUN], 40),
    "run-80": ([_RUN], 80),
    "run-120": ([_RUN], 120),
    "run-inference-120": (
        ["run resnet18-cifar --hardware simba --batch 2 --mode inference --precision int8 --fusion none"], 120,
    ),
    "graph-40": (["graph mlp-cartpole --optimizer adam"], 40),
    "graph-80": (["graph gpt2-mini --sequence 32 --batch 2 --optimizer adamw --attention fused"], 80),
    "map-120": (["map conv --hardware edge-tpu --dims K=64,C=32,OY=28,OX=28,FY=3,FX=3,stride=2 --precision bf16"], 120),
    "map-model-40": (["map mlp-robot --hardware tpu-v3 --batch 16"], 40),
    "map-model-120": (["map mlp-robot --hardware tpu-v3 --batch 16"], 120),
    "explain-80": ([f"{_SMALL} --json a.json", "explain a.json"], 80),
    "explain-120": ([f"{_SMALL} --json a.json", "explain a.json"], 120),
    "hardware-40": (["hardware"], 40),
    "hardware-80": (["hardware"], 80),
    "models-80": (["models"], 80),
    "diff-40": (_COMPARED, 40),
    "diff-120": (_COMPARED, 120),
}  # fmt: skip
GOLDEN = (*SCHEDULES, *TERMINAL)


def golden_text(name: str) -> str:
    """The text as it is now."""
    return schedule_text(SCHEDULES[name]) if name in SCHEDULES else terminal_text(*TERMINAL[name])


def stored_text(name: str) -> str:
    """The text as it was kept."""
    return (HERE / "golden" / f"{name}.txt").read_text()
