"""Operators between ranks: what they exchange, what each rank sends, and that gradients are their adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from monet.errors import ModelError, MonetError
from monet.graph import GraphBuilder
from monet.graph.counts import call_of
from monet.graph.kind import Exchanged, kind_named
from monet.graph.op import Attributes
from monet.graph.operators.collective import payload_bytes, sent_bytes
from monet.graph.parts import Part
from monet.numerics.executor import execute

RANKS = 4
GROUP = {"group": "tensor", "size": RANKS}


def exchanged(kind: str, ranks: list[Exchanged], **attrs: Any) -> list[Exchanged]:
    rule = kind_named(kind).exchange
    assert rule is not None
    return rule(Attributes({**GROUP, **attrs}), ranks)


def values(shape: tuple[int, ...], seed: int) -> list[Exchanged]:
    generator = np.random.default_rng(seed)
    return [(generator.standard_normal(shape),) for _ in range(RANKS)]


def test_sums_and_maxima() -> None:
    ranks = values((3, 2), 0)
    total = np.sum([rank[0] for rank in ranks], axis=0)
    assert all(np.allclose(made[0], total) for made in exchanged("all_reduce", ranks))
    largest = np.max([rank[0] for rank in ranks], axis=0)
    assert all((made[0] == largest).all() for made in exchanged("all_reduce", ranks, function="max"))


def test_a_bucket_is_reduced_tensor_by_tensor() -> None:
    ranks = [(a[0], b[0]) for a, b in zip(values((3,), 1), values((2, 2), 2), strict=True)]
    first, second = exchanged("all_reduce", ranks)[2]
    assert np.allclose(first, sum(rank[0] for rank in ranks))
    assert np.allclose(second, sum(rank[1] for rank in ranks))


@pytest.mark.parametrize(
    ("forward", "backward", "before", "after", "attrs", "more"),
    [
        ("reduce_scatter", "all_gather", (8, 3), (2, 3), {"axis": 0}, {}),
        ("all_gather", "reduce_scatter", (3, 2), (3, 8), {"axis": 1}, {}),
        ("exchange_halo", "return_halo", (2, 3, 5), (2, 3, 8), {"axis": 2, "before": 1, "after": 2}, {"beyond": 0.0}),
    ],
)
def test_a_gradient_is_the_adjoint(
    forward: str, backward: str, before: tuple[int, ...], after: tuple[int, ...], attrs: dict[str, Any],
    more: dict[str, Any],
) -> None:  # fmt: skip
    """⟨A x, y⟩ = ⟨x, Aᵀ y⟩ over all ranks."""
    x, y = values(before, 3), values(after, 4)
    there, back = exchanged(forward, x, **attrs, **more), exchanged(backward, y, **attrs)
    assert all(made[0].shape == after for made in there)
    left = sum(float((a[0] * b[0]).sum()) for a, b in zip(there, y, strict=True))
    right = sum(float((a[0] * b[0]).sum()) for a, b in zip(x, back, strict=True))
    assert left == pytest.approx(right, rel=1e-12)


def test_rows_of_neighbours() -> None:
    ranks: list[Exchanged] = [(np.full((1, 1, 2, 1), float(rank)),) for rank in range(RANKS)]
    made = exchanged("exchange_halo", ranks, axis=2, before=1, after=1, beyond=-np.inf)
    assert [part[0].ravel().tolist() for part in made[:2]] == [[-np.inf, 0, 0, 1], [0, 1, 1, 2]]
    assert made[-1][0].ravel().tolist() == [2, 3, 3, -np.inf]


@pytest.mark.parametrize(
    ("kind", "attrs", "share"),
    [
        ("all_reduce", {}, 2 * 3 / 4),
        ("reduce_scatter", {"axis": 0}, 3 / 4),
        ("all_gather", {"axis": 0, "summed": True}, 3 / 4),
    ],
)
def test_bytes_of_a_ring(kind: str, attrs: dict[str, Any], share: float) -> None:
    builder = GraphBuilder("one")
    made = builder.emit_all(kind, builder.input("x", (8, 3)), builder.input("y", (4,)), **GROUP, **attrs)
    graph = builder.build(made)
    call = call_of(graph, graph.ops[0])
    whole = 4 * (8 * 3 + 4) * (RANKS if kind == "all_gather" else 1)
    assert payload_bytes(call) == whole
    assert sent_bytes(call, kind_named(kind)) == share * whole


def test_one_device_has_nobody_to_talk_to() -> None:
    for size in (1, 2):
        builder = GraphBuilder("alone")
        out = builder.emit("all_reduce", builder.input("x", (2,)), group="data", size=size)
        graph = builder.build([out])
        if size == 1:
            assert execute(graph, {"x": np.ones(2)})[out].tolist() == [1, 1]
        else:
            with pytest.raises(MonetError, match=r"needs the other ranks; monet\.distributed\.execute_plan"):
                execute(graph, {"x": np.ones(2)})


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("all_reduce", {"function": "mean"}, "added up"),
        ("reduce_scatter", {"axis": 0}, r"axis 0 of \[6, 2\] cannot be cut into 4 equal parts"),
        ("exchange_halo", {"axis": 1, "before": 3, "after": 0, "beyond": 0.0}, "cut axis 1 into fewer parts"),
        ("shard", {"parts": (("tensor", 4, 0, (6,)),)}, "cannot be cut into 4"),
    ],
)
def test_what_cannot_be(kind: str, attrs: dict[str, Any], message: str) -> None:
    builder = GraphBuilder("wrong")
    with pytest.raises(ModelError, match=message):
        builder.emit(kind, builder.input("x", (6, 2)), **GROUP, **attrs)


def test_parts_of_segments_are_put_together_again() -> None:
    part = Part("tensor", 2, 1, (4, 2, 2))
    whole = np.arange(24).reshape(3, 8)
    pieces = [part.take(whole, rank) for rank in range(2)]
    assert pieces[1][0].tolist() == [2, 3, 5, 7]
    assert pieces[0].shape == part.shape(whole.shape)
    assert (part.join(pieces) == whole).all()
