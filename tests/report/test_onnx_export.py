"""ONNX export: passes the checker and runs in onnxruntime with the numbers of the NumPy executor."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as KernelMissing

from monet.errors import MonetError, UnsupportedOperators
from monet.formats import FORMATS
from monet.frontends.zoo import ZOO
from monet.frontends.zoo.small import Lstm, Mlp
from monet.frontends.zoo.transformers import Bert, Gpt, Llama, Vit
from monet.frontends.zoo.vision import MobileNet, ResNet, UNet
from monet.graph import KINDS, Graph, GraphBuilder
from monet.numerics.executor import execute, random_values
from monet.report.onnx import export_onnx, to_model
from monet.report.onnx.model import DOMAIN
from monet.report.onnx.table import WRITERS
from monet.training.options import TrainingOptions
from monet.training.step import prepare, training_step
from tests.report.onnx_cases import Case, all_cases, rounded_attention

Array = np.ndarray[Any, Any]


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Fusions are off: some of the runtime's round fp64 scalars to fp32."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto, graph: Graph, values: dict[str, Array]) -> dict[str, Array]:
    session = session_of(model)
    feeds = {
        entry.name: np.asarray(values[entry.name]).astype(FORMATS[graph.tensors[entry.name].dtype].numpy)
        for entry in session.get_inputs()
    }
    names = [entry.name for entry in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_close(got: dict[str, Array], want: dict[str, Array], tolerance: float) -> None:
    """Relative to each tensor's largest element, or to a hundredth of the largest of all where one is but noise."""
    assert set(got) == set(want)
    floor = 1e-2 * max(float(np.max(np.abs(array), initial=0)) for array in want.values())
    for name, expected in want.items():
        assert got[name].shape == expected.shape, name
        scale = max(float(np.max(np.abs(expected), initial=0)), floor)
        error = float(np.max(np.abs(got[name].astype(np.float64) - expected), initial=0))
        assert error <= tolerance * scale, f"{name}: {error:.1e} of {scale:.1e}"


def check_step(model: Graph, tolerance: float, given: bool = False, **options: Any) -> onnx.ModelProto:
    step = training_step(model, **options)
    values = random_values(step)
    exported = to_model(step, values if given else None)
    onnx.checker.check_model(exported, full_check=True)
    rounded = {
        name: np.asarray(value).astype(FORMATS[step.tensors[name].dtype].numpy) for name, value in values.items()
    }
    assert_close(run(exported, step, values), execute(step, rounded), tolerance)
    return exported


GPT = partial(Gpt(layers=2, hidden=16, heads=2, vocabulary=40, positions=16, sequence=8).build, "gpt2", 2)
LLAMA = partial(
    Llama(layers=1, hidden=16, heads=4, kv_heads=2, intermediate=24, vocabulary=40, sequence=8).build, "llama", 2
)
BERT = partial(Bert(layers=1, hidden=16, heads=2, vocabulary=40, sequence=8).build, "bert", 2)
VIT = partial(Vit(patch=4, hidden=16, layers=1, heads=2, intermediate=24, classes=5, image=8).build, "vit", 2)
RESNET = partial(ResNet(blocks=(1, 1), classes=10, image=32).build, "resnet", 2)


def mlp(activation: str) -> partial[Graph]:
    return partial(Mlp(widths=(6, 10, 3), activation=activation).build, "mlp", 4)


