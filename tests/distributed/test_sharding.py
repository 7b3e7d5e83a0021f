"""Tensor ranks: which weights they share, what is refused, and that shared programs compute what one device does."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from monet.distributed import ParallelPlan, execute_plan, rank_graphs
from monet.distributed.transform.choice import candidates
from monet.distributed.transform.cuts import Cut, Cuttable
from monet.errors import OptionError
from monet.frontends import load_model
from monet.graph import Graph, GraphBuilder
from monet.graph.counts import call_of
from monet.graph.kind import Family, kind_named
from monet.numerics.executor import execute, random_values
from monet.training.losses import attach_loss
from monet.training.options import TrainingOptions
from monet.training.step import training_step
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan
from tests.distributed.proof import BATCH, MODELS, OPTIONS, difference, graphs_of

BAR = 1e-10


def with_loss(model: str) -> Graph:
    graph = load_model(model, batch=2)
    builder = GraphBuilder.resume(graph)
    return builder.build(graph.outputs, attach_loss(builder, graph.outputs[0], graph.usual_loss, None))


def cut_weights(model: str, **plan: Any) -> dict[str, tuple[int, int]]:
    """Parameters that tensor ranks share: axis and segments."""
    parts = {name: part for stage in graphs_of(model, **plan).stages for name, (part, *_) in stage.parts.items()}
    names = {tensor.name for tensor in load_model(MODELS.get(model, model), batch=BATCH).parameters}
    return {name: (part.axis, len(part.segments)) for name, part in parts.items() if name in names}


# --- what is shared ---------------------------------------------------------------------------------------------------


def test_columns_rows_heads_and_vocabulary_of_a_transformer() -> None:
    """Megatron's cut, by rules of operators alone: the joint projection in three segments, biases of rows whole."""
    found = cut_weights("gpt", tensor=2)
    block = {name.removeprefix("h.2."): cut for name, cut in found.items() if name.startswith("h.2.")}
    assert block == {
        "attn.qkv.weight": (0, 3), "attn.qkv.bias": (0, 3), "attn.proj.weight": (1, 1),
        "mlp.c_fc.weight": (0, 1), "mlp.c_fc.bias": (0, 1), "mlp.c_proj.weight": (1, 1),
    }  # fmt: skip
    assert found["wte.weight"] == (0, 1)
    assert "wpe.weight" not in found
    assert "ln_f.weight" not in found


def test_every_other_layer_of_a_perceptron_is_cut_by_columns() -> None:
    found = cut_weights("mlp:widths=6-500-500-500-8", tensor=2)
    assert found == {"0.weight": (0, 1), "0.bias": (0, 1), "2.weight": (1, 1), "4.weight": (0, 1), "4.bias": (0, 1),
                     "6.weight": (1, 1)}  # fmt: skip


def test_sets_are_closed_and_do_not_meet() -> None:
    graph = with_loss(MODELS["resnet"])
    for axes in candidates(graph):
        for name in axes.tensors:
            for op in (*graph.consumers[name], *((graph.producer[name],) if name in graph.producer else ())):
                assert op.name in axes.ops


