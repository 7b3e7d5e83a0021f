"""Values of microscaling formats: bit by bit gfloat's (a plain loop's for Microsoft's), and what a transpose does."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

from monet.block_scaling import quantise, to_fraction_bits
from monet.formats import FORMATS, format_named

gfloat = pytest.importorskip("gfloat")
from gfloat import RoundMode, decode_ndarray, encode_ndarray, formats, round_ndarray  # noqa: E402

OCP = ("mxfp8_e5m2", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8")
MICROSOFT = {"mx9": 7, "mx6": 4, "mx4": 2}  # magnitude bits
Array = np.ndarray  # type: ignore[type-arg]


def every_bf16() -> Array:
    bits = np.arange(65536, dtype=np.uint32) << 16
    with np.errstate(invalid="ignore"):  # of signalling NaN
        return bits.view(np.float32).astype(np.float64)


def random_blocks(count: int, elements: int, seed: int) -> Array:
    """Groups with normal and heavy tails at many magnitudes; zeros, subnormals, largest, Inf and NaN in some."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((count, elements)) * 2.0 ** generator.integers(-140, 120, (count, 1))
    values[::3] *= 2.0 ** generator.integers(-12, 1, values[::3].shape)
    special = [0.0, -0.0, 1e-45, -1e-40, 3.4028234663852886e38, -3.4028234663852886e38, np.inf, -np.inf, np.nan]
    values[::7, 3] = generator.choice(special, len(values[::7]))
    values[11] = 0.0
    return values.astype(np.float32).astype(np.float64)


def in_groups(values: Array, shape: tuple[int, ...]) -> Array:
    """Rows that each hold one group, as a tensor whose groups they are."""
    rows = values.reshape(-1, *shape)
    return rows.reshape(-1, shape[-1])


def scale_of(largest: Array, exponent: int) -> Array:
    """gfloat's rule, 2^clip(⌊log2 largest⌋ − exponent), with an exact logarithm."""
    found = np.frexp(np.where(np.isfinite(largest) & (largest > 0), largest, 1.0))[1] - 1 - exponent
    found = np.where(largest == 0, -127, np.where(np.isinf(largest), 127, np.clip(found, -127, 127)))
    return np.where(np.isnan(largest), np.nan, 2.0**found)


def theirs(name: str, rows: Array, scale: Array) -> Array:
    """Elements by gfloat, through their codes; a scale that is NaN makes every element NaN (E8M0 has the code)."""
    info = getattr(formats, f"format_info_{name}").etype
    scaled = rows / scale
    bad = np.isnan(scaled)
    rounded = round_ndarray(info, np.where(bad, 0.0, scaled), RoundMode.TiesToEven, True)
    decoded = decode_ndarray(info, encode_ndarray(info, rounded))
    return np.where(bad, np.nan, decoded * scale)


def same_bits(ours: Array, expected: Array) -> bool:
    numbers = ~np.isnan(expected)
    same = ours[numbers].view(np.int64) == expected[numbers].view(np.int64)
    return bool(same.all()) and bool(np.isnan(ours[~numbers]).all())


