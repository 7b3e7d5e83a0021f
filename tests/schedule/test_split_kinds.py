"""Every kind of operator is split along what its table entry allows, and touches what it needs only."""

from __future__ import annotations

from functools import cache

import pytest

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.measurement.energy import energy_of
from monet.schedule.plan import Placement, Plan
from monet.schedule.workload import Operator, workload_of
from monet.training.step import training_step

TOKENS, WIDTH = 256, 192


@cache
def step(attention: str = "fused") -> Scheduler:
    model = load_model(f"gpt:layers=1,hidden={WIDTH},heads=12,vocabulary=5000", sequence=TOKENS, batch=1)
    return Scheduler(training_step(model, attention=attention, precision="bf16"), load_hardware("a100"))


def only(scheduler: Scheduler, kind: str) -> Operator:
    return next(operator for operator in scheduler.workload.operators if operator.op.kind == kind)


def test_fused_attention_works_on_nearly_all_multiprocessors() -> None:
    """Heads and rows at once, backward too (its dK and dV are sums over rows), or heads and keys (dQ is one)."""
    placements = step().complete(Plan()).placements
    for kind in ("attention", "attention_gradient"):
        found = placements[only(step(), kind).op.name]
        assert len(found.cores) >= 96, (kind, found.split)
        assert found.dims in ({"H", "N"}, {"H", "C"}), found.split


def test_the_loss_is_no_bottleneck() -> None:
    """One log-probability per row is read; its gradient is written by many cores."""
    loss, gradient = (only(step(), kind) for kind in ("nll_loss", "nll_loss_gradient"))
    assert loss.input_bytes == TOKENS * (4 + 8)  # a value in fp32, a label
    assert len(step().complete(Plan()).placements[gradient.op.name].cores) >= 16


def test_an_embedding_reads_the_rows_it_looks_up() -> None:
    """Not its whole table; the parts of its pieces add up to no more, as long as there are fewer than it has rows."""
    scheduler = step()
    embedding = only(scheduler, "embedding")
    assert embedding.input_bytes == TOKENS * WIDTH * 2 + TOKENS * 8
    for name in ("A1", "A2"):
        cores = tuple(core.name for core in scheduler.machine.accelerator.cores[:4])
        schedule = scheduler.schedule(Plan(placements={embedding.op.name: Placement(cores, name)}))
        (stepped,) = (found for found in schedule.expanded.operators if found.operator is embedding)
        assert 4 * stepped.costs[0].operands[0].bytes == TOKENS * WIDTH * 2
    whole = load_model("gpt:layers=1,hidden=8,heads=1,vocabulary=16", sequence=64, batch=1)
    small = next(found for found in workload_of(whole).operators if found.op.kind == "embedding")
    assert small.operands[0][0].shape == (16, 8)  # never more than there is


def test_moves_are_split() -> None:
    placements = step("explicit").complete(Plan()).placements
    for kind in ("reshape", "concat"):
        assert len(placements[only(step("explicit"), kind).op.name].cores) > 1, kind


def test_gradients_of_norms_owe_the_sums_of_their_parameters() -> None:
    """Rows may be cut, but every core then has sums of its own for the gradients of weight and bias."""
    graph = training_step(load_model("gpt:layers=1,hidden=16,heads=2,vocabulary=32", sequence=8, batch=2))
    scheduler = Scheduler(graph, load_hardware("a100"))
    norm = only(scheduler, "layer_norm_gradient")
    assert norm.splittable == frozenset()
    assert norm.summed == {"A0", "A1"}
    cores = tuple(core.name for core in scheduler.machine.accelerator.cores[:4])
    schedule = scheduler.schedule(Plan(placements={norm.op.name: Placement(cores, (("A0", 2), ("A1", 2)))}))
    (stepped,) = (found for found in schedule.expanded.operators if found.operator is norm)
    assert len(stepped.sums) == 2
    assert stepped.addition_costs
    energy = energy_of(schedule, scheduler.machine, len(scheduler.workload.operators))
    assert energy.total - energy.static == pytest.approx(float(energy.by_operator.sum()), rel=1e-9)


def test_fused_attention_is_faster_than_explicit_on_a_gpu() -> None:
    explicit, fused = (evaluate(step(how).workload.graph, load_hardware("a100")) for how in ("explicit", "fused"))
    assert fused.latency_s < explicit.latency_s


def test_a_merged_axis_is_copied_head_by_head() -> None:
    """A reshape that has to copy says which axes it is made of, so that cores can share it."""
    for operator in step("explicit").workload.operators:
        if operator.op.kind == "reshape":
            assert len(operator.nest.dims) > 1
            assert operator.splittable
            assert operator.input_bytes == operator.output_bytes == TOKENS * WIDTH * 2