@pytest.mark.parametrize(
    ("model", "plan", "message"),
    [
        ("gpt", {"tensor": 3}, r"tensor=3: does not divide .*of 4 \(1 left over\); 2 or 4 would"),
        ("resnet", {"tensor": 5}, r"tensor=5: does not divide .*; 4 or 8 would"),
        ("gpt", {"pipeline": 3}, r"pipeline=3: does not divide layers of 4 \(1 left over\); 2 or 4 would"),
        (
            MODELS["gpt"].replace("layers=4", "layers=6"),
            {"pipeline": 2, "interleave": 2},
            r"interleave=2: does not divide layers of a stage of 3 \(1 left over\); 1 or 3 would",
        ),
        ("gpt", {"pipeline": 2, "interleave": 4}, "is more than the 4 layers"),
        ("gpt", {"pipeline": 2, "cuts": (7,)}, r"there are 4 blocks"),
        ("gpt", {"tensor": 2, "tensor_split": "rows"}, "no input with rows"),
        ("resnet", {"tensor": 3, "tensor_split": "rows"}, r"does not divide rows of input 'image' of 16"),
        ("mlp:widths=4-8-2", {"pipeline": 4}, "is more than the 2 layers"),
    ],
)
def test_what_does_not_divide_names_what_would(model: str, plan: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        graphs_of(model, **plan)


def test_a_micro_batch_count_of_the_options_is_refused() -> None:
    with pytest.raises(OptionError, match="its own number counts"):
        graphs_of("mlp", options={"micro_batches": 2})


@pytest.mark.parametrize(
    ("before", "after", "axis", "expected"),
    [
        ((2, 8, 16), (2, 8, 4, 4), 2, Cut(2, (4,))),  # heads of features
        ((2, 8, 4, 4), (2, 8, 16), 2, Cut(2, (16,))),
        ((2, 8, 16), (16, 16), 1, Cut(0, (8, 8))),  # tokens of every sample
        ((8, 2, 16), (8, 8, 4), 2, Cut(1, (4, 4))),  # heads of every sample
        ((6, 4), (4, 6), 0, Cut(0, (4,))),  # the outermost digit that both share: two parts
    ],
)
def test_reshapes_are_digits(before: tuple[int, ...], after: tuple[int, ...], axis: int, expected: Cut) -> None:
    builder = GraphBuilder("view")
    out = builder.emit("reshape", builder.input("x", before), shape=after)
    graph = builder.build([out])
    found = Cuttable().cut(graph.ops[0], call_of(graph, graph.ops[0]), 0, Cut(axis, (before[axis],)))
    assert found is not None
    assert found.places[1] == expected


# --- that it computes the same ----------------------------------------------------------------------------------------


def test_a_vocabulary_is_filled_up() -> None:
    model = "gpt:layers=2,hidden=16,heads=4,vocabulary=131,sequence=8,positions=8"
    graphs = graphs_of(model, tensor=4)
    assert graphs.stages[0].micro.tensors["wte.weight"].shape == (33, 16)
    assert difference(model, tensor=4) <= BAR
    assert difference(model, tensor=2, pipeline=2, data=2, shard="parameters", passes=2) <= BAR


@pytest.mark.parametrize(
    "plan",
    [
        {"tensor": 2, "tensor_split": "rows"},
        {"tensor": 4, "tensor_split": "rows", "data": 2, "shard": "states"},
        {"tensor": 2, "tensor_split": "rows", "data": 2, "pipeline": 2, "passes": 2, "recompute": "full"},
    ],
)
def test_rows_of_images(plan: dict[str, Any]) -> None:
    assert difference("resnet", **plan) <= BAR


def test_rows_need_rows_of_their_neighbours() -> None:
    ops = graphs_of("resnet", tensor=2, tensor_split="rows").stages[0].micro.ops
    kinds = Counter(op.kind for op in ops)
    halos = kinds["exchange_halo"]
    assert halos == sum(
        op.kind == "conv" and not op.name.endswith("downsample.0") for op in ops if op.phase == "forward"
    )
    assert kinds["return_halo"] == halos - 1  # the image needs no gradient


@pytest.mark.slow
@pytest.mark.parametrize("plan", [{"tensor": 2}, {"tensor": 2, "tensor_split": "rows"}, {"pipeline": 2, "data": 2}])
@pytest.mark.parametrize("model", ["unet:levels=2,width=4,image=16", "vit"])
def test_other_networks(model: str, plan: dict[str, Any]) -> None:
    if model == "vit" and "tensor_split" in plan:
        pytest.skip("its rows are patches")
    assert difference(model, **plan) <= BAR


@pytest.mark.parametrize(
    "options",
    [{"attention": "fused"}, {"attention": "fused-scores"}, {"lora": 2},
     {"freeze": ("*weight",)}, {"saved": "compact", "optimizer": "momentum"},
     {"loss": "sum"}, {"loss": "mse"}],
)  # fmt: skip
def test_options_of_training(options: dict[str, Any]) -> None:
    model = MODELS["gpt"].replace("layers=4", "layers=2")
    model = model.replace(",dropout=0.1", "") if "attention" in options else model
    given = {"precision": "fp64", **options}
    plan = {"tensor": 2, "sequence_parallel": True, "data": 2, "pipeline": 2, "shard": "gradients", "passes": 2}
    assert difference(model, options=given, **plan) <= BAR


def test_gradients_in_a_format_of_their_own() -> None:
    """Weights in fp16 whose gradients are kept in fp32: 18 bytes per parameter under Adam, 16 without."""
    sizes = []
    for given in ("", "fp32"):
        options = {"precision": "fp16", "optimizer": "adam"}
        stage = graphs_of("gpt", 2, options, tensor=2, data=2, gradient_format=given).stages[0]
        roots = [tensor for name, tensor in stage.update.tensors.items() if name not in stage.update.producer]
        weights = sum(tensor.elements for tensor in roots if tensor.role == "parameter")
        sizes.append(sum(tensor.bytes for tensor in roots if tensor.shape) / weights)
    assert sizes == [16, 18]
    assert (
        BAR < difference("gpt", data=2, passes=2, shard="gradients", gradient_format="fp32") < 1e-6
    )  # of fp64 rounded


def test_a_checkpoint_plan_of_ours_by_name() -> None:
    """Dropped, paged out to the host, and narrowed; each chunk follows what it has of the plan."""
    choices = {"h.0.mlp.gelu": "recompute", "h.3.ln_2": "recompute", "h.1.attn.qkv": "offload"}
    plan = {"tensor": 2, "pipeline": 2, "passes": 2, "recompute": CheckpointPlan(choices)}
    assert difference("gpt", **plan) <= BAR
    kinds = [op.kind for stage in graphs_of("gpt", **plan).stages for op in stage.micro.ops if op.recompute]
    assert sorted(kinds) == ["gelu", "layer_norm", "replicate"]  # the last does nothing
    with pytest.raises(CheckpointError, match=r"no chunk has it; did you mean 'h.1.mlp.gelu'"):
        graphs_of("gpt", recompute=CheckpointPlan({"h.1.mlp.gelo": "recompute"}))


def test_local_batch_norm_equals_one_device_with_the_same_micro_batches() -> None:
    graphs = graphs_of("resnet", data=2, batch_norm="local")
    step = training_step(load_model(MODELS["resnet"], batch=BATCH), micro_batches=2, **OPTIONS)
    values = random_values(step)
    expected = execute(step, values)
    joined = {name: np.concatenate([values[name], values[f"{name}.1"]]) for name in ("image", "label")}
    found = execute_plan(graphs, {**values, **joined})
    for name, gradient in step.gradients.items():
        np.testing.assert_allclose(found.gradients[name], expected[gradient], atol=1e-13)
    assert found.losses[0] == pytest.approx(np.mean([expected[name] for name in step.outputs[-2:]]), rel=1e-12)


# --- imported models --------------------------------------------------------------------------------------------------


def against_one_device(graph: Graph, **plan: Any) -> tuple[float, Counter[str]]:
    """Of a model that is there already: the largest difference of a gradient, and collectives by kind."""
    graphs = rank_graphs(graph, ParallelPlan(micro_batch=BATCH, **plan), TrainingOptions(precision="fp64"))
    step = training_step(graph, precision="fp64")
    values = random_values(step)
    expected, found = execute(step, values), execute_plan(graphs, values)
    ops = graphs.stages[0].micro.ops
    kinds = Counter(op.kind for op in ops if kind_named(op.kind).family is Family.COLLECTIVE)
    pairs = ((found.gradients[name], expected[gradient]) for name, gradient in step.gradients.items())
    return max(float(np.max(np.abs(a - b))) for a, b in pairs), kinds


@pytest.mark.parametrize(
    "model", ["gpt", *(pytest.param(model, marks=pytest.mark.slow) for model in ("llama", "bert"))]
)
def test_onnx_files_are_cut_like_the_zoo(model: str, tmp_path: Path) -> None:
    from monet.report.onnx import export_onnx

    text = MODELS[model].replace(",dropout=0.1", "").replace("layers=4", "layers=2")
    path = tmp_path / "model.onnx"
    export_onnx(load_model(text, batch=BATCH), str(path))
    for sequence in (False, True):
        plan = {"tensor": 2, "sequence_parallel": sequence}
        difference_, kinds = against_one_device(load_model(str(path)), **plan)
        assert difference_ <= BAR
        assert kinds == against_one_device(load_model(text, batch=BATCH), **plan)[1]


@pytest.mark.slow
def test_a_torch_module_is_cut_the_same_way() -> None:
    torch = pytest.importorskip("torch")
    from monet.frontends.torch.module import load_module

    class Encoder(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            layer = {"dim_feedforward": 32, "dropout": 0.0, "batch_first": True, "norm_first": True}
            self.table = torch.nn.Embedding(32, 16)
            self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(16, 4, **layer) for _ in range(2))
            self.head = torch.nn.Linear(16, 32)

        def forward(self, x: Any) -> Any:
            x = self.table(x)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    graph = load_module(Encoder().train(), (torch.zeros(BATCH, 8, dtype=torch.long),))
    graphs = rank_graphs(graph, ParallelPlan(micro_batch=BATCH, tensor=2), TrainingOptions(precision="fp64"))
    assert len(graphs.stages[0].parts["layers.1.self_attn.in_proj_weight"][0].segments) == 3
    found, kinds = against_one_device(graph, tensor=2)
    assert found <= BAR
    assert kinds["all_reduce"] == 2 * 4 + 2 + 2  # of layers, of table and head, of the loss


# --- any plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_plans_of_random_transformers(seed: int) -> None:
    random = Random(seed)
    heads, layers = random.choice((4, 8)), random.choice((2, 4))
    family = random.choice(("gpt", "bert", "llama"))
    sizes = f"layers={layers},hidden={heads * 4},heads={heads},vocabulary={random.randint(24, 160)},sequence=8"
    more = {"gpt": f",positions=8,dropout={random.choice((0.0, 0.2))},tied={random.choice(('yes', 'no'))}",
            "bert": f",dropout={random.choice((0.0, 0.2))}",
            "llama": f",kv_heads={random.choice((4, heads))}"}  # fmt: skip
    tensor, pipeline = random.choice((1, 2, 4)), random.choice([n for n in (1, 2, 4) if n <= layers])
    interleave = random.choice((1, 2)) if 1 < pipeline < layers else 1
    data = random.choice((1, 2, 3))
    plan = {
        "tensor": tensor, "pipeline": pipeline, "interleave": interleave, "data": data,
        "sequence_parallel": tensor > 1 and random.random() < 0.5,
        "pipeline_schedule": "1f1b" if interleave > 1 else random.choice(("1f1b", "gpipe", "zero-bubble")),
        "shard": random.choice(("none", "states", "gradients", "parameters")),
        "recompute": random.choice(("none", "selective", "full")), "bucket_bytes": random.choice((0, 2000, 1 << 20)),
        "passes": pipeline * random.choice((1, 2)),
    }  # fmt: skip
    clip = random.choice((None, 0.01, 10.0))
    optimizer = random.choice(("sgd", "momentum", "adam", "adamw"))
    options = {"optimizer": optimizer, "clip_norm": clip, "precision": "fp64"}
    assert math.isfinite(error := difference(f"{family}:{sizes}{more[family]}", options=options, **plan))
    assert error <= BAR
