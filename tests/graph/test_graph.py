"""Graph construction, text form, verifier, strides and aliasing."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monet import load_model, training_step
from monet.errors import ModelError, MonetError
from monet.formats import FORMATS
from monet.graph import Attributes, GraphBuilder, Role
from monet.graph.kind import KINDS, Family
from monet.graph.tensor import contiguous, view_strides
from monet.graph.verify import problems, verify

TEXT = """\
graph tiny {
  input %x: fp32[2,3]
  label %label: fp32[2,2]
  parameter %fc.weight: fp32[2,3]
  parameter %fc.bias: fp32[2]
  forward:
    %fc: fp32[2,2] = linear(%x, %fc.weight, %fc.bias) {transpose=False}
    %relu: fp32[2,2] = relu(%fc)
  loss:
    %loss.mse_loss: fp32[] = mse_loss(%relu, %label)
  backward:
    %loss/seed: fp32[] = fill() {dtype='fp32', shape=(), value=1.0}
    %loss.mse_loss/mse_loss_gradient: fp32[2,2] = mse_loss_gradient(%loss/seed, %relu, %label)
    %relu/relu_gradient: fp32[2,2] = relu_gradient(%loss.mse_loss/mse_loss_gradient, %relu)
    %fc/linear_weight_gradient: fp32[2,3] = linear_weight_gradient(%x, %relu/relu_gradient) {transpose=False}
    %fc/reduce_sum: fp32[2] = reduce_sum(%relu/relu_gradient) {axes=(0,), keepdims=False}
  update:
"""


def tiny() -> GraphBuilder:
    builder = GraphBuilder("tiny")
    x = builder.input("x", (2, 3))
    with builder.scope("fc"):
        weight, bias = builder.parameter("weight", (2, 3)), builder.parameter("bias", (2,))
    builder.emit("relu", builder.emit("linear", x, weight, bias, name="fc", transpose=False))
    return builder


def test_text_form() -> None:
    step = training_step(tiny().build(["relu"]), loss="mse")
    assert str(step).startswith(TEXT)
    assert str(step).endswith("  return %relu, %loss.mse_loss\n}")


def test_names_are_unique_and_scoped() -> None:
    builder = GraphBuilder("names")
    x = builder.input("x", (2,))
    with builder.scope("a"):
        names = [builder.emit("relu", x) for _ in range(3)]
    assert names == ["a.relu", "a.relu_2", "a.relu_3"]


def test_graphs_can_be_pickled() -> None:
    step = training_step(load_model("gpt2-mini"))
    assert str(pickle.loads(pickle.dumps(step))) == str(step)


def test_every_zoo_model_is_valid_as_a_training_step() -> None:
    from monet.frontends import ZOO

    for model in (one for one in ZOO.values() if one.family.trains):
        image = (80 if type(model.family).__name__ == "Inception" else 32) if model.image else None
        sequence = 16 if model.sequence else None
        verify(training_step(model(batch=2, image=image, sequence=sequence), optimizer="adam"))


@pytest.mark.parametrize(
    ("image", "kind"), [(224, "reshape"), (448, "avg_pool"), (32, "adaptive_avg_pool"), (300, "adaptive_avg_pool")]
)
def test_vgg_takes_any_image_size(image: int, kind: str) -> None:
    graph = load_model("vgg16", batch=1, image=image)
    pooled = max(position for position, op in enumerate(graph.ops) if op.kind == "max_pool")
    assert graph.ops[pooled + 1].kind == kind


def test_every_kind_is_complete() -> None:
    for kind in KINDS.values():
        assert kind.nest is not None or kind.family is Family.VIEW, kind.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: replace(g, ops=g.ops[::-1]), "before it is written"),
        (lambda g: replace(g, ops=(*g.ops, g.ops[-1])), "two operators are called"),
        (lambda g: replace(g, outputs=("nowhere",)), "never written"),
        (lambda g: replace(g, ops=(replace(g.ops[0], inputs=("gone",)), *g.ops[1:])), "does not exist"),
        (lambda g: replace(g, tensors={**g.tensors, "fc": replace(g.tensors["fc"], shape=(9, 9))}), "shape rule"),
    ],
)
def test_verifier_finds_what_is_wrong(change: object, message: str) -> None:
    graph = tiny().build(["relu"])
    assert problems(graph) == []
    with pytest.raises(ModelError, match=message):
        verify(change(graph))  # type: ignore[operator]


def test_verifier_finds_a_read_after_an_overwrite() -> None:
    builder = GraphBuilder("overwrite")
    x = builder.parameter("x", (4,))
    y = builder.emit("relu", builder.emit("scale", x, factor=2.0), inplace=True)
    graph = builder.build([builder.emit("add", y, "scale")])
    assert any("overwrote it in place" in line for line in problems(graph))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b: b.emit("linear", b.input("x", (2, 3)), b.parameter("w", (4, 5)), transpose=False), "must be 5 long"),
        (lambda b: b.emit("add", b.input("x", (2, 3)), b.input("y", (4,))), "do not broadcast"),
        (lambda b: b.emit("reshape", b.input("x", (2, 3)), shape=(4,)), "cannot reshape"),
        (lambda b: b.input("x", (0, 3)), "at least 1"),
        (lambda b: b.input("x", (1,), "fp33"), "did you mean"),
        (lambda b: b.emit("rellu", b.input("x", (2,))), "did you mean 'relu'"),
        (lambda b: b.emit("relu", "missing"), "nothing has produced"),
        (lambda b: [b.input("x", (1,)), b.input("x", (1,))], "two tensors"),
    ],
)
def test_building_says_what_does_not_fit(build: object, message: str) -> None:
    with pytest.raises(MonetError, match=message):
        build(GraphBuilder("bad"))  # type: ignore[operator]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_view_strides_agree_with_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    order = data.draw(st.permutations(range(len(shape))))
    array = np.arange(int(np.prod(shape))).reshape(shape).transpose(order)
    sizes = [size for size in array.shape for _ in range(1)]
    new = tuple(data.draw(st.permutations(sizes))) if data.draw(st.booleans()) else (int(np.prod(shape)),)
    strides = tuple(contiguous(shape)[axis] for axis in order)
    ours = view_strides(array.shape, strides, new)
    view = array.view()
    try:
        view.shape = new
        possible = True
    except AttributeError:
        possible = False
    assert (ours is not None) == possible
    if ours is not None:
        expected = tuple(stride // array.itemsize for stride in view.strides)
        assert all(a == b for a, b, size in zip(ours, expected, new, strict=True) if size > 1)


def test_reshape_of_a_transposed_tensor_is_a_copy() -> None:
    builder = GraphBuilder("copy")
    x = builder.emit("relu", builder.input("x", (2, 3)))
    moved = builder.emit("transpose", x, order=(1, 0))
    flat = builder.emit("reshape", moved, shape=(6,))
    assert builder.tensors[moved].storage == x
    assert builder.tensors[flat].storage == flat
    assert builder.tensors[builder.emit("reshape", x, shape=(6,))].storage == x


def test_bits_are_packed() -> None:
    assert FORMATS["bit"].bytes_of((9,)) == 2
    assert FORMATS["bool"].bytes_of((9,)) == 9


def test_attributes_are_immutable_and_hashable() -> None:
    attrs = Attributes({"b": 1, "a": (2, 3)})
    assert attrs == {"a": (2, 3), "b": 1}
    assert hash(attrs) == hash(Attributes({"a": (2, 3), "b": 1}))
    with pytest.raises(TypeError):
        attrs["c"] = 1  # type: ignore[index]


def test_roles_of_a_training_step() -> None:
    step = training_step(tiny().build(["relu"]), loss="mse", optimizer="adam")
    assert [tensor.name for tensor in step.role(Role.STATE)] == [
        f"fc.{part}.{state}" for part in ("weight", "bias") for state in ("first_moment", "second_moment", "step")
    ]
    assert step.updated["fc.weight"] == "fc.weight/adam_update"
