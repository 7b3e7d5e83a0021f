"""For every option of a request: a model, a value, and what it does to what a command works on.

An option without an entry here fails its tests, so a new one comes with what it is seen by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from monet.graph import Graph, Phase, Role
from monet.graph.counts import saved_bytes
from monet.hardware import Accelerator


@dataclass(frozen=True)
class Seen:
    """What a command worked on, and what came out of it."""

    graph: Graph
    accelerator: Accelerator | None
    outcome: dict[str, Any]


@dataclass(frozen=True)
class Probe:
    """``given`` → the value of the option, ``look`` at it before and after, and what is to be seen then.

    ``model`` is a key of the models that the tests make. ``costs`` says whether what comes out differs too; where it
    need not (the step size of an optimizer costs nothing), only what is looked at does.
    """

    given: Any
    look: Callable[[Seen], Any]
    before: Any
    after: Any
    model: str = "net"
    costs: bool = True
    more: dict[str, Any] = field(default_factory=dict)  # options that are given both times


def _input(seen: Seen) -> tuple[int, ...]:
    return seen.graph.tensors[seen.graph.inputs[0]].shape


def _label(seen: Seen) -> tuple[int, ...]:
    return next(one.shape for one in seen.graph.role(Role.LABEL))


def _updates(seen: Seen, attribute: str = "") -> Any:
    found = [op for op in seen.graph.ops if op.phase is Phase.UPDATE]
    if attribute:
        return {op.attrs[attribute] for op in found if attribute in op.attrs}
    return {op.kind for op in found}


def _kinds(seen: Seen) -> set[str]:
    return {op.kind for op in seen.graph.ops}


def _passes(seen: Seen) -> int:
    return 1 + max(op.micro_batch for op in seen.graph.ops)


def _trained(seen: Seen) -> int:
    return sum(one.elements for one in seen.graph.parameters if one.name in seen.graph.gradients)


def _plan(seen: Seen) -> dict[str, Any]:
    found: dict[str, Any] = seen.outcome["plan"]
    return found


WEIGHTS = 8 * 3 * 9 + 8 * 8 * 9 + 8 * 5 + 5  # of the small network in tests/request/models.py
HEAD = 8 * 5 + 5
LORA = (2 * 3 * 9 + 8 * 2) + (2 * 8 * 9 + 8 * 2)  # rank 2 beside both convolutions
ONE_CORE = {"allocation": {"conv": {"cores": ["pe[3,3]"]}}}
FUSEMAX = {"hardware": "fusemax", "precision": "bf16"}  # it runs fused attention

PROBES: dict[str, Probe] = {
    "batch": Probe(4, _input, (2, 3, 8, 8), (4, 3, 8, 8)),
    "image": Probe(16, _input, (2, 3, 8, 8), (2, 3, 16, 16)),
    "sequence": Probe(3, _input, (1, 2), (1, 3), "attention"),
    "inputs": Probe("3x8", _input, (2, 8), (3, 8), "torch"),
    "dimensions": Probe("rows=6", _input, (2, 3, 8, 8), (6, 3, 8, 8)),
    "mode": Probe("inference", lambda seen: bool(seen.graph.loss), True, False),
    "loss": Probe("mse", lambda seen: "mse_loss" in _kinds(seen), False, True),
    "class_axis": Probe(0, _label, (2,), (5,)),
    "optimizer": Probe("adam", _updates, {"sgd_update"}, {"adam_update"}),
    "learning_rate": Probe(0.5, lambda seen: _updates(seen, "rate"), {0.01}, {0.5}, costs=False),
    "weight_decay": Probe(0.25, lambda seen: _updates(seen, "decay"), {0.0}, {0.25}, costs=False),
    "clip_norm": Probe(1.0, lambda seen: "clip" in str(_kinds(seen)), False, True),
    "micro_batches": Probe(2, _passes, 1, 2),
    "precision": Probe("bf16", lambda seen: seen.graph.tensors["x"].dtype, "fp32", "bf16"),
    "freeze": Probe("conv*", _trained, WEIGHTS, HEAD),
    "lora": Probe(2, _trained, WEIGHTS, LORA),
    "lora_targets": Probe("conv", _trained, LORA, 2 * 3 * 9 + 8 * 2, more={"lora": 2}),
    "attention": Probe("fused", lambda seen: "softmax" in _kinds(seen), True, False, "attention", more=FUSEMAX),
    "saved": Probe("compact", lambda seen: saved_bytes(seen.graph), None, None),
    "checkpoint": Probe(
        "recompute-all", lambda seen: any(op.recompute for op in seen.graph.ops), False, True
    ),
    "hardware": Probe(
        "fusemax", lambda seen: seen.accelerator and seen.accelerator.name, "edge-tpu", "fusemax",
        more={"precision": "bf16"},
    ),
    "set": Probe("clock_hz=4e8", lambda seen: seen.accelerator and seen.accelerator.clock_hz, 8e8, 4e8),
    "phases": Probe(
        "forward,loss", lambda seen: {op.phase.value for op in seen.graph.ops},
        {"forward", "loss", "backward", "update"}, {"forward", "loss"},
    ),
    "fusion": Probe("none", lambda seen: bool(_plan(seen)["groups"]), True, False),
    "allocation": Probe(
        ONE_CORE, lambda seen: _plan(seen)["allocation"].get("conv") == {"cores": ["pe[3,3]"]}, False, True
    ),
    "boundary": Probe("dram", lambda seen: _plan(seen)["boundary"], "keep", "dram"),
    "objective": Probe("energy", lambda seen: seen.outcome, None, None),
}  # fmt: skip
