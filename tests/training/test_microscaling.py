"""Policies of microscaling training as graph transforms: how many copies there are, what is kept, what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monet
from monet.errors import MonetError
from monet.formats import FORMATS
from monet.frontends import load_model
from monet.graph import Graph, GraphBuilder, Phase, Role
from monet.graph.counts import saved_for_backward
from monet.graph.verify import verify
from monet.hardware.loading import describe_text
from monet.hardware.resolve import resolve
from monet.mapping.text.operator_arguments import operator_nest, with_formats
from monet.numerics import execute
from monet.schedule.plan import Group, Plan
from monet.schedule.planning.grouping import tiled_groups
from monet.schedule.workload import workload_of
from monet.search.checkpoint.liveness import peak_of
from monet.transforms.precision import POLICIES, precision_named, precision_of, precision_values
from tests.schedule.test_grouped_format import HARDWARE

MLP = "mlp:widths=64-128-96-32"
PRODUCTS = ("linear", "linear_weight_gradient", "conv", "conv_transpose", "conv_weight_gradient", "matmul")


def step_in(policy: Any, model: str = MLP, batch: int = 64, **options: Any) -> Graph:
    return verify(monet.training_step(load_model(model, batch=batch), precision=policy, **options))


@pytest.mark.parametrize(("family", "less"), [("mxfp8", 0.508), ("mxfp6", 0.510), ("mxfp4", 0.515)])
def test_one_square_copy_takes_half_of_two_vector_copies(family: str, less: float) -> None:
    """All operands of a network whose every layer has all three products. Tolerance: what the figure is rounded to."""
    vector, square = (step_in(name, f"{MLP},input_gradient=yes") for name in (family, f"{family}-square"))
    sizes = []
    for step, many in ((vector, 2), (square, 1)):
        operands = {name for op in step.ops if op.kind in PRODUCTS for name in op.inputs[:2]}
        assert len(operands) == 3 * 3 * many  # inputs, weights and gradients of three layers
        assert operands == {op.outputs[0] for op in step.ops if op.kind == "quantize"}
        for name in operands:  # nothing is lost to padding
            tensor = step.tensors[name]
            group = FORMATS[tensor.dtype].group
            assert group is None or group.padded(tensor.shape) == math.prod(tensor.shape)
        sizes.append(sum(step.tensors[name].bytes for name in operands))
    assert 1 - sizes[1] / sizes[0] == pytest.approx(less, abs=0.0005)
    assert peak_of(square).bytes < peak_of(vector).bytes


def test_the_transpose_of_a_square_is_read_where_it_lies() -> None:
    step = step_in("mxfp8-square")
    forward, gradient = (
        next(op for op in step.ops if op.layer == "2" and op.kind == "linear" and op.phase is phase)
        for phase in (Phase.FORWARD, Phase.BACKWARD)
    )
    assert forward.inputs[1] == gradient.inputs[1]
    assert forward.attrs["transpose"] != gradient.attrs["transpose"]
    turned = GraphBuilder("turned")
    x = turned.input("x", (16, 24), "mxfp8_e4m3[8x8]")
    y = turned.emit("transpose", x, order=(1, 0))
    assert turned.tensors[y].storage == x
    assert turned.tensors[y].dtype == "mxfp8_e4m3[8x8]"
    z = turned.emit("transpose", turned.input("z", (16, 24), "mxfp8_e4m3"), order=(1, 0))
    assert turned.tensors[z].dtype == "mxfp8_e4m3[32x1]"


def test_only_operands_of_products_are_narrow() -> None:
    step = step_in("mxfp8", optimizer="adam")
    for op in step.ops:
        narrow = {name for name in op.inputs if step.tensors[name].dtype.startswith("mx")}
        if op.kind in PRODUCTS:
            assert narrow == set(op.inputs[:2])
            assert step.tensors[op.outputs[0]].dtype == "fp32"
        else:
            assert not narrow
    assert all(tensor.dtype == "fp32" for tensor in step.parameters)


@pytest.mark.parametrize(
    ("keep", "waiting"),
    [("both", {"mxfp8_e4m3[32x1]"}), ("narrow", {"mxfp8_e4m3[1x32]"}), ("wide", {"fp32"})],
)
def test_what_waits_for_backward(keep: str, waiting: set[str]) -> None:
    """Of a layer's input, which silu's gradient does not read: that of the first layer, and those behind silu."""
    step = step_in({"like": "mxfp8", "keep": {"inputs": keep, "weights": "wide"}})
    read = {op.inputs[0] for op in step.ops if op.phase is Phase.BACKWARD and op.kind == "silu_gradient"}
    kept = {one.tensor.dtype for one in saved_for_backward(step) if one.name not in read and len(one.tensor.shape) == 2}
    assert {dtype for dtype in kept if dtype != "fp32"} | ({"fp32"} if keep == "wide" else set()) == waiting


@pytest.mark.parametrize("inputs", ["both", "wide"])
@pytest.mark.parametrize("weights", ["both", "wide"])
def test_inputs_and_weights_are_kept_each_by_its_own_word(inputs: str, weights: str) -> None:
    """A copy for backward is made in the forward pass if both are kept, else when backward asks for it."""
    step = step_in({"like": "mxfp8", "keep": {"inputs": inputs, "weights": weights}}, "mlp:widths=64-64-64-64")
    made: dict[tuple[bool, Phase], int] = {}
    for op in step.ops:
        if op.kind == "quantize":
            of = step.storage_of(op.inputs[0]).role
            if of is Role.GRADIENT or "gradient" in op.inputs[0]:
                continue
            key = of is Role.PARAMETER, op.phase
            made[key] = made.get(key, 0) + 1
    # forward: one copy of each of three; backward: two weights (the first layer's input has no gradient), three inputs
    assert made[True, Phase.FORWARD] == (5 if weights == "both" else 3)
    assert made.get((True, Phase.BACKWARD), 0) == (0 if weights == "both" else 2)
    assert made[False, Phase.FORWARD] == (6 if inputs == "both" else 3)
    assert made.get((False, Phase.BACKWARD), 0) == (0 if inputs == "both" else 3)


def test_gradients_have_formats_of_their_own_and_layers_are_exempt() -> None:
    step = step_in({"like": "mxfp8-mixed", "exempt": ["first", "6"]}, "mlp:widths=64-64-64-64-64")
    by_layer = {
        op.layer: [step.tensors[name].dtype for name in op.inputs[:2]]
        for op in step.ops
        if "weight_gradient" in op.kind
    }
    assert by_layer["0"] == by_layer["6"] == ["fp32", "fp32"]
    assert by_layer["2"] == ["mxfp8_e4m3[32x1]", "mxfp8_e5m2[32x1]"]


def test_words_exempt_what_they_mean() -> None:
    gpt = load_model("gpt2-mini", batch=1, sequence=8)
    step = monet.training_step(gpt, precision={"like": "mxfp8", "exempt": ["embeddings", "norms"]})
    wide = {op.layer for op in step.ops if op.kind == "linear" and step.tensors[op.inputs[0]].dtype == "fp32"}
    assert wide == {"lm_head"}  # its weight is the table of tokens


def test_one_operator_is_mapped_in_the_formats_of_its_product() -> None:
    policy = precision_named("mxfp8-mixed-square").products
    assert policy is not None
    nest = operator_nest("conv_weight_gradient", "N=16,K=16,C=24,OY=4,OX=4,FY=3,FX=3", "fp32")
    roles = ("input", "gradient")
    found = with_formats(nest, tuple(policy.format_of("weight_gradient", role) for role in roles))  # type: ignore[arg-type]
    assert [operand.dtype for operand in found.operands] == [
        "mxfp8_e4m3[8x8x1x1]", "fp32", "mxfp8_e5m2[8x8x1x1]",
    ]  # fmt: skip
    runs = with_formats(operator_nest("matmul", "B=2,N=8,K=16,C=24", "fp32"), ("mxint8", "mxint8"))
    assert [operand.dtype for operand in runs.reads] == ["mxint8[1x32]", "mxint8[32x1]"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"like": "mxfp9"}, "like 'mxfp9'.*did you mean"),
        ({"like": "mxfp8", "exempt": ["layer7"]}, "exempt 'layer7': no layer of .* is called so"),
        ({"forward": {"input": "fp16"}}, r"forward.input: fp16 shares no scales; allowed are mxfp8_e5m2"),
        ({"forward": {"gradient": "mx9"}}, "forward.gradient 'gradient': allowed: input, weight"),
        ({"forward": {"input": "mxfp8_e4m3[8x4]"}}, "a group is 1x16, 1x32"),
        ({"like": "mxfp8", "padding": "refused"}, r"padding: 4: .* does not divide into groups"),
        ({"like": "mxfp8", "keep": {"inputs": "all"}}, "keep.inputs 'all'"),
        ({"like": "mxfp8", "accumulator_bits": 60}, "accumulator_bits: a whole number from 1 to 52"),
        ({"like": "mxfp8", "wide": "int8"}, "wide 'int8': allowed are fp64"),
        ({"like": "mxfp8", "exempts": []}, "unknown key 'exempts'.*did you mean 'exempt'"),
    ],
)
def test_policies_that_cannot_be_say_why(policy: dict[str, Any], said: str) -> None:
    with pytest.raises(MonetError, match=said):
        step_in(policy, "mlp:widths=64-128-96-36")


def test_a_policy_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("like: mxfp8-square\nwide: bf16\nmaster: fp32\nforward: {weight: 'mxfp8_e5m2[16x16]'}\n")
    request = monet.Request(MLP, batch=8, precision=str(path))
    step = request.graph()
    assert step.recipe is not None
    recorded = step.recipe.values["precision"]
    assert recorded["forward"] == {"input": "mxfp8_e4m3[8x8]", "weight": "mxfp8_e5m2[16x16]"}
    again = monet.Request(MLP, batch=8, precision=recorded).graph()
    assert str(again) == str(step)
    assert request.inlined().precision == recorded
    for name, policy in POLICIES.items():
        assert precision_named(precision_values(policy)) == policy
        if policy.products:
            values = precision_values(precision_of({"name": "other", "like": name}))
            assert precision_named(values).products == policy.products


def test_values_are_rounded_once_by_the_rules_of_their_operator() -> None:
    """By the floor rule, which a second rounding would take, both saturate at 1.75."""
    builder = GraphBuilder("once")
    narrow = builder.emit("quantize", builder.input("x", (2, 32)), dtype="mxfp8_e4m3[1x32]", rule="round-up")
    values = np.stack([np.full(32, 1.9375), np.full(32, 1.875)])
    for compute in (None, np.float64):
        (found,) = execute(builder.build([narrow]), {"x": values}, compute=compute).values()
        assert set(found[0]) == {2.0}
        assert set(found[1]) == {1.875}


def test_a_narrow_accumulator_is_a_plain_loops() -> None:
    generator = np.random.default_rng(3)
    left, right = generator.standard_normal((3, 9)), generator.standard_normal((9, 2))
    builder = GraphBuilder("product")
    a, b = builder.input("a", (3, 9)), builder.input("b", (9, 2))
    attrs: dict[str, Any] = {"transpose_a": False, "transpose_b": False, "accumulator": (5, 4)}
    graph = builder.build([builder.emit("matmul", a, b, **attrs)])
    (ours,) = execute(graph, {"a": left, "b": right}).values()
    for row, column in np.ndindex(3, 2):
        total = 0.0
        for start in (0, 4, 8):  # four products at a time, then five bits behind the leading one
            total += sum(left[row, at] * right[at, column] for at in range(start, min(start + 4, 9)))
            fraction, exponent = math.frexp(total)
            total = math.ldexp(round(math.ldexp(fraction, 6)), exponent - 6)
        assert ours[row, column] == total


def test_micro_batches_share_the_copies_of_weights() -> None:
    once, twice = step_in("mxfp8"), step_in("mxfp8", micro_batches=2)
    weights = [
        sum(op.kind == "quantize" and step.storage_of(op.inputs[0]).role == "parameter" for op in step.ops)
        for step in (once, twice)
    ]
    assert weights[0] == weights[1]


def test_a_core_with_rates_runs_it_and_others_say_what_they_have() -> None:
    text = HARDWARE.replace("FORMAT*plain8: {energy_j: 1 pJ}", "fp32: {}").replace(
        "vector: {lanes: 8, dtypes: {FORMAT: {energy_j: 1 pJ}, fp32: {}}}", "vector: {lanes: 8, dtypes: [fp32, int64]}"
    )
    square = resolve(describe_text(text.replace("FORMAT", "'mxfp8_e4m3[8x8]'")))
    anything = resolve(describe_text(text.replace("FORMAT", "mxfp8_e4m3")))
    for hardware, policy in ((square, "mxfp8-square"), (anything, "mxfp8"), (anything, "mxfp8-square")):
        result = monet.evaluate(step_in(policy), hardware)
        assert result.feasible, result.reason
        assert {row.kind for row in result.operators} >= {"quantize", "linear"}
    refused = monet.evaluate(step_in("mxfp8"), square)
    assert "no rate for mxfp8_e4m3[1x32]×mxfp8_e4m3[1x32]; it supports: mxfp8_e4m3[8x8]×mxfp8_e4m3[8x8]" in str(
        refused.reason
    )


def test_tiles_of_a_fusion_group_end_where_groups_end() -> None:
    """silu and the copy of its result, cut into tiles of 10 rows: tiles have 16, so that a square is in one of them."""
    step = step_in("mxfp8-square")
    names = ("1", next(op.name for op in step.ops if op.kind == "quantize" and op.inputs[0] == "1"))
    workload = workload_of(step)
    (tiled,) = [made for made in tiled_groups(workload, Plan(groups=(Group(names, (("A0", 10),)),))) if made.held]
    for ranges in tiled.tiles.values():
        assert [edges.tolist() for edges in ranges["A0"]] == [[0, 16, 32, 48], [16, 32, 48, 64]]
