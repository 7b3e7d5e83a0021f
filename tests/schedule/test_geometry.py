"""Which blocks of a storage a step touches through a view: against every element's own address."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from monet.graph.builder import GraphBuilder
from monet.graph.loop_nest import LoopNest, Operand, index
from monet.graph.tensor import Tensor
from monet.schedule.expansion.geometry import Grid, make_steps, touched_blocks


def view(random: Random, builder: GraphBuilder, name: str) -> str:
    """The same elements, or a part of them, with other axes."""
    shape = builder.tensors[name].shape
    kind = random.choice(("transpose", "slice", "split", "merge", "part"))
    axis = random.randrange(len(shape))
    if kind == "transpose":
        return builder.emit("transpose", name, order=tuple(random.sample(range(len(shape)), len(shape))))
    if kind == "slice" and shape[axis] > 1:
        start = random.randrange(shape[axis])
        stop, step = random.randint(start + 1, shape[axis]), random.choice((1, 1, 2))
        return builder.emit("slice", name, axes=(axis,), starts=(start,), stops=(stop,), steps=(step,))
    if kind == "split" and shape[axis] > 1:
        first = random.randrange(1, shape[axis])
        return random.choice(builder.emit_all("split", name, axis=axis, sizes=(first, shape[axis] - first)))
    if kind == "merge" and axis > 0:
        return builder.emit(
            "reshape", name, shape=(*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :])
        )
    if kind == "part" and len(shape) < 5:
        for many in (2, 3):
            if shape[axis] % many == 0:
                return builder.emit(
                    "reshape", name, shape=(*shape[:axis], many, shape[axis] // many, *shape[axis + 1 :])
                )
    return name


def addresses(tensor: Tensor) -> np.ndarray:
    """Where every element lies in its storage."""
    found = np.full(tensor.shape, tensor.offset)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        found = found + (np.arange(size) * stride).reshape([-1 if a == axis else 1 for a in range(len(tensor.shape))])
    return found


@pytest.mark.parametrize("seed", range(300))
def test_a_step_touches_the_blocks_its_elements_lie_in(seed: int) -> None:
    random = Random(seed)
    builder = GraphBuilder("views")
    shape = tuple(random.choice((2, 3, 4, 6)) for _ in range(random.randint(1, 3)))
    whole = builder.tensors[builder.input("x", shape)]
    name = whole.name
    for _ in range(random.randint(0, 4)):
        there = view(random, builder, name)
        name = there if builder.tensors[there].storage == whole.name else name  # a copy is no view
    seen = builder.tensors[name]
    edges = {}
    for axis, size in enumerate(shape):
        inner = sorted(random.sample(range(1, size), random.randrange(size)))
        if inner:
            edges[axis] = np.array([0, *inner, size])
    grid = Grid(whole, edges, 7)
    dims = {f"D{axis}": size for axis, size in enumerate(seen.shape)}
    operand = Operand("I", 0, "fp32", seen.shape, tuple(index(dim) for dim in dims), False)
    nest = LoopNest(tuple(dims.items()), (operand,))
    split = tuple((dim, random.randint(1, size)) for dim, size in dims.items() if random.random() < 0.6)[:2]
    steps = make_steps(nest, {}, split)
    touch = touched_blocks(operand, seen, nest, steps, grid)

    place = np.array(np.unravel_index(addresses(seen).ravel(), shape)).reshape(len(shape), *seen.shape)
    for step in range(steps.count):
        box = tuple(
            slice(int(steps.ranges[dim][0][step]), int(steps.ranges[dim][1][step]))
            if dim in steps.ranges
            else slice(None)
            for dim in dims
        )
        block = np.zeros(math.prod(place[(0, *box)].shape), np.int64)
        for axis, edge in edges.items():
            at = np.searchsorted(edge, place[(axis, *box)].ravel(), side="right") - 1
            block = block * (len(edge) - 1) + at
        mine = slice(touch.pointer[step], touch.pointer[step + 1])
        assert set(block + 7) <= set(touch.block[mine].tolist())
        assert touch.share[mine].sum() == pytest.approx(1)


def test_a_head_touches_its_own_columns_only() -> None:
    builder = GraphBuilder("heads")
    x = builder.input("x", (1, 8, 36))  # tokens × three times four heads of three
    whole = builder.tensors[x]
    middle = builder.emit_all("split", x, axis=2, sizes=(12, 12, 12))[1]
    heads = builder.emit("reshape", middle, shape=(1, 8, 4, 3))
    seen = builder.tensors[builder.emit("transpose", heads, order=(0, 2, 1, 3))]
    dims = {f"D{axis}": size for axis, size in enumerate(seen.shape)}
    operand = Operand("I", 0, "fp32", seen.shape, tuple(index(dim) for dim in dims), False)
    nest = LoopNest(tuple(dims.items()), (operand,))
    grid = Grid(whole, {2: np.arange(0, 37, 3)}, 0)
    touch = touched_blocks(operand, seen, nest, make_steps(nest, {}, (("D1", 4),)), grid)
    assert touch.block.tolist() == [4, 5, 6, 7]
