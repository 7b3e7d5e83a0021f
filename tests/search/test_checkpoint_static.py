"""The exact static optimum: against exhaustive enumeration on small graphs, and against solved reference points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from monet import load_model, training_step
from monet.frontends.zoo.small import Lstm, Mlp
from monet.frontends.zoo.transformers import Gpt
from monet.frontends.zoo.vision import ResNet, UNet
from monet.graph import Graph, GraphBuilder
from monet.graph.counts import macs_of, saved_bytes
from monet.search.checkpoint.static import PROOF, best_under
from monet.transforms.checkpoint_problem import CheckpointProblem, flops_cost, problem_of
from monet.transforms.recompute import recompute

SHARES = (80, 60, 50, 40, 30, 20, 10, 5)
# Extra forward work in per cent at shares of the saved bytes: solved by HiGHS and CP-SAT on PyTorch's joint graphs.
SOLVED = {
    "resnet18": ({}, (0.04, 0.10, 0.14, 6.62, 7.01, 22.92, 42.36, 58.62)),
    "gpt2-mini": ({"sequence": 256}, (1.00, 19.49, 62.04, 62.05, 62.72, 67.80, 79.63, 85.78)),
    "gpt2-small": ({"sequence": 1024}, (0.59, 3.97, 5.66, 8.45, 27.05, 45.85, 64.86, 74.64)),
    "bert-base": ({"sequence": 128}, (0.02, 0.83, 2.65, 16.94, 31.79, 46.65, 61.50, 72.98)),
}


@pytest.mark.parametrize("name", SOLVED)
def test_optimum_equals_the_solved_reference(name: str) -> None:
    sizes, expected = SOLVED[name]
    problem = problem_of(training_step(load_model(name, batch=1, **sizes)))
    for share, percent in zip(SHARES, expected, strict=True):
        choice = best_under(problem, problem.keep_all_bytes * share // 100)
        assert choice.proved, share
        assert 100 * choice.share == pytest.approx(percent, abs=0.01), share


def convolutions() -> Graph:
    """Batch norm, a ReLU in place, max-pooling, a shortcut."""
    builder = GraphBuilder("convolutions")
    window = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
    x = builder.input("x", (2, 3, 8, 8))
    x = builder.emit("conv", x, builder.parameter("first", (4, 3, 3, 3)), groups=1, **window)
    affine = builder.parameter("weight", (4,)), builder.parameter("bias", (4,))
    x = builder.emit("relu", builder.emit("batch_norm", x, *affine, epsilon=1e-5, momentum=0.1), inplace=True)
    pool = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "ceil": False}
    x = builder.emit("max_pool", x, index_dtype="int64", **pool)
    y = builder.emit("relu", builder.emit("conv", x, builder.parameter("second", (4, 4, 3, 3)), groups=1, **window))
    x = builder.emit("reshape", builder.emit("add", x, y), shape=(2, 64))
    return builder.build([builder.emit("linear", x, builder.parameter("head", (3, 64)), transpose=False)])


def tiny_steps() -> dict[str, Graph]:
    return {
        "mlp": training_step(Mlp(widths=(5, 8, 7, 8, 6, 8, 4), activation="silu").build("mlp", 3)),
        "convolutions": training_step(convolutions()),
        "lstm": training_step(Lstm(layers=1, hidden=4, vocabulary=6, sequence=1).build("lstm", 1)),
    }


def enumerated(problem: CheckpointProblem, narrow: bool) -> list[tuple[int, int]]:
    """(bytes, work) of every selection of what may survive."""
    options: list[list[tuple[int, str]]] = []
    for i, value in enumerate(problem.values):
        read = value.needed or any(i in operator.reads for operator in problem.operators)
        if value.keepable and read:
            options.append([(i, "drop"), (i, "keep"), *([(i, "narrow")] if narrow and value.narrowable else [])])
    found = []
    for picks in itertools.product(*options):
        kept = frozenset(i for i, pick in picks if pick == "keep")
        narrowed = frozenset(i for i, pick in picks if pick == "narrow")
        found.append((problem.bytes(kept, narrowed), problem.cost(kept, narrowed)))
    return found


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("name", ["mlp", "convolutions", "lstm"])
def test_optimum_equals_enumeration(name: str, narrow: bool) -> None:
    problem = problem_of(tiny_steps()[name])
    every = enumerated(problem, narrow)
    assert len(every) >= 1000
    for share in (0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0):
        budget = int(problem.keep_all_bytes * share)
        least = min(cost for size, cost in every if size <= budget)
        choice = best_under(problem, budget, narrow)
        assert choice.cost - least <= PROOF * problem.forward_cost
        assert choice.kept_bytes <= budget
        assert choice.bound <= least + 0.5


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("model", ["resnet", "gpt", "unet"])
def test_the_transform_keeps_and_repeats_what_the_optimum_says(model: str, narrow: bool) -> None:
    step = {
        "resnet": lambda: training_step(ResNet(blocks=(1, 1), classes=10, image=32).build("r", 2)),
        "gpt": lambda: training_step(
            Gpt(layers=2, hidden=16, heads=2, vocabulary=40, positions=8, sequence=8).build("g", 2), micro_batches=2
        ),
        "unet": lambda: training_step(UNet(width=2, image=16).build("unet", 2)),
    }[model]()
    problem = problem_of(step)
    assert problem.keep_all_bytes == saved_bytes(step)
    for share in (0.75, 0.4, 0.1):
        choice = best_under(problem, int(problem.keep_all_bytes * share), narrow)
        again = recompute(step, choice.plan)
        assert saved_bytes(again) == choice.kept_bytes
        repeated = [op for op in again.ops if op.recompute and op.micro_batch == 0]
        # clones of batch norm leave the running statistics alone, which the operator's count includes
        lasting = {
            op.name: sum(step.tensors[n].elements for n in op.outputs[3:]) for op in step.ops if op.kind == "batch_norm"
        }
        views = [
            op
            for op in repeated
            if again.tensors[op.outputs[0]].storage in {again.tensors[n].storage for n in op.inputs}
        ]
        inplace = [op for op in views if op.kind in ("relu", "add", "clip")]
        work = sum(flops_cost(again, op) for op in repeated if op not in views or op in inplace)
        work += sum(lasting.get(op.name.removesuffix("/again"), 0) for op in repeated)
        assert work == choice.cost
        assert sum(2 * macs_of(again, op) for op in repeated) <= choice.cost


def test_more_memory_never_costs_more_and_narrowing_never_hurts() -> None:
    problem = problem_of(training_step(ResNet(blocks=(1, 1), classes=10, image=32).build("r", 2)))
    slack = PROOF * problem.forward_cost
    budgets = np.linspace(0, problem.keep_all_bytes, 9).astype(int)
    plain = [best_under(problem, int(budget)).cost for budget in budgets]
    narrow = [best_under(problem, int(budget), narrow=True).cost for budget in budgets]
    assert all(later <= earlier + slack for earlier, later in itertools.pairwise(plain))
    assert all(with_narrow <= without + slack for without, with_narrow in zip(plain, narrow, strict=True))
    assert plain[-1] == 0


def test_the_same_question_has_the_same_answer() -> None:
    problem = problem_of(training_step(load_model("lstm-lm", batch=1)))
    plans = {best_under(problem, problem.keep_all_bytes // 3).plan for _ in range(2)}
    assert len(plans) == 1
