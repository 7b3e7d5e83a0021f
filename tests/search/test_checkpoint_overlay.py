"""The overlay costs what the transform costs; its memory is that of a plain walk over the schedule."""

from __future__ import annotations

import random

import pytest

import monet
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_plan
from monet.schedule.schedule import Schedule
from monet.schedule.workload import ACTIVATIONS
from monet.search.checkpoint.overlay import Overlay
from monet.search.checkpoint.overlay_memory import activation_peak, lifetimes
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.transforms.checkpoint_plan import CheckpointPlan, saved_tensors
from monet.transforms.recompute import Replay, recompute

CASES = [
    pytest.param("resnet18-cifar", {"batch": 1, "image": 16}, {}, "edge-tpu", marks=pytest.mark.slow),
    ("gpt2-mini", {"sequence": 32}, {"optimizer": "adam"}, "fusemax"),
    pytest.param("mobilenetv2", {"batch": 1, "image": 64}, {"micro_batches": 2}, "edge-tpu", marks=pytest.mark.slow),
    ("resnet:blocks=1-1,width=32,stem=cifar,classes=10,image=16", {"batch": 2}, {"micro_batches": 2}, "edge-tpu"),
]


def random_plans(graph: monet.Graph, seed: int, count: int) -> list[CheckpointPlan]:
    """Any choices for any storages; also storages kept that the plain step frees."""
    chance, saved = random.Random(seed), [one.storage for one in saved_tensors(graph)]
    replay = Replay(graph)
    freed = sorted(
        {graph.tensors[name].storage for op in graph.phase(monet.graph.Phase.FORWARD) for name in op.outputs}
        - replay.saved
    )
    freed = [name for name in freed if replay.is_early(name) and graph.producer[name].micro_batch == 0]
    plans = []
    for number in range(count):
        options = ("recompute", "keep", "narrow") if number % 2 else ("recompute", "keep")
        choices = {name: chance.choice(options) for name in chance.sample(saved, chance.randrange(1, len(saved) + 1))}
        choices |= dict.fromkeys(chance.sample(freed, min(3, len(freed))), "keep")
        plans.append(CheckpointPlan(choices))
    return plans


@pytest.mark.parametrize(("model", "sizes", "training", "hardware"), CASES)
def test_overlay_costs_what_the_transform_costs(model: str, sizes: dict, training: dict, hardware: str) -> None:
    graph = monet.training_step(monet.load_model(model, **sizes), **training)
    accelerator = monet.load_hardware(hardware)
    scheduler = Scheduler(graph, accelerator)
    costed = ScheduledCost(scheduler, default_plan(scheduler))
    saved = [one.storage for one in saved_tensors(graph)]
    for plan in (CheckpointPlan(), CheckpointPlan.dropping(saved), *random_plans(graph, 7, 3)):
        on_overlay, schedule = costed.schedule(plan)
        fresh = Scheduler(recompute(graph, plan), accelerator)
        again = fresh.schedule(schedule.plan)
        assert [one.op for one in on_overlay.workload.operators if one.op.recompute] == [
            one.op for one in fresh.workload.operators if one.op.recompute
        ]
        assert figures_of(on_overlay, schedule) == figures_of(fresh, again)
        assert activation_peak(schedule, on_overlay.workload) == activation_peak(again, fresh.workload)


def test_overlay_does_not_depend_on_what_was_asked_before() -> None:
    graph = monet.training_step(monet.load_model("resnet18-cifar", batch=1, image=16))
    scheduler = Scheduler(graph, monet.load_hardware("edge-tpu"))
    base = default_plan(scheduler)
    plans = random_plans(graph, 3, 3)
    costed = ScheduledCost(scheduler, base)
    first = [costed.figures(plan) for plan in plans]
    other = ScheduledCost(Scheduler(graph, monet.load_hardware("edge-tpu")), base)
    assert [other.figures(plan) for plan in reversed(plans)] == first[::-1]


def test_the_plain_plan_is_the_plain_step() -> None:
    graph = monet.training_step(monet.load_model("resnet18-cifar", batch=1, image=16))
    assert [one.op for one in Overlay(graph).workload(CheckpointPlan()).operators] == [
        one.op for one in Scheduler(graph, monet.load_hardware("edge-tpu")).workload.operators
    ]


def brute_force_peak(schedule: Schedule, scheduler: Scheduler) -> int:
    """Activation bytes at every moment at which something comes, summed block by block."""
    came, went, size, storage = lifetimes(schedule, scheduler.workload)
    assert {list(scheduler.workload.storages.values())[one].category for one in storage} <= {ACTIVATIONS}
    return max(int(size[(came <= time) & (went > time)].sum()) for time in came)


def test_activation_peak() -> None:
    graph = monet.training_step(monet.load_model("mlp-reacher"))
    scheduler = Scheduler(graph, monet.load_hardware("edge-tpu"))
    schedule = scheduler.schedule(Plan())
    peak = activation_peak(schedule, scheduler.workload)
    assert peak.bytes == brute_force_peak(schedule, scheduler)
    assert peak.operator in {one.op.name for one in scheduler.workload.operators}
    # what backward reads is there when the loss is computed, and nothing larger than all activations together
    saved = sum(one.bytes for one in saved_tensors(graph))
    every = sum(one.tensor.bytes for one in scheduler.workload.storages.values() if one.category == ACTIVATIONS)
    assert saved <= peak.bytes <= every


def in_dram(schedule: Schedule, scheduler: Scheduler, storage: str) -> bool:
    number = scheduler.workload.storages[storage].number
    return bool((schedule.expanded.block_storage[schedule.in_dram.block] == number).any())


def test_a_dropped_tensor_inside_a_fused_group_stays_on_chip() -> None:
    """The log-softmax of a language model, 50,257 wide, is recomputed inside the group of its gradient."""
    graph = monet.training_step(monet.load_model("gpt2-mini", sequence=128), precision="bf16")
    scheduler = Scheduler(graph, monet.load_hardware("fusemax"))
    costed = ScheduledCost(scheduler, default_plan(scheduler))
    plan = CheckpointPlan.dropping(["loss.log_softmax"])
    alone_scheduler, alone = costed.schedule(plan, fused=False)
    joined_scheduler, joined = costed.schedule(plan)
    groups = [one for one in joined.plan.groups if "loss.log_softmax/again" in one.operators]
    assert len(groups) == 1
    assert "loss.log_softmax/log_softmax_gradient" in groups[0].operators
    assert in_dram(alone, alone_scheduler, "loss.log_softmax/again")
    assert not in_dram(joined, joined_scheduler, "loss.log_softmax/again")
    before, after = figures_of(alone_scheduler, alone), figures_of(joined_scheduler, joined)
    assert before.dram_bytes - after.dram_bytes >= 2 * graph.tensors["loss.log_softmax"].bytes
    assert after.latency_s < before.latency_s
