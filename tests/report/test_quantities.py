"""Numbers as they are printed: prefixes at their borders, shares and ratios with the digits that matter."""

from __future__ import annotations

import pytest

from monet.report.quantities import count, joules, nbytes, percent, quantity, seconds, times


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "s", "0 s"), (1.0, "s", "1 s"), (0.99996, "s", "1 s"), (0.9999, "s", "999.9 ms"),
        (999.94, "s", "999.9 s"), (999.96, "s", "1 ks"), (1234.5, "s", "1.234 ks"), (12.34e-3, "s", "12.34 ms"),
        (5.678e-6, "J", "5.678 µJ"), (31.2e-12, "J", "31.2 pJ"), (2e-15, "J", "2 fJ"), (-0.05, "s", "-50 ms"),
        (512, "B", "512 B"), (0.5, "B", "0 B"), (999.96, "B", "1 kB"), (1536, "B", "1.536 kB"),
        (9.012e6, "B", "9.012 MB"), (3e21, "B", "3000 EB"), (1500, "", "1.5 k"), (0.25, "", "0.25"),
    ],
)  # fmt: skip
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_units_of_their_own() -> None:
    assert (seconds(0.25), joules(0.25), nbytes(2500)) == ("250 ms", "250 mJ", "2.5 kB")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0 %"), (0.042, "4.2 %"), (0.0994, "9.9 %"), (0.0996, "10 %"), (0.734, "73 %"), (1.0, "100 %")],
)
def test_shares(value: float, text: str) -> None:
    assert percent(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.337, "1.34×"), (9.99, "9.99×"), (10.0, "10×"), (123.4, "123×")])
def test_ratios(value: float, text: str) -> None:
    assert times(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (1000, "1 k"), (1_814_073_344, "1.814 G"), (3e21, "3000 E")]
)
def test_counts(value: float, text: str) -> None:
    assert count(value) == text
    words = text.split(" ")
    assert quantity(value, "FLOP") == f"{words[0]} {words[1] if len(words) > 1 else ''}FLOP"


def test_sizes() -> None:
    assert (nbytes(21_620_000), nbytes(999), nbytes(1e15)) == ("21.62 MB", "999 B", "1 PB")
