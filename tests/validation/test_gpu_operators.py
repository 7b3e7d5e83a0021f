"""Operators measured on GPUs: what monet validate says of them, on the groups that cost least."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monet.validation import Verdict, check
from monet.validation.gpu_operators import Group, groups, operator

GROUPS = {group.name: group for group in groups()}


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_products_of_llmcompass_are_within_their_bar(every: int) -> None:
    """≤ 15 % on average with nothing fitted but the gap before a call; single rows within 25 %."""
    group = GROUPS["A100, matmul, fp16"]
    assert len(group.rows) == 17
    errors = replace(group, rows=group.rows[::every]).errors()
    assert sum(map(abs, errors)) / len(errors) <= 0.15
    assert max(map(abs, errors)) <= 0.25


@pytest.mark.parametrize("name", ["A100, gelu, fp16", "a100-pcie, add, fp32", "v100-pcie, add, fp32", "l4, add, fp32"])
def test_operators_bound_by_dram_are_within_theirs(name: str) -> None:
    assert check(GROUPS[name].figure()).verdict is Verdict.OK


def test_a_group_says_what_of_a_call_is_not_ours() -> None:
    assert "28 µs of every call are the host's" in GROUPS["A100, matmul, fp16"].figure().note
    assert {group.preset for group in GROUPS.values()} == {"a100", "a100-pcie", "v100-pcie", "l4"}
    one = Group("one", "add", "fp32", "l4", 1.0, (((4, 4), 1.0),), 0.1, 0.1, "nobody")
    assert one.mean_error() == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(
    ("kind", "sizes"), [("matmul", (4, 8, 16)), ("gelu", (64,)), ("softmax", (4, 8)), ("add", (4, 8))]
)
def test_graphs_of_one_operator(kind: str, sizes: tuple[int, ...]) -> None:
    assert [op.kind for op in operator(kind, "fp16", *sizes).ops] == [kind]