def pieces(part: int, size: int) -> list[tuple[int, int]]:
    """(seed, blocks) of random groups of so many elements: 20,480 in all, or as many elements as 1,280 small ones."""
    return [(seed, 1280) for seed in range(16)] if part > 1 else [(0, max(40, 1280 * 32 // size))]


FEW_AND_ALL = [1, pytest.param(16, marks=pytest.mark.slow)]  # sixteenths of all bf16 numbers and of 20,480 blocks


@pytest.mark.parametrize("part", FEW_AND_ALL)
@pytest.mark.parametrize("shape", [(32,), (16,), (8, 8), (16, 16), (32, 32)])
@pytest.mark.parametrize("name", OCP)
def test_ocp_formats_are_gfloats_bit_by_bit(name: str, shape: tuple[int, ...], part: int) -> None:
    entry, size = FORMATS[name].grouped(shape), math.prod(shape)
    assert entry.element is not None
    assert entry.group is not None
    mixed = np.random.default_rng(1).permutation(every_bf16())[: 4096 * part]
    blocks = [every_bf16()[:: 16 // part].reshape(-1, size), mixed.reshape(-1, size)]
    for seed, count in pieces(part, size):
        blocks.append(random_blocks(count, size, seed=seed + len(name)))
    for rows in blocks:
        largest = np.abs(rows).max(axis=1, keepdims=True)
        expected = theirs(name, rows, scale_of(largest, entry.element.largest_exponent))
        ours = quantise(in_groups(rows, shape), entry.element, entry.group)
        assert same_bits(ours, in_groups(expected, shape))


@pytest.mark.parametrize("name", OCP)
def test_the_scale_rule_is_gfloats(name: str) -> None:
    """The block rule as a whole, by gfloat's own function, on fewer blocks (it takes them one by one)."""
    info = getattr(formats, f"format_info_{name}")
    rows = random_blocks(100, 32, seed=5)
    rows = rows[np.isfinite(rows).all(axis=1)]
    expected = np.stack([gfloat.quantize_block(info, row, gfloat.compute_scale_amax) for row in rows])
    assert same_bits(FORMATS[name].cast(rows).astype(np.float64), expected)


@numba.njit  # type: ignore[untyped-decorator]
def microsoft(rows: Array, bits: int, width: int, out: Array) -> None:
    """One value after the other: an exponent of the group, a bit for two neighbours (in a square of a ``width`` for
    2 × 2; a run has width 0)."""
    for number in range(rows.shape[0]):
        row, largest, bad = rows[number], 0.0, False
        for value in row:
            bad |= math.isnan(value)
            largest = max(largest, abs(value))
        shared = 127 if math.isinf(largest) else -127 if not largest else max(-127, math.frexp(largest)[1] - 1)
        for at in range(row.size):
            first = at // 2 * 2 if not width else at // width // 2 * 2 * width + at % width // 2 * 2
            near = max(abs(row[first]), abs(row[first + 1]))
            if width:
                near = max(near, abs(row[first + width]), abs(row[first + width + 1]))
            step = 2.0 ** (shared - (1 if near < 2.0**shared else 0) - (bits - 1))
            steps = min(abs(row[at]) / step, 2.0**bits - 1)
            whole = math.floor(steps)
            rest = steps - whole
            up = rest > 0.5 or (rest == 0.5 and whole % 2 == 1)
            out[number, at] = math.nan if bad else math.copysign((whole + (1 if up else 0)) * step, row[at])


@pytest.mark.parametrize("part", FEW_AND_ALL)
@pytest.mark.parametrize("shape", [(16,), (8, 8), (16, 16), (32, 32)])
@pytest.mark.parametrize("name", MICROSOFT)
def test_microsofts_formats_are_a_plain_loops(name: str, shape: tuple[int, ...], part: int) -> None:
    entry, size = FORMATS[name].grouped(shape), math.prod(shape)
    assert entry.element is not None
    assert entry.group is not None
    chosen = [every_bf16()[:: 16 // part].reshape(-1, size)]
    chosen += [random_blocks(count, size, seed=seed + 2) for seed, count in pieces(part, size)]
    for rows in chosen:
        expected = np.empty_like(rows)
        microsoft(rows, MICROSOFT[name], shape[-1] if len(shape) == 2 else 0, expected)
        ours = quantise(in_groups(rows, shape), entry.element, entry.group)
        assert same_bits(ours, in_groups(expected, shape))


@pytest.mark.parametrize("part", FEW_AND_ALL)
@pytest.mark.parametrize("shape", [(16,), (8, 8), (16, 16), (32, 32)])
def test_nvfp4_is_gfloats_elements_below_two_scales(shape: tuple[int, ...], part: int) -> None:
    entry, size = FORMATS["nvfp4"].grouped(shape), math.prod(shape)
    for seed, count in pieces(part, size):
        generator = np.random.default_rng(4 + seed)
        rows = generator.standard_normal((count, size)) * 2.0 ** generator.integers(-9, 3, (count, 1))
        rows[5] = 0.0
        rows[9, 0] = np.nan
        largest = np.abs(rows).max(axis=1, keepdims=True)
        tensor = float(np.float32(np.nanmax(largest) / (6.0 * 448.0)))
        wanted = np.where(np.isnan(largest), 0.0, largest) / 6.0 / tensor
        scale = round_ndarray(formats.format_info_ocp_e4m3, wanted, RoundMode.TiesToEven, True) * tensor
        expected = theirs("mxfp4_e2m1", rows, np.where(scale == 0, 1.0, scale))
        expected = np.where(np.isnan(largest), np.nan, np.where(scale == 0, np.copysign(0.0, rows), expected))
        assert same_bits(entry.cast(in_groups(rows, shape)), in_groups(expected, shape))


@pytest.mark.parametrize("name", [*OCP, "nvfp4", *MICROSOFT])
def test_squares_may_be_transposed_and_runs_may_not(name: str) -> None:
    values = random_blocks(64, 64, seed=8) if name != "nvfp4" else np.random.default_rng(0).standard_normal((64, 64))
    for size in (8, 16, 32):
        square = FORMATS[name].grouped((size, size))
        once, turned = square.cast(values).astype(np.float64), square.cast(values.T).astype(np.float64)
        assert same_bits(turned, np.ascontiguousarray(once.T))
    run = FORMATS[name]
    assert not np.array_equal(run.cast(values.T), run.cast(values).T, equal_nan=True)
    across = run.grouped((32, 1) if name in OCP else (16, 1))
    assert np.array_equal(across.cast(values.T), run.cast(values).T, equal_nan=True)


def test_round_up_saturates_nothing_and_floor_does() -> None:
    entry = FORMATS["mxfp8_e4m3"]
    assert entry.element is not None
    assert entry.group is not None
    values = np.full(32, 1.9375)  # 496 of at most 448 below a scale of 2^-8
    assert quantise(values, entry.element, entry.group).max() == 1.75
    assert quantise(values, entry.element, entry.group, rule="round-up").max() == 2.0
    exact = np.full(32, 1.75)
    assert quantise(exact, entry.element, entry.group, rule="round-up").max() == 1.75


def test_stochastic_rounding_keeps_the_mean_and_the_seed() -> None:
    entry = FORMATS["mxfp4_e2m1"]
    assert entry.element is not None
    assert entry.group is not None
    values = np.tile([4.0, *[1.2] * 31], (4000, 1))
    drawn = [quantise(values, entry.element, entry.group, rounding="stochastic", seed=seed) for seed in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert set(np.unique(drawn[0][:, 1:])) == {1.0, 1.5}
    assert drawn[0][:, 1:].mean() == pytest.approx(1.2, abs=0.003)  # five standard deviations of 124,000 draws


def test_an_accumulator_of_sixteen_bits_rounds_to_even() -> None:
    values = np.array([1 + 2.0**-17, 1 + 3 * 2.0**-17, -(1 + 2.0**-16), 0.0, np.inf])
    assert to_fraction_bits(values, 16).tolist() == [1.0, 1 + 2.0**-15, -(1 + 2.0**-16), 0.0, np.inf]


def test_groups_are_part_of_a_name() -> None:
    assert format_named("mxfp8_e4m3[8x8x1x1]").mode == "mxfp8_e4m3[8x8]"
    assert format_named("mxfp8_e4m3[32x1x1]").mode == FORMATS["mxfp8_e4m3"].mode == "mxfp8_e4m3[1x32]"
    assert format_named("mx9[8x8]").bytes_of((8, 8)) == (64 * 8 + 8 + 16) // 8
    for name, bits in {
        "mxfp8_e4m3": 8.25,
        "mxfp6_e3m2": 6.25,
        "mxfp4_e2m1": 4.25,
        "mx9": 9,
        "mx6": 6,
        "mx4": 4,
    }.items():
        assert FORMATS[name].bits_per_element((64, 64)) == bits
    assert FORMATS["nvfp4"].bytes_of((32, 32)) == 1024 * 4.5 / 8 + 4