IN_FP64 = {
    "mlp sgd": (mlp("silu"), {"weight_decay": 0.1}),
    "mlp adam": (mlp("tanh"), {"optimizer": "adam", "weight_decay": 0.1}),
    "gpt2 adamw": (GPT, {"optimizer": "adamw", "clip_norm": 0.05}),
    "gpt2 fused": (GPT, {"optimizer": "momentum", "attention": "fused"}),
    "gpt2 accumulated": (GPT, {"micro_batches": 2}),
    "gpt2 lora": (GPT, {"lora": 2}),
    "llama": (LLAMA, {}),
    "llama fused": (LLAMA, {"attention": "fused"}),
    "llama fused, scores kept": (LLAMA, {"attention": "fused-scores"}),
    "lstm": (partial(Lstm(hidden=6, vocabulary=20, sequence=3).build, "lstm", 2), {"optimizer": "adam"}),
}
IN_FP32 = {
    "mlp elu": (mlp("elu"), {"optimizer": "adamw", "clip_norm": 0.1}),
    "bert": (BERT, {"optimizer": "adam"}),
    "vit": (VIT, {"optimizer": "momentum"}),
    "gpt2": (GPT, {"optimizer": "adamw"}),
    "resnet cifar stem": (
        partial(ResNet(blocks=(1, 1), block="bottleneck", stem="cifar", classes=10, image=8).build, "r", 2),
        {},
    ),
    "resnet18-cifar": (partial(ZOO["resnet18-cifar"], 1, 32), {}),
    "resnet": (RESNET, {"optimizer": "momentum", "weight_decay": 0.01}),
    "resnet compact": (RESNET, {"saved": "compact"}),
    "resnet accumulated": (RESNET, {"micro_batches": 2, "clip_norm": 1.0}),
    "mobilenet": (partial(MobileNet(classes=5, image=64).build, "mobilenet", 2), {}),
    "unet": (partial(UNet(width=4, image=16).build, "unet", 2), {}),
    "unet compact": (partial(UNet(width=2, image=32).build, "unet", 1), {"saved": "compact"}),
}


@pytest.mark.parametrize("name", IN_FP64)
def test_training_step_in_fp64(name: str) -> None:
    model, options = IN_FP64[name]
    check_step(model(), 1e-8, precision="fp64", **options)


@pytest.mark.parametrize("name", IN_FP32)
def test_training_step_in_fp32(name: str) -> None:
    model, options = IN_FP32[name]
    check_step(model(), 1e-4, **options)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("model", [GPT, RESNET, LLAMA, BERT], ids=["gpt2", "resnet", "llama", "bert"])
def test_mixed_precision_step_is_well_typed(model: Any, precision: str) -> None:
    exported = to_model(training_step(model(), precision=precision, optimizer="adamw", clip_norm=1.0))
    onnx.checker.check_model(exported, full_check=True)
    load_or_lack_a_kernel(exported)


@pytest.mark.parametrize("model", [GPT, RESNET], ids=["gpt2", "resnet"])
def test_int8_inference_is_well_typed(model: Any) -> None:
    exported = to_model(prepare(model(), TrainingOptions(precision="int8")))
    onnx.checker.check_model(exported, full_check=True)
    load_or_lack_a_kernel(exported)


def load_or_lack_a_kernel(exported: onnx.ModelProto) -> None:
    """The runtime checks all types before it looks for kernels, which it does not have for every narrow type."""
    with suppress(KernelMissing):
        session_of(exported)


# --- one operator at a time -------------------------------------------------------------------------------------------

CASES = [*all_cases(), *rounded_attention()]


def test_every_kind_has_a_writer_and_a_case() -> None:
    exported = {kind.name for kind in KINDS.values() if kind.of_one_device}
    assert set(WRITERS) == exported
    assert {case.kind for case in CASES} == exported


