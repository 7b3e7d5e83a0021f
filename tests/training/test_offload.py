"""Pages: what goes to a host and comes back is what it was, and comes when a plan lets it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
import yaml

import monet
from monet.graph import Graph
from monet.graph.op import Op, Phase
from monet.graph.verify import verify
from monet.numerics.executor import execute, random_values
from monet.schedule.workload import workload_of
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan, checkpoint_plan_text, saved_tensors
from monet.transforms.offload import ahead_of, late_operators, trips_of
from monet.transforms.recompute import recompute

MODELS = {
    "mlp-robot": {"batch": 4},
    "resnet:blocks=1-1,stem=cifar,classes=10,image=16": {"batch": 2},
    "gpt:layers=2,hidden=32,heads=4,vocabulary=50": {"sequence": 8},
    "llama:layers=1,hidden=32,heads=4,vocabulary=50": {"sequence": 8},
}


def step_of(model: str, **options: int) -> Graph:
    return monet.training_step(monet.load_model(model, **MODELS[model]), **options)


def all_paged(graph: Graph, ahead: int | None = None) -> Graph:
    names = [saved.storage for saved in saved_tensors(graph)]
    plan = CheckpointPlan(dict.fromkeys(names, "offload"), dict.fromkeys(names, ahead) if ahead else {})
    return verify(recompute(graph, plan))


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_everything_away_changes_no_value(model: str, passes: int) -> None:
    plain = step_of(model, micro_batches=passes)
    paged, values = all_paged(plain), random_values(plain)
    expected, found = execute(plain, values), execute(paged, values)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(array, found[name])
    out = [op for op in paged.ops if op.kind == "page_out"]
    assert len(out) == passes * len(saved_tensors(plain))
    assert saved_tensors(paged) == () or not {op.inputs[0] for op in out} & {s.tensor for s in saved_tensors(paged)}


def test_recomputed_and_narrowed_and_paged_together() -> None:
    plain = step_of("resnet:blocks=1-1,stem=cifar,classes=10,image=16")
    names = [saved.storage for saved in saved_tensors(plain)]
    plan = CheckpointPlan({name: ("recompute", "offload", "narrow", "keep")[i % 4] for i, name in enumerate(names)})
    mixed, values = verify(recompute(plain, plan)), random_values(plain)
    expected, found = execute(plain, values), execute(mixed, values)
    for name, array in expected.items():
        np.testing.assert_allclose(array, found[name], rtol=1e-12, atol=1e-12)
    assert {"page_out", "page_in"} <= {op.kind for op in mixed.ops}
    assert any(op.recompute for op in mixed.ops)


@pytest.mark.parametrize("ahead", [1, 4, 1000])
def test_a_page_is_let_in_so_many_operators_before_its_reader(ahead: int) -> None:
    plain = step_of("gpt:layers=2,hidden=32,heads=4,vocabulary=50")
    graph = all_paged(plain, ahead)
    place = {plain.ops[index].name: number for number, index in enumerate(late_operators(plain))}
    for page in (op for op in graph.ops if op.kind == "page_in"):
        reader = min(place[op.name] for op in executed_readers(graph, page.name, place))
        if len(page.inputs) > 1:
            trigger = graph.producer[page.inputs[1]]
            assert trigger.phase is Phase.BACKWARD
            assert place[trigger.name] == max(0, reader - ahead)
        else:
            assert reader == 0


def executed_readers(graph: Graph, name: str, executed: Collection[str]) -> list[Op]:
    found = []
    for op in graph.consumers[name]:
        if op.name in executed:
            found.append(op)
        else:
            found += [reader for output in op.outputs for reader in executed_readers(graph, output, executed)]
    return found


@pytest.mark.parametrize("takes", [2.0, 5.0])
def test_pages_come_as_late_as_one_after_another_allows(takes: float) -> None:
    """Operators begin a second apart, pages take longer: each is done when it is read, and when the next is to begin;
    at five seconds a page they queue."""
    graph = step_of("mlp-robot")
    trips = trips_of(graph, ["1", "3", "5"])
    begins = [float(number) for number in range(len(graph.ops))]
    ahead = ahead_of(graph, trips, begins, [takes] * 3)
    late, busy = late_operators(graph), float("inf")
    for trip in reversed(trips):
        busy = min(busy, begins[trip.reader]) - takes
        trigger = late[max(0, late.index(trip.reader) - ahead[trip.storage])]
        assert begins[trigger] + 1 <= busy or trigger == late[0]
        assert begins[trigger] + 2 > busy  # no operator later
    usual = [op for op in all_paged(graph).ops if op.kind == "page_in"]
    assert len(usual) == len(saved_tensors(graph))


def test_pages_are_of_the_micro_batch_that_they_belong_to() -> None:
    graph = all_paged(step_of("mlp-robot", micro_batches=2))
    pages = {op.outputs[0]: op for op in graph.ops if op.kind in ("page_out", "page_in")}
    assert {page.micro_batch for page in pages.values()} == {0, 1}
    for page in pages.values():
        beside = graph.producer[page.inputs[0]] if page.kind == "page_out" else graph.consumers[page.outputs[0]][0]
        assert page.micro_batch == beside.micro_batch


def test_pages_come_by_what_operators_move_meanwhile() -> None:
    """Where a plan does not say when: operators take their bytes' time, views none, pages 32 times theirs."""
    plain = step_of("gpt:layers=2,hidden=32,heads=4,vocabulary=50")
    executed = {operator.op.name for operator in workload_of(plain).operators}
    begins, moved = list[float](), 0.0
    for op in plain.ops:
        begins.append(moved)
        if op.name in executed:
            moved += sum(plain.tensors[name].bytes for name in {*op.inputs, *op.outputs})
    trips = trips_of(plain, [saved.storage for saved in saved_tensors(plain)])
    ahead = ahead_of(plain, trips, begins, [32.0 * trip.value.bytes for trip in trips])
    by_hand = recompute(plain, CheckpointPlan(dict.fromkeys(ahead, "offload"), ahead))
    assert len(executed) < len(plain.ops)
    assert all_paged(plain).ops == verify(by_hand).ops


def test_when_pages_come_stands_in_files() -> None:
    plan = CheckpointPlan.from_dict({"offload": {"a": 3, "b": None}})
    assert plan.pages == {"a": 3, "b": None}
    assert CheckpointPlan.from_dict(plan.to_dict()) == plan
    assert CheckpointPlan.from_dict(yaml.safe_load(checkpoint_plan_text(plan))) == plan
    assert plan != CheckpointPlan.from_dict({"offload": ["a", "b"]})
    for bad in (-1, 0, True, "two", 1.5, [1]):
        with pytest.raises(CheckpointError, match=r"offload: a: .* a number of operators, 1 or more"):
            CheckpointPlan.from_dict({"offload": {"a": bad}})


def test_what_backward_does_not_read_stays() -> None:
    plain = step_of("mlp-robot")
    assert trips_of(plain, ["6"])
    assert not trips_of(plain, ["nothing"])
    with pytest.raises(CheckpointError, match="no tensor of the graph"):
        recompute(plain, CheckpointPlan({"nothing": "offload"}))
