"""Recomputation: gradients equal the plain step's under any plan; what is kept is what the plan says."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from rich.console import Console

from monet import training_step
from monet.frontends.zoo.small import Lstm, Mlp
from monet.frontends.zoo.transformers import Bert, Gpt
from monet.frontends.zoo.vision import MobileNet, ResNet, UNet
from monet.graph import Graph, GraphBuilder, Phase
from monet.graph.counts import macs_by_part, macs_of, saved_bytes
from monet.graph.verify import verify
from monet.numerics import execute, random_values
from monet.report.graph_summary import render, summarise
from monet.report.onnx import to_model
from monet.transforms.checkpoint_plan import (
    CheckpointError,
    CheckpointPlan,
    checkpoint_plan_text,
    load_checkpoint_plan,
    saved_tensors,
)
from monet.transforms.recompute import Replay, corresponding_storages, recompute
from tests.report.test_onnx_export import assert_close, run

TOLERANCE = 1e-12


def resnet(batch: int = 2) -> Graph:
    return ResNet(blocks=(1, 1), classes=10, image=32).build("resnet", batch)


def gpt(batch: int = 2) -> Graph:
    return Gpt(layers=2, hidden=16, heads=2, vocabulary=40, positions=8, sequence=8).build("gpt", batch)


def dropped_out() -> Graph:
    """Dropout, an in-place activation after an addition that a view is taken of, and a branch."""
    builder = GraphBuilder("dropped-out")
    x = builder.input("x", (4, 6))
    for layer in range(3):
        with builder.scope(f"l{layer}"):
            weight = builder.parameter("weight", (6, 6))
            y = builder.emit("linear", x, weight, transpose=False)
            branch = builder.emit("scale", y, factor=0.5)
            y = builder.emit("relu", y, inplace=True)
            y = builder.emit("add", branch, y, inplace=True)
            y = builder.emit("dropout", y, p=0.3, seed=layer)
            x = builder.emit("reshape", builder.emit("reshape", y, shape=(24,)), shape=(4, 6))
    return builder.build([x])


STEPS: dict[str, Callable[[], Graph]] = {
    "resnet": lambda: training_step(resnet(), optimizer="adam"),
    "resnet-bf16-micro-batches": lambda: training_step(resnet(), precision="bf16", micro_batches=3),
    "resnet-lora": lambda: training_step(resnet(), lora=2),
    "mobilenet": lambda: training_step(MobileNet(classes=10, image=32).build("mobilenet", 2)),
    "unet": lambda: training_step(UNet(width=2, image=16).build("unet", 2)),
    "gpt": lambda: training_step(gpt(), optimizer="adamw", clip_norm=1.0),
    "gpt-fused-micro-batches": lambda: training_step(gpt(), attention="fused", micro_batches=2),
    "gpt-fused-scores": lambda: training_step(gpt(), attention="fused-scores"),
    "bert": lambda: training_step(Bert(layers=2, hidden=16, heads=2, vocabulary=40, sequence=8).build("bert", 2)),
    "lstm": lambda: training_step(Lstm(hidden=8, vocabulary=30, sequence=6).build("lstm", 2)),
    "mlp": lambda: training_step(Mlp(widths=(5, 8, 8, 4), activation="silu").build("mlp", 3)),
    "dropout-in-place": lambda: training_step(dropped_out(), loss="mse"),
    "compact": lambda: training_step(resnet(), saved="compact"),
}


def equal_results(plain: Graph, other: Graph) -> None:
    values = random_values(plain)
    expected, found = execute(plain, values), execute(other, values)
    assert plain.gradients == other.gradients
    assert set(expected) == set(found)
    for name, array in expected.items():
        scale = max(float(np.abs(array).max(initial=0)), 1e-300)
        assert float(np.abs(array - found[name]).max(initial=0)) <= TOLERANCE * scale, name


@pytest.mark.parametrize("family", STEPS)
def test_any_plan_leaves_gradients_and_statistics_as_they_are(family: str) -> None:
    step = verify(STEPS[family]())
    saved = [one.storage for one in saved_tensors(step)]
    passes = corresponding_storages(step)
    rng = np.random.default_rng(7)
    for share in (0.2, 0.6, 1.0):
        choices = {name: "recompute" for name in saved if rng.random() < share}
        if share < 1:
            choices |= {name: "narrow" for name in saved if name not in choices and rng.random() < 0.5}
        again = verify(recompute(step, CheckpointPlan(choices)))
        assert any(op.recompute for op in again.ops) == ("recompute" in choices.values())
        equal_results(step, again)
        clones = [op for op in again.ops if op.recompute]
        assert all(op.phase is Phase.BACKWARD for op in clones)
        assert len({op.name for op in clones}) == len(clones)
        gone = {twin for name, choice in choices.items() if choice == "recompute" for twin in passes[name]}
        assert not Replay(again).saved & gone
        assert saved_bytes(again) <= saved_bytes(step)


def beside_an_in_place_relu(view: bool) -> Graph:
    """A sigmoid reads (a view of) what a ReLU then overwrites; both results are needed in backward."""
    builder = GraphBuilder("shared")
    x = builder.input("x", (4, 6))
    y = builder.emit("linear", x, builder.parameter("first", (6, 6)), name="y", transpose=False)
    seen = builder.emit("reshape", y, shape=(24,)) if view else y
    gate = builder.emit("sigmoid", seen, name="gate")
    gate = builder.emit("reshape", gate, shape=(4, 6)) if view else gate
    bent = builder.emit("relu", y, name="bent", inplace=True)
    return builder.build([builder.emit("add", gate, bent)])


@pytest.mark.parametrize("view", [False, True], ids=["", "through a view"])
def test_a_clone_does_not_overwrite_what_another_clone_reads(view: bool) -> None:
    """Backward needs the ReLU first, so its clone runs before the sigmoid's: in place it would destroy its input."""
    step = verify(training_step(beside_an_in_place_relu(view), loss="sum"))
    again = recompute(step, CheckpointPlan({one.storage: "recompute" for one in saved_tensors(step)}))
    clones = {op.name: op for op in again.ops if op.recompute}
    assert {"y/again", "gate/again", "bent/again"} <= set(clones)
    order = list(clones)
    assert order.index("bent/again") < order.index("gate/again")
    shared = again.tensors[clones["bent/again"].inputs[0]].storage
    assert again.tensors[clones["gate/again"].inputs[0]].storage == shared
    assert again.tensors["bent/again"].storage != shared
    assert again.tensors["bent"].storage == again.tensors["y"].storage  # as the forward pass has it
    equal_results(step, verify(again))


