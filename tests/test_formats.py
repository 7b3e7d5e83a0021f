"""The table of number formats: bytes of a shape, values, uses and names; independent sources where there are some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from monet.errors import MonetError
from monet.formats import FORMATS, Format, format_named, is_format, whole_bytes
from monet.graph import GraphBuilder, Role
from monet.grouping import Group
from monet.hardware import load_description, preset_names
from monet.numerics import execute
from monet.transforms.precision import POLICIES, Precision

VALUES = np.random.default_rng(0).standard_normal(1000) * 8
SQUARE = Format("square", 6, "float32", True, group=Group((8, 8), 8))
ROW = Format("row", 4, "float32", True, group=Group((16,), 8, tensor_bits=32))


@pytest.mark.parametrize("name", FORMATS)
def test_values_survive_a_second_rounding(name: str) -> None:
    entry = FORMATS[name]
    values = VALUES if entry.is_float else np.rint(VALUES / 8)
    once = entry.cast(values)
    assert once.dtype == entry.numpy
    assert np.array_equal(entry.cast(once.astype(np.float64)), once)
    error = np.abs(once.astype(np.float64) - values) / np.maximum(np.abs(values), 1.0)
    if entry.is_float:
        assert 0 <= error.max() <= 2.0**-entry.significand_bits
    elif name not in ("uint8", "bool", "bit"):
        assert not error.any()


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.torch and one.is_float])
def test_floats_round_as_pytorch_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.tensor(VALUES).to(getattr(torch, FORMATS[name].torch)).double().numpy()
    assert np.array_equal(FORMATS[name].cast(VALUES).astype(np.float64), theirs)


def test_tf32_rounds_the_fraction_to_ten_bits() -> None:
    ties = 1 + np.arange(1, 9, 2) * 2.0**-11
    wide = np.concatenate([VALUES, ties, -ties]).astype(np.float32)
    fraction, exponent = np.frexp(wide.astype(np.float64))
    expected = np.ldexp(np.rint(np.ldexp(fraction, 11)), exponent - 11)  # to nearest, ties to even
    assert np.array_equal(FORMATS["tf32"].cast(wide).astype(np.float64), expected)
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    assert np.array_equal(FORMATS["tf32"].cast(special), special, equal_nan=True)


@pytest.mark.parametrize(
    ("entry", "shape", "expected"),
    [
        (FORMATS["fp32"], (3, 5), 60), (FORMATS["bf16"], (), 2), (FORMATS["bit"], (9,), 2), (FORMATS["int4"], (3,), 2),
        (FORMATS["fp32"], (0, 4), 0), (FORMATS["bool"], (9,), 9),
        (SQUARE, (16, 16), 4 * (64 * 6 + 8) // 8), (SQUARE, (2, 9, 17), 2 * 2 * 3 * (64 * 6 + 8) // 8),
        (SQUARE, (5,), (64 * 6 + 8) // 8),
        (ROW, (4, 16), (4 * (16 * 4 + 8) + 32) // 8), (ROW, (4, 17), (8 * (16 * 4 + 8) + 32) // 8),
    ],
)  # fmt: skip
def test_bytes_of_a_shape(entry: Format, shape: tuple[int, ...], expected: int) -> None:
    assert entry.bytes_of(shape) == expected
    elements = int(np.prod(shape))
    assert whole_bytes(elements * entry.bits_per_element(shape)) == expected


def test_a_group_along_another_axis_pads_that_axis() -> None:
    column = replace(SQUARE, name="column", group=Group((32, 1), 8))
    assert column.bytes_of((33, 5)) == 2 * 5 * (32 * 6 + 8) // 8
    assert column.bytes_of((5, 33)) == 33 * (32 * 6 + 8) // 8


def test_groups_of_an_operand_lie_along_what_is_summed() -> None:
    """A run over it alone, a square also over what the result keeps; axes before both are left out."""
    run, square = format_named("mxfp8_e4m3"), format_named("mxfp8_e4m3[8x8]")
    assert [run.along(*how).name for how in ((2, 1, 0), (2, 0, 1), (4, 1, 0), (3, -1, 1))] == [
        f"mxfp8_e4m3[{shape}]" for shape in ("1x32", "32x1", "32x1x1", "1x32")
    ]
    assert [square.along(*how).name for how in ((2, 1, 0), (2, 0, 1), (4, 1, 0), (3, -1, 1))] == [
        f"mxfp8_e4m3[{shape}]" for shape in ("8x8", "8x8", "8x8x1x1", "8x8")
    ]
    assert format_named("bf16").along(2, 0, 1).name == "bf16"


def test_what_a_format_may_be_used_for() -> None:
    assert {name for name, one in FORMATS.items() if one.may_train} == {
        "fp64", "fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2",
    }  # fmt: skip
    assert not FORMATS["fp32"].may_index
    assert FORMATS["int64"].may_index
    assert not FORMATS["bit"].may_accumulate
    assert not SQUARE.may_accumulate


def test_what_is_no_format_says_why() -> None:
    with pytest.raises(MonetError, match="unknown number format 'fp23'; did you mean"):
        format_named("fp23")
    with pytest.raises(MonetError, match=r"a group is 1x16, 1x32, 8x8, 16x16 or 32x32"):
        GraphBuilder("none").input("x", (4,), "mxfp8_e4m3[8x9]")
    with pytest.raises(MonetError, match="elements of fp32 share no scale"):
        format_named("fp32[8x8]")
    with pytest.raises(MonetError, match="unknown number format"):
        Precision("mine", "fp7")


def test_policies_and_presets_name_formats_of_the_table() -> None:
    for policy in POLICIES.values():
        assert {policy.working, policy.master or policy.working} <= FORMATS.keys()
        assert policy.trainable == policy.name.startswith(("fp", "bf", "tf", "mx", "nv"))
    for name in preset_names():
        for core in load_description(name).cores.values():
            listed = {part for pair in core.rates for part in pair.split("*")}
            assert all(map(is_format, listed | set(core.vector.dtypes if core.vector else ())))


def test_the_executor_rounds_to_a_format_that_numpy_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def to_quarters(values: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.rint(values * 4) / 4

    quarters = Format("quarters", 8, "float32", True, quantise=to_quarters)
    monkeypatch.setitem(FORMATS, "quarters", quarters)
    builder = GraphBuilder("sum")
    x = builder.root("x", (3,), "quarters", Role.INPUT)
    graph = builder.build([builder.emit("add", x, x)])
    given = np.array([0.1, 0.3, 0.9])
    (narrow,) = execute(graph, {"x": given}, compute=None).values()
    assert narrow.tolist() == [0.0, 0.5, 2.0]
    (exact,) = execute(graph, {"x": given}).values()
    assert exact == pytest.approx(2 * given)
