"""The optimum under a peak over time: against enumeration through the transform, and its floors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from monet import load_model, training_step
from monet.frontends.zoo.small import Lstm, Mlp
from monet.frontends.zoo.transformers import Gpt
from monet.frontends.zoo.vision import ResNet
from monet.graph import Graph
from monet.graph.counts import saved_bytes
from monet.search.checkpoint.blocks import blocks_of, bound_for_plans, plan_by_blocks
from monet.search.checkpoint.liveness import lifetimes, memory_over_time, peak_of
from monet.search.checkpoint.peak import BudgetTooSmall, best_under_peak
from monet.search.checkpoint.timeline import timeline_of
from monet.transforms.checkpoint_plan import CheckpointPlan, saved_tensors
from monet.transforms.checkpoint_problem import problem_of
from monet.transforms.recompute import recompute
from tests.search.test_checkpoint_static import convolutions


def steps() -> dict[str, Graph]:
    return {
        "mlp": training_step(Mlp(widths=(5, 8, 7, 8, 6, 4), activation="silu").build("mlp", 16)),
        "convolutions": training_step(convolutions()),
        "lstm": training_step(Lstm(layers=1, hidden=8, vocabulary=6, sequence=1).build("lstm", 2)),
    }


def enumerated(step: Graph) -> list[tuple[int, int]]:
    """(peak, work) of every set of saved tensors that may be dropped, through the transform."""
    problem, names = problem_of(step), [one.storage for one in saved_tensors(step)]
    found = []
    for count in range(len(names) + 1):
        for dropped in itertools.combinations(names, count):
            plan = CheckpointPlan.dropping(dropped)
            kept, narrowed = problem.surviving(plan)
            found.append((peak_of(recompute(step, plan)).bytes, problem.cost(kept, narrowed)))
    return found


@pytest.mark.parametrize("name", ["mlp", "convolutions", "lstm"])
def test_optimum_is_no_worse_than_any_plan(name: str) -> None:
    step = steps()[name]
    every, plain = enumerated(step), peak_of(step).bytes
    assert len(every) >= 256
    solved = 0
    for share in (0.95, 0.9, 0.85, 0.8, 0.7, 0.6):
        budget = int(plain * share)
        least = min((cost for peak, cost in every if peak <= budget), default=None)
        try:
            found = best_under_peak(step, budget)
        except BudgetTooSmall:
            assert least is None
            continue
        solved += 1
        assert found.proved
        assert found.schedule_bound <= found.bound
        assert found.peak.bytes <= budget
        assert found.peak == peak_of(recompute(step, found.plan))
        # a plan may also start from a tensor that the plain step frees, which the enumeration leaves out
        assert least is None or found.cost <= least
        if least is not None and not found.plan.named("keep"):
            assert found.cost == least
    assert solved >= 2


def test_memory_over_time_follows_every_storage() -> None:
    step = training_step(ResNet(blocks=(1, 1), classes=10, image=32).build("r", 2))
    held = memory_over_time(step)
    lives = lifetimes(step)
    for at, found in enumerate(held):  # from the operator that writes it to the last one that touches it, both included
        assert found == sum(step.tensors[name].bytes for name, (first, last) in lives.items() if first <= at <= last)
    for name, (first, last) in lives.items():
        users = [at for at, op in enumerate(step.ops) if name in {step.tensors[one].storage for one in op.outputs}]
        assert users[0] == first
        assert users[-1] <= last
    turn = next(i for i, op in enumerate(step.ops) if op.phase == "backward")
    assert held[turn] >= saved_bytes(step)  # all that is saved is there when backward starts
    assert min(held) >= 0
    assert held[-1] == 0  # nothing but weights and their gradients when the last parameter is updated


@pytest.mark.parametrize(("name", "sizes"), [("resnet18", {"image": 64}), ("unet", {"image": 64}), ("gpt2-mini", {})])
def test_folding_chains_leaves_the_plain_peak_as_it_is(name: str, sizes: dict[str, int]) -> None:
    step = training_step(load_model(name, **sizes))
    timeline, problem = timeline_of(step)
    assert max(timeline.plain) == peak_of(step).bytes
    assert timeline.forward < len(problem.operators)
    assert sum(node.cost for node in timeline.nodes[: timeline.forward]) == problem.forward_cost


def test_resnet_at_sixty_and_fifty_per_cent() -> None:
    """Half of the peak costs a tenth of the forward pass, a few per cent of the step; 60 % is nearly free."""
    step = training_step(load_model("resnet18"))
    plain = peak_of(step).bytes
    sixty, fifty = (best_under_peak(step, plain * share // 100, work=(20, 0)) for share in (60, 50))
    assert sixty.proved
    assert fifty.proved
    assert 100 * sixty.share_of_step == pytest.approx(0.034, abs=0.001)
    assert 100 * fifty.share_of_step == pytest.approx(3.331, abs=0.001)
    assert np.isclose(sixty.gap, 0)


def test_an_impossible_budget_names_the_operator_and_the_missing_bytes() -> None:
    step = training_step(Gpt(layers=1, hidden=8, heads=2, vocabulary=500, positions=16, sequence=16).build("g", 1))
    logits = 16 * 500 * 4
    with pytest.raises(BudgetTooSmall, match="log_softmax_gradient alone holds") as error:
        best_under_peak(step, 3 * logits - 1000)
    assert (
        f"{1000 + int(str(error.value).split('holds ')[1].split(' ')[0].replace(',', '')) - 3 * logits:,} too many"
        in str(error.value)
    )


def test_where_no_plan_fits_the_least_peak_is_named() -> None:
    step = training_step(load_model("unet", image=32))
    plain = peak_of(step).bytes
    with pytest.raises(BudgetTooSmall, match="the least found with recomputation is") as error:
        best_under_peak(step, int(0.3 * plain))
    least = int(str(error.value).split("recomputation is ")[1].split(" ")[0].replace(",", ""))
    assert best_under_peak(step, least, work=(20, 0)).peak.bytes <= least


def test_equal_blocks_are_solved_once_and_chained() -> None:
    step = training_step(Gpt(layers=8, hidden=32, heads=2, vocabulary=50, positions=64, sequence=64).build("g", 1))
    timeline, problem = timeline_of(step, fold=False)
    blocks = blocks_of(step, problem)
    assert [sorted(one.names)[0] for one in blocks[1:-1]] == [f"h.{depth}" for depth in range(8)]
    assert len({one.signature(problem) for one in blocks[1:-1]}) == 1
    plain, costs = max(timeline.plain), []
    for share in (0.8, 0.6, 0.4):
        found = best_under_peak(step, int(plain * share))
        assert found.nodes > 200  # too deep for intervals
        assert found.peak.bytes <= found.budget
        assert found.peak == peak_of(recompute(step, found.plan))
        assert 0 <= found.bound <= found.cost
        costs.append(found.cost)
    assert costs == sorted(costs)


def test_a_chain_of_blocks_is_near_the_optimum_of_intervals() -> None:
    step = training_step(Gpt(layers=2, hidden=32, heads=2, vocabulary=50, positions=64, sequence=64).build("g", 1))
    timeline, problem = timeline_of(step, fold=False)
    for share in (0.9, 0.7):
        budget = int(max(timeline.plain) * share)
        exact = best_under_peak(step, budget, work=(2, 0))
        plan = plan_by_blocks(step, problem, budget)
        assert plan is not None
        kept, narrowed = problem.surviving(plan)
        cost = problem.cost(kept, narrowed)
        assert bound_for_plans(timeline, problem, budget) <= exact.cost + 0.5
        # intervals keep what is below a thousandth of the peak, which the chain may drop
        assert abs(cost - exact.cost) <= 0.05 * problem.forward_cost