def test_a_clone_overwrites_what_nothing_else_reads() -> None:
    """Room of its own is only for those that need it: alone, the clone is in place as its operator is."""
    builder = GraphBuilder("alone")
    y = builder.emit("linear", builder.input("x", (4, 6)), builder.parameter("w", (6, 6)), name="y", transpose=False)
    bent = builder.emit("relu", y, name="bent", inplace=True)
    graph = builder.build([builder.emit("linear", bent, builder.parameter("v", (6, 6)), transpose=False)])
    step = verify(training_step(graph, loss="mse"))
    again = verify(recompute(step, CheckpointPlan({one.storage: "recompute" for one in saved_tensors(step)})))
    assert again.tensors["bent/again"].storage == again.tensors["y/again"].storage
    equal_results(step, again)


def test_names_of_tensors_and_files_lead_to_the_same_plan(tmp_path: Path) -> None:
    step = training_step(resnet())
    by_tensor = CheckpointPlan({"relu": "recompute", "maxpool:indices": "narrow"})
    by_storage = CheckpointPlan({"bn1": "recompute", "maxpool:indices": "narrow"})
    assert by_tensor.checked(step) == by_storage
    assert hash(pickle.loads(pickle.dumps(by_storage))) == hash(by_storage)
    path = tmp_path / "plan.yaml"
    path.write_text(checkpoint_plan_text(by_storage))
    assert load_checkpoint_plan(str(path)) == by_storage


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recompute: [bn1, blub]", "no tensor of the graph has this name"),
        ("recompute: [layer1.0.rellu1]", "did you mean 'layer1.0."),
        ("recompute: [conv1.weight]", "backward does not read it"),
        ("recompute: bn1", "expected a list of tensor names"),
        ("recomputed: [bn1]", "did you mean 'recompute'"),
        ("recompute: [bn1]\nnarrow: [bn1]", "listed under recompute and under narrow"),
        ("- bn1", "expected lists under keep, recompute, offload, narrow"),
        ("a: [", "not YAML"),
    ],
)
def test_a_plan_that_does_not_fit_says_what_would(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint_plan(str(path)).checked(training_step(resnet()))


def test_narrowing_has_the_bytes_it_announces() -> None:
    step = training_step(resnet())
    for one in saved_tensors(step):
        narrowed = verify(recompute(step, CheckpointPlan({one.storage: "narrow"})))
        assert saved_bytes(step) - saved_bytes(narrowed) == one.bytes - one.narrowed_bytes, one
    sizes = {one.storage: (one.bytes, one.narrowed_bytes) for one in saved_tensors(step)}
    assert sizes["maxpool:indices"][0] == 8 * sizes["maxpool:indices"][1]
    assert sizes["bn1"][0] == 32 * sizes["bn1"][1]  # the max-pool only holds on to the ReLU's output


def test_recomputation_may_start_from_a_tensor_that_the_plain_step_frees() -> None:
    step = training_step(resnet())

    def repeated(plan: CheckpointPlan) -> set[str]:
        return {op.name.removesuffix("/again") for op in recompute(step, plan).ops if op.recompute}

    tail = {"layer2.0.bn2", "layer2.0.add", "layer2.0.relu2"}  # one storage, each overwrites the one before
    assert repeated(CheckpointPlan.dropping(["layer2.0.bn2"])) == tail | {"layer2.0.downsample.1"}
    plan = CheckpointPlan.dropping(["layer2.0.bn2"], keeping=["layer2.0.downsample.1"])
    assert repeated(plan) == tail
    again = recompute(step, plan)
    equal_results(step, again)
    assert saved_bytes(again) == saved_bytes(step)  # as large as what it stands for


def test_an_operator_that_writes_a_lasting_value_is_not_repeated() -> None:
    step = training_step(resnet())
    everything = recompute(step, CheckpointPlan.dropping(one.storage for one in saved_tensors(step)))
    assert saved_bytes(everything) == 0
    norms = [op for op in everything.ops if op.kind == "batch_norm" and op.recompute]
    assert norms
    assert all(len(op.inputs) == len(op.outputs) == 3 for op in norms)


@pytest.mark.parametrize("family", ["resnet", "gpt"])
def test_recomputed_steps_export_and_run_elsewhere(family: str) -> None:
    """onnxruntime runs the exported graph with clones and gives the plain step's numbers."""
    model = {"resnet": resnet, "gpt": gpt}[family]()
    # the runtime has no convolution in fp64
    step = training_step(model, precision="fp32" if family == "resnet" else "fp64")
    saved = saved_tensors(step)
    choices = {one.storage: "narrow" if one.narrowed_bytes < one.bytes else "recompute" for one in saved[::2]}
    again = recompute(step, CheckpointPlan(choices))
    assert any(op.recompute for op in again.ops)
    exported = to_model(again)
    onnx.checker.check_model(exported, full_check=True)
    values = random_values(step)
    assert_close(run(exported, again, values), execute(step, values), 2e-3 if family == "resnet" else 1e-9)


def test_recomputation_is_a_part_of_its_own() -> None:
    """Clones are neither forward nor gradients: the other parts count what they count in the plain step."""
    plain = training_step(resnet())
    plan = CheckpointPlan.dropping([one.storage for one in saved_tensors(plain)])
    again, before = recompute(plain, plan), macs_by_part(plain)
    found = macs_by_part(again)
    assert before.recomputation == 0
    assert "recomputation" not in before.as_dict()
    clones = [op for op in again.ops if op.recompute]
    assert found.recomputation == sum(macs_of(again, op) for op in clones) > 0
    assert found == replace(before, recomputation=found.recomputation)
    assert found.total == before.total + found.recomputation
    summary = summarise(again)
    assert summary["macs"]["recomputation"] == found.recomputation
    assert summary["element_operations"]["recomputation"] > 0
    shown = StringIO()
    Console(width=120, file=shown).print(render(summary))
    assert "recomputation" in shown.getvalue()
