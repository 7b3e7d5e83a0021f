"""Baselines: each is a valid plan that does what its name says, and none beats the exact optimum."""

from __future__ import annotations

import pytest

from monet import load_model, training_step
from monet.errors import MonetError
from monet.frontends.zoo.small import Mlp
from monet.frontends.zoo.transformers import Gpt
from monet.frontends.zoo.vision import ResNet
from monet.graph import Graph
from monet.graph.counts import saved_bytes
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.graph.verify import verify
from monet.search.checkpoint.static import PROOF, best_under
from monet.transforms.checkpoint_baselines import BASELINES, baseline_named, block_of
from monet.transforms.checkpoint_problem import problem_of
from monet.transforms.recompute import recompute


def steps() -> dict[str, Graph]:
    return {
        "resnet": training_step(ResNet(blocks=(2, 2), classes=10, image=32).build("r", 2)),
        "gpt": training_step(Gpt(layers=3, hidden=16, heads=2, vocabulary=40, positions=16, sequence=16).build("g", 1)),
    }


@pytest.mark.parametrize("model", ["resnet", "gpt"])
@pytest.mark.parametrize("name", [one.name for one in BASELINES])
def test_no_baseline_beats_the_optimum_at_its_bytes(model: str, name: str) -> None:
    step = steps()[model]
    problem = problem_of(step)
    plan = baseline_named(name).plan(step, problem)
    kept, narrowed = problem.surviving(plan)
    again = verify(recompute(step, plan))
    assert saved_bytes(again) == problem.bytes(kept, narrowed)
    best = best_under(problem, problem.bytes(kept, narrowed))
    assert best.cost <= problem.cost(kept, narrowed) + PROOF * problem.forward_cost


def repeated(step: Graph, name: str) -> list[str]:
    plan = baseline_named(name).plan(step, problem_of(step))
    return [op.kind for op in recompute(step, plan).ops if op.recompute]


def test_baselines_do_what_they_say() -> None:
    step = steps()["gpt"]
    assert not baseline_named("keep-all").plan(step, problem_of(step)).choices
    assert saved_bytes(recompute(step, baseline_named("recompute-all").plan(step, problem_of(step)))) == 0
    assert not any(kind_named(kind).family in MAC_FAMILIES for kind in repeated(step, "cheap-operators"))
    assert set(repeated(step, "selective-attention")) == {"matmul", "scale", "masked_fill", "softmax", "causal_mask"}


def test_blocks_are_kept_at_their_borders() -> None:
    step = training_step(load_model("gpt2-mini", sequence=64))
    problem = problem_of(step)
    kept, _ = problem.surviving(baseline_named("per-block").plan(step, problem))
    names = {problem.values[i].storage for i in kept}
    assert {f"h.{block}.add2" for block in range(6)} <= names
    assert {block_of(op) for op in step.ops if op.layer.startswith("h.")} == {f"h.{block}" for block in range(6)}


def test_square_root_segments_grow_with_the_root_of_depth() -> None:
    kept = []
    for depth in (4, 16):
        step = training_step(
            Gpt(layers=depth, hidden=16, heads=2, vocabulary=12, positions=8, sequence=8).build("g", 1)
        )
        problem = problem_of(step)
        values, _ = problem.surviving(baseline_named("sqrt-segments").plan(step, problem))
        kept.append(problem.bytes(values) / problem.keep_all_bytes)
    assert kept[1] < 0.7 * kept[0]


def test_an_unknown_baseline_names_the_nearest() -> None:
    with pytest.raises(MonetError, match="did you mean 'per-block'"):
        baseline_named("per-blok")


def test_segments_are_cut_where_a_chain_is_narrow() -> None:
    """Every third layer is narrow, so that a narrow value lies near every border; only narrow ones are kept."""
    step = training_step(Mlp(widths=(64, *(64, 4, 64) * 8, 64), activation="tanh").build("waist", 8))
    problem = problem_of(step)
    kept, _ = problem.surviving(baseline_named("sqrt-segments").plan(step, problem))
    assert len(kept) >= 4
    assert {problem.values[i].bytes for i in kept} == {8 * 4 * 4}
