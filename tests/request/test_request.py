"""A request: checked once, the same again from its JSON, and recorded by every result that can be rerun."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import monet
from monet.cli import app
from monet.errors import MonetError, OptionError
from monet.frontends import digest_of
from monet.graph import GraphBuilder
from monet.graph.rewrite import prune
from monet.report.result_file import read_result, write_result
from monet.request import Request
from monet.schedule.plan import Plan
from monet.training.optimizers import OPTIMIZERS
from monet.training.options import TrainingOptions
from monet.training.step import training_step
from monet.transforms.checkpoint_plan import CheckpointPlan
from monet.transforms.lora import add_lora
from monet.transforms.recompute import recompute
from tests.request.models import write_onnx, write_python


def rerun(result: monet.Result, tmp_path: Path) -> None:
    """What ``monet rerun`` says of a result that was written to a file."""
    write_result(result, str(tmp_path / "result.json"))
    shown = CliRunner().invoke(app, ["rerun", str(tmp_path / "result.json")])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("equal")


# --- checked once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"batch": 0}, "batch=0: at least 1 is needed"),
        ({"batch": True}, "batch=True: a whole number is needed"),
        ({"batch": 2.5}, "batch=2.5: a whole number is needed"),
        ({"learning_rate": float("nan")}, "learning_rate=nan: a finite number is needed"),
        ({"learning_rate": -1}, "learning_rate=-1: at least 0 is needed"),
        ({"clip_norm": 0}, "clip_norm=0: more than 0 is needed"),
        ({"mode": "trainig"}, "mode='trainig': allowed are training, inference; did you mean 'training'?"),
        ({"optimizer": "adm"}, "optimizer='adm': allowed are sgd, momentum, adam, adamw; did you mean 'adam'?"),
        ({"precision": "fp8"}, "precision='fp8': allowed are"),
        ({"checkpoint": "per-blok"}, "or a YAML file with a checkpoint plan; did you mean 'per-block'?"),
        ({"fusion": "atuo"}, "fusion='atuo': allowed are auto, none, or a YAML file with a plan; did you mean 'auto'?"),
        ({"phases": "foward"}, "phases='foward': allowed are forward, loss, backward, update; did you mean 'forward'?"),
        ({"dimensions": "rows"}, "dimensions='rows': write NAME=SIZE"),
        ({"dimensions": {"rows": 0}}, "dimensions='rows=0': write NAME=SIZE with a size of at least 1"),
        ({"set": "clock_hz"}, "set='clock_hz': write NAME=VALUE"),
        ({"hardware": 3}, "hardware=3: a text is needed"),
        ({"batch": 4, "micro_batches": 3}, "micro_batches=3: must divide the batch (given: 4)"),
        ({"micro_batches": 2}, "micro_batches=2: must divide the batch (given: None)"),
        ({"mode": "inference", "checkpoint": "per-block"}, "inference keeps nothing for a backward pass"),
        ({"mode": "inference", "batch": 4, "micro_batches": 2}, "inference accumulates no gradients"),
    ],
)
def test_what_cannot_be_asked_for_says_why(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        Request("mlp-cartpole", **given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--batch", "0"), "--batch 0: at least 1 is needed"),
        (("--mode", "trainig"), "--mode 'trainig': allowed are training, inference; did you mean 'training'?"),
        (("--image", "8"), "--image 8: mlp-cartpole has no such size"),
        (("--input", "2x8"), "--input '2x8': only a torch module"),
        (("--dimension", "rows"), "--dimension 'rows': write NAME=SIZE"),
        (("--set", "clock_hz"), "--set 'clock_hz': write NAME=VALUE"),
        (("--loss", "cross-entropy", "--class-axis", "7"), "--class-axis 7: the output [1, 8] has axes 0 to 1"),
        (("--freeze", "9.*"), "--freeze '9.*': matches no parameter"),
        (("--precision", "int8"), "--precision 'int8': is for inference"),
        (("--checkpoint", "missing.yaml"), "cannot read checkpoint plan"),
        (("--fusion", "missing.yaml"), "cannot read plan"),
    ],
)
def test_a_command_says_it_in_its_own_words(arguments: tuple[str, ...], said: str) -> None:
    shown = CliRunner().invoke(app, ["run", "mlp-cartpole", "--hardware", "edge-tpu", *arguments])
    assert isinstance(shown.exception, MonetError)
    assert said in str(shown.exception)


def test_without_hardware_there_is_no_accelerator() -> None:
    with pytest.raises(OptionError, match="a preset name or the path of a YAML file is needed"):
        Request("mlp-cartpole").accelerator()


# --- plain values -----------------------------------------------------------------------------------------------------


def test_every_part_of_a_request_counts_beside_the_others() -> None:
    """A step that is checkpointed, in micro-batches, of which some phases are asked for."""
    asked = Request("mlp-robot", batch=4, micro_batches=2, checkpoint="recompute-all", phases=("backward", "update"))
    whole, found = dataclasses.replace(asked, phases=()).graph(), asked.graph()
    assert {op.phase.value for op in found.ops} == {"backward", "update"}
    assert any(op.recompute for op in found.ops)
    assert {op.micro_batch for op in whole.ops} == {0, 1}
    assert whole.tensors[whole.inputs[0]].shape[0] == 2
    assert [op.name for op in found.ops] == [op.name for op in whole.ops if op.phase.value in ("backward", "update")]


def test_a_request_survives_json(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("groups: []\nprefetch: 2\n")
    request = Request(
        write_onnx(tmp_path / "net.onnx"), "edge-tpu", batch=4, micro_batches=2, dimensions="rows=2", freeze="conv.*",
        set="y_pes=2", fusion=str(tmp_path / "plan.yaml"), phases="forward,loss", checkpoint="per-block", clip_norm=1,
    )  # fmt: skip
    values = request.to_json()
    again = Request.from_json(json.loads(json.dumps(values)))
    assert again.to_json() == values
    assert again.dimensions == {"rows": 2}
    assert again.fusion == Plan(prefetch=2).to_dict()
    assert again.accelerator() == request.accelerator()
    assert again.accelerator() != Request("m", "edge-tpu").accelerator()
    assert again.model_digest == digest_of(str(request.model)) != ""


def test_a_field_that_is_none_is_an_error() -> None:
    with pytest.raises(MonetError, match="a request has no field 'batsh'; did you mean 'batch'"):
        Request.from_json({"model": "mlp-cartpole", "batsh": 2})


@pytest.mark.parametrize("model", ["resnet18", "gpt:layers=2", "nothing.onnx", "some.py:make", "folder"])
def test_only_a_file_has_a_digest(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert digest_of(model) == ""
    if model.startswith(("resnet", "gpt")):
        (tmp_path / model.partition(":")[0]).write_text("not the model that is meant")
        assert digest_of(model) == ""


# --- results rerun ----------------------------------------------------------------------------------------------------


def test_the_command_and_the_library_answer_the_same_request(tmp_path: Path) -> None:
    arguments = ["--hardware", "edge-tpu", "--batch", "8", "--optimizer", "adam", "--lora", "2"]
    arguments += ["--set", "y_pes=2", "--fusion", "none"]
    path = tmp_path / "run.json"
    shown = CliRunner().invoke(app, ["run", "mlp-cartpole", *arguments, "--json", str(path)])
    assert shown.exit_code == 0, shown.output
    ran = read_result(str(path))
    step = monet.training_step(monet.load_model("mlp-cartpole", batch=8), optimizer="adam", lora=2)
    called = monet.evaluate(step, monet.load_hardware("edge-tpu", {"y_pes": 2}), fusion="none")
    asked = Request("mlp-cartpole", "edge-tpu", batch=8, optimizer="adam", set={"y_pes": 2}, lora=2, fusion="none")
    answered = asked.evaluate()
    assert called.inputs == answered.inputs == ran.inputs
    assert called.ticks == answered.ticks == ran.ticks
    assert called.inputs["set"] == {}  # in the description
    rerun(called, tmp_path)


def hand_built() -> monet.Graph:
    builder = GraphBuilder("by-hand")
    x, w = builder.input("x", (4, 16)), builder.parameter("w", (8, 16))
    return builder.build([builder.emit("relu", builder.emit("linear", x, w, transpose=False))])


def cartpole(**options: Any) -> monet.Graph:
    return monet.training_step(monet.load_model("mlp-cartpole", batch=4), **options)


def with_plan() -> monet.Graph:
    step = cartpole()
    return recompute(step, CheckpointPlan({"1": "recompute"}))


GRAPHS = {
    "a zoo model": (cartpole, True),
    "a forward pass": (lambda: monet.load_model("mlp-cartpole", batch=4), True),
    "all options": (lambda: cartpole(optimizer="adamw", learning_rate=0.1, freeze=("0.*",), saved="compact"), True),
    "micro-batches": (lambda: cartpole(micro_batches=2, precision="bf16"), True),
    "a checkpoint plan": (with_plan, True),
    "an optimizer of its own": (lambda: cartpole(optimizer=dataclasses.replace(OPTIMIZERS["adam"], rate=0.5)), False),
    "built by hand": (hand_built, False),
    "built by hand, trained": (lambda: training_step(hand_built(), loss="sum"), False),
    "another transform": (lambda: training_step(add_lora(monet.load_model("mlp-cartpole"), 2, heads=True)), False),
    "changed by hand": (lambda: dataclasses.replace(cartpole(), ops=prune(cartpole()).ops), False),
    "a plan upon a plan": (lambda: recompute(with_plan(), CheckpointPlan({"3": "recompute"})), False),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_results_of_the_library_rerun(name: str, tmp_path: Path) -> None:
    make, has_recipe = GRAPHS[name]
    graph = make()
    assert (graph.recipe is not None) == has_recipe
    result = monet.evaluate(graph, monet.load_hardware("edge-tpu"))
    assert isinstance(result.inputs["model"], str) == has_recipe
    assert str(Request.of(result).graph()) == str(graph)
    rerun(result, tmp_path)


def test_a_result_of_a_torch_module_reruns_without_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from monet.frontends.torch import load_module

    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    step = monet.training_step(load_module(module, (torch.zeros(2, 8),)), optimizer="adam")
    rerun(monet.evaluate(step, monet.load_hardware("edge-tpu")), tmp_path)


def test_a_result_with_plan_phases_and_allocation_reruns(tmp_path: Path) -> None:
    hardware = monet.load_hardware("edge-tpu")
    first = monet.evaluate(cartpole(), hardware)
    plan = Plan.from_dict(first.plan)
    placed = {"0": {"cores": ["pe[3,3]"]}}
    for result in (
        monet.evaluate(cartpole(), hardware, plan, boundary="dram"),
        monet.evaluate(cartpole(), hardware, first.plan),
        monet.evaluate(cartpole(), hardware, allocation=placed, fusion="none", objective="energy"),
        monet.evaluate(cartpole(), hardware, phases=["forward", "loss"]),
        monet.evaluate(hand_built(), hardware, fusion="none", boundary="dram"),
    ):
        rerun(result, tmp_path)
    assert monet.evaluate(cartpole(), hardware, plan, boundary="dram").plan["boundary"] == "dram"
    assert monet.evaluate(cartpole(), hardware, allocation=placed).plan["allocation"]["0"] == placed["0"]


def test_a_file_that_has_changed_is_not_rerun(tmp_path: Path) -> None:
    model = write_python(tmp_path / "two.py")
    result = Request(model, "edge-tpu", inputs="2x8").evaluate()
    rerun(result, tmp_path)
    (tmp_path / "two.py").write_text((tmp_path / "two.py").read_text().replace("16", "32"))
    with pytest.raises(MonetError, match="the file has changed since the result was made"):
        Request.of(result).evaluate()


def test_hardware_without_a_description_is_said_to_be_that(tmp_path: Path) -> None:
    hardware = dataclasses.replace(monet.load_hardware("edge-tpu"), other_area_m2=1e-6)
    result = monet.evaluate(cartpole(), hardware)
    with pytest.raises(MonetError, match="its hardware was not made from a description"):
        Request.of(result)


def test_a_whole_step_is_not_trained_again() -> None:
    result = monet.evaluate(dataclasses.replace(cartpole()), monet.load_hardware("edge-tpu"))
    with pytest.raises(OptionError, match="optimizer='adam': mlp-cartpole is a whole training step already"):
        dataclasses.replace(Request.of(result), optimizer="adam").graph()
    with pytest.raises(OptionError, match="batch=2: the sizes of a graph are its own"):
        dataclasses.replace(Request.of(result), batch=2).graph()


def test_a_graph_as_model_is_trained_as_asked_for() -> None:
    from monet.graph.document import graph_document

    request = Request(graph_document(hand_built()), "edge-tpu", loss="sum", optimizer="adam")
    assert str(request.graph()) == str(training_step(hand_built(), loss="sum", optimizer="adam"))
    kept = Request(graph_document(hand_built()), mode="inference").graph()
    assert str(kept) == str(hand_built())


def test_options_of_a_step_are_those_of_a_request() -> None:
    names = {one.name for one in dataclasses.fields(TrainingOptions)}
    assert names < {one.name for one in dataclasses.fields(Request)}
