"""Loop nests mean what the operators compute: walking the nest point by point gives the executor's result."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monet.graph import KINDS, Graph, GraphBuilder, LoopNest
from monet.graph.counts import call_of, equal_classes, nest_of, signature, work_of
from monet.graph.loop_nest import Operand, index


def walk(nest: LoopNest, arrays: dict[int, np.ndarray]) -> np.ndarray:
    """Multiply-accumulate over every point; windows that reach into padding contribute nothing."""
    (written,) = nest.writes
    out = np.zeros(written.shape)
    for point in itertools.product(*(range(size) for _, size in nest.dims)):
        at = dict(zip((name for name, _ in nest.dims), point, strict=True))
        places = {}
        for operand in nest.operands:
            place = tuple(i.offset + sum(f * at[name] for name, f in i.terms) for i in operand.indices)
            if any(not 0 <= p < size for p, size in zip(place, operand.shape, strict=True)):
                break
            places[operand.name] = (operand, place)
        else:
            value = 1.0
            for operand, place in places.values():
                if not operand.written:
                    value *= arrays[operand.slot].reshape(operand.shape)[place]
            out[places[written.name][1]] += value
    return out


def one_op(kind: str, shapes: list[tuple[int, ...]], **attrs: Any) -> tuple[Graph, list[np.ndarray]]:
    builder = GraphBuilder(kind)
    names = [builder.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    graph = builder.build([builder.emit(kind, *names, **attrs)])
    generator = np.random.default_rng(0)
    return graph, [generator.standard_normal(shape) for shape in shapes]


def check(kind: str, shapes: list[tuple[int, ...]], **attrs: Any) -> None:
    graph, arrays = one_op(kind, shapes, **attrs)
    (op,) = graph.ops
    nest = nest_of(graph, op)
    assert nest is not None
    expected = KINDS[kind].evaluate(op.attrs, *arrays)
    np.testing.assert_allclose(walk(nest, dict(enumerate(arrays))).reshape(expected.shape), expected, atol=1e-12)
    assert work_of(graph, op)["mac"] == nest.points


@settings(max_examples=25, deadline=None)
@given(
    stride=st.integers(1, 3), dilation=st.integers(1, 2), padding=st.integers(0, 2), groups=st.integers(1, 2),
    taps=st.integers(1, 3), extra=st.integers(0, 2),
)  # fmt: skip
def test_convolution_family(stride: int, dilation: int, padding: int, groups: int, taps: int, extra: int) -> None:
    size = max(1, dilation * (taps - 1) + 1 - 2 * padding) + extra
    out = (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
    geometry = {"stride": (stride,), "padding": ((padding,) * 2,), "dilation": (dilation,), "groups": groups}
    x, w, y = (2, 2 * groups, size), (3 * groups, 2, taps), (2, 3 * groups, out)
    check("conv", [x, w], **geometry)
    check("conv_transpose", [y, w], spatial=(size,), **geometry)
    check("conv_weight_gradient", [x, y], taps=(taps,), **geometry)


@pytest.mark.parametrize("transpose", [True, False])
def test_linear_family(transpose: bool) -> None:
    check("linear", [(2, 3, 4), (4, 5) if transpose else (5, 4)], transpose=transpose)
    check("linear_weight_gradient", [(2, 3, 4), (2, 3, 5)], transpose=transpose)


@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_matmul(transpose_a: bool, transpose_b: bool) -> None:
    a, b = ((3, 2) if transpose_a else (2, 3)), ((4, 3) if transpose_b else (3, 4))
    check("matmul", [(2, 1, *a), (2, *b)], transpose_a=transpose_a, transpose_b=transpose_b)


def test_reduced_dimensions_of_the_three_conv_nests() -> None:
    geometry = {"stride": (1, 1), "padding": ((1, 1),) * 2, "dilation": (1, 1), "groups": 1}
    graph, _ = one_op("conv", [(2, 3, 5, 5), (4, 3, 3, 3)], **geometry)
    assert nest_of(graph, graph.ops[0]).reduced == {"C", "FY", "FX"}
    graph, _ = one_op("conv_transpose", [(2, 4, 5, 5), (4, 3, 3, 3)], spatial=(5, 5), **geometry)
    assert nest_of(graph, graph.ops[0]).reduced == {"K", "FY", "FX"}  # gather form
    strided = {**geometry, "stride": (2, 2)}
    graph, _ = one_op("conv_transpose", [(2, 4, 3, 3), (4, 3, 3, 3)], spatial=(5, 5), **strided)
    assert nest_of(graph, graph.ops[0]).reduced == {"K"}  # scatter form
    graph, _ = one_op("conv_weight_gradient", [(2, 3, 5, 5), (2, 4, 5, 5)], taps=(3, 3), **geometry)
    assert nest_of(graph, graph.ops[0]).reduced == {"N", "OY", "OX"}


def test_every_operand_stays_inside_its_dimensions() -> None:
    """Every operator of a real training step indexes only dimensions its nest has, and each index is reachable."""
    from monet import load_model, training_step

    for model in ("resnet18-cifar", "gpt2-mini", "lstm-lm", "mobilenetv2", "unet"):
        step = training_step(load_model(model, batch=2), optimizer="adam")
        for op in step.ops:
            nest = nest_of(step, op)
            if nest is None:
                continue
            tensors = (*call_of(step, op).inputs, *call_of(step, op).outputs)
            for operand in nest.operands:
                assert operand.dims <= set(nest.sizes), (op.name, str(nest))
                assert operand.written == (operand.slot >= len(op.inputs)), op.name
                assert operand.dtype == tensors[operand.slot].dtype
                elements = tensors[operand.slot].elements
                assert operand.picks or int(np.prod(operand.shape)) == elements, op.name
                assert int(np.prod(operand.shape)) <= elements, op.name


def test_canonical_form_drops_unit_dimensions_and_names() -> None:
    a, _ = one_op("linear", [(2, 3, 4), (5, 4)], transpose=False)
    b, _ = one_op("linear", [(6, 4), (5, 4)], transpose=False)
    assert nest_of(a, a.ops[0]).canonical() == nest_of(b, b.ops[0]).canonical()


def test_equal_layers_share_a_signature() -> None:
    from monet import load_model, training_step

    step = training_step(load_model("gpt2-small", sequence=64))
    blocks = [op for op in step.ops if op.name.endswith("attn.qkv")]
    assert len({signature(step, op) for op in blocks}) == 1
    assert len(equal_classes(step)) < len(step.ops) / 5


def test_text_of_a_nest_and_extent() -> None:
    i = index(("OY", 2), "FY", offset=-1)
    assert str(i) == "2OY+FY-1"
    assert i.extent({"OY": 4, "FY": 3}) == 9


@settings(max_examples=200, deadline=None)
@given(
    factors=st.lists(st.sampled_from((-2, -1, 1, 2, 3)), min_size=1, max_size=2),
    offset=st.integers(-3, 8),
    length=st.integers(1, 12),
    data=st.data(),
)
def test_a_part_touches_what_its_points_touch_in_the_whole(
    factors: list[int], offset: int, length: int, data: st.DataObject
) -> None:
    sizes = {"uv"[i]: data.draw(st.integers(1, 6)) for i in range(len(factors))}
    ranges = {}
    for name, size in sizes.items():
        start = data.draw(st.integers(0, size - 1))
        ranges[name] = start, data.draw(st.integers(start + 1, size))
    terms = tuple(zip(sizes, factors, strict=True))
    whole = LoopNest(
        tuple(sizes.items()), (Operand("x", 0, "fp32", (length,), (index(*terms, offset=offset),), False),)
    )
    (operand,) = whole.part(ranges).operands
    here = set()
    for point in itertools.product(*(range(start, end) for start, end in ranges.values())):
        position = offset + sum(factor * at for factor, at in zip(factors, point, strict=True))
        local = operand.indices[0].offset + sum(
            factor * (at - start) for factor, at, (start, _) in zip(factors, point, ranges.values(), strict=True)
        )
        if 0 <= position < length:
            assert 0 <= local < operand.shape[0]
            here.add((position, local))
    assert len({position - local for position, local in here}) <= 1  # the part is a window of the whole
    if here and all(0 <= offset + sum(map(int.__mul__, factors, ends)) < length for ends in _corners(ranges)):
        assert operand.shape[0] == max(here)[0] - min(here)[0] + 1


def _corners(ranges: dict[str, tuple[int, int]]) -> list[tuple[int, ...]]:
    return list(itertools.product(*((start, end - 1) for start, end in ranges.values())))