def test_a_kind_without_a_writer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(WRITERS, "conv")
    with pytest.raises(UnsupportedOperators, match="conv: 6×, first at conv1"):
        to_model(RESNET())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_one_operator(case: Case) -> None:
    graph = case.graph()
    exported = to_model(graph)
    onnx.checker.check_model(exported, full_check=True)
    values = case.values()
    if case.kind == "reduce_extreme_gradient":  # its last operand is the extreme itself
        values["x2"] = values["x1"].max(axis=1)
    want = execute(graph, values)
    got = run(exported, graph, values)
    for name, expected in want.items():
        assert got[name].dtype == FORMATS[graph.tensors[name].dtype].numpy
        np.testing.assert_allclose(got[name].astype(expected.dtype), expected, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_one_operator_in_bf16_is_well_typed(case: Case) -> None:
    exported = to_model(case.graph("bf16"))
    onnx.checker.check_model(exported, full_check=True)
    load_or_lack_a_kernel(exported)


@pytest.mark.parametrize("policy", ["mxfp8", "mx6-square", "nvfp4"])
def test_a_step_in_shared_scales(policy: str) -> None:
    """Values on the edge between two numbers may fall to either side; here none do."""
    check_step(Mlp(widths=(20, 40, 12)).build("mlp", 9), 1e-5, True, precision=policy)


# --- what the file holds ----------------------------------------------------------------------------------------------


def test_names_metadata_and_outputs() -> None:
    step = training_step(RESNET(), optimizer="adam")
    exported = to_model(step)
    assert [node.name for node in exported.graph.node] == [op.name for op in step.ops]
    for node, op in zip(exported.graph.node, step.ops, strict=True):
        facts = {entry.key: entry.value for entry in node.metadata_props}
        assert tuple(node.output) == op.outputs
        assert (facts["monet.phase"], facts["monet.layer"], facts["monet.kind"]) == (str(op.phase), op.layer, op.kind)
    outputs = {entry.name for entry in exported.graph.output}
    assert outputs == {*step.outputs, step.loss, *step.gradients.values(), *step.updated.values()}
    described = {entry.name for part in ("input", "output", "value_info") for entry in getattr(exported.graph, part)}
    assert described == set(step.tensors)
    kinds = {node.op_type for node in exported.graph.node if node.domain == DOMAIN}
    assert {"ConvWeightGradient", "BatchNormGradient", "AdamUpdate", "MaxPoolGradient"} <= kinds
    assert kinds == {function.name for function in exported.functions}


def test_standard_operators_are_exported_as_such() -> None:
    exported = to_model(training_step(GPT()))
    plain = {node.op_type for node in exported.graph.node if not node.domain}
    assert {"LayerNormalization", "Gelu", "Softmax", "Reshape", "Transpose", "Split", "Gather", "Where"} <= plain


def test_given_values_become_initializers() -> None:
    exported = check_step(RESNET(), 1e-4, given=True, optimizer="momentum")
    assert {entry.name for entry in exported.graph.input} == {"image", "label"}


def test_constants_of_the_graph_are_initializers() -> None:
    step = training_step(LLAMA())
    exported = to_model(step)
    assert set(step.values) <= {tensor.name for tensor in exported.graph.initializer}
    assert not set(step.values) & {entry.name for entry in exported.graph.input}


def test_wrong_values_are_refused() -> None:
    graph = RESNET()
    with pytest.raises(MonetError, match="did you mean"):
        to_model(graph, {"conv1.weigth": np.zeros((64, 3, 7, 7))})
    with pytest.raises(MonetError, match="shape"):
        to_model(graph, {"conv1.weight": np.zeros((64, 3, 3, 3))})


def test_large_dropout_is_the_standard_operator() -> None:
    builder = GraphBuilder("dropout")
    x = builder.input("x", (512, 512))
    graph = builder.build([builder.emit("dropout", x, p=0.5, seed=1)])
    exported = to_model(graph)
    assert [node.op_type for node in exported.graph.node] == ["Dropout"]
    kept = run(exported, graph, {"x": np.ones((512, 512))})["dropout"]
    assert set(np.unique(kept)) == {0.0, 2.0}
    assert abs(float(kept.mean()) - 1) < 0.02


def test_equal_graphs_give_equal_files() -> None:
    first, second = (to_model(training_step(RESNET())).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


# --- files ------------------------------------------------------------------------------------------------------------


def test_file_of_a_large_model_is_small(tmp_path: Any) -> None:
    path = tmp_path / "gpt2-xl.onnx"
    export_onnx(training_step(ZOO["gpt2-xl"](1), optimizer="adamw"), path)
    assert path.stat().st_size < 4_000_000
    onnx.checker.check_model(onnx.load(path), full_check=True)
    assert os.listdir(tmp_path) == ["gpt2-xl.onnx"]


def test_unwritable_place_is_one_clear_error(tmp_path: Any) -> None:
    with pytest.raises(MonetError, match="cannot write"):
        export_onnx(mlp("silu")(), tmp_path / "missing" / "model.onnx")
    (tmp_path / "folder").mkdir()
    with pytest.raises(MonetError, match="cannot write"):
        export_onnx(mlp("silu")(), tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]
