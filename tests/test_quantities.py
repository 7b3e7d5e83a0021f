"""Quantities: every unit read in one place, and what is none refused with what is allowed."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from monet.errors import MonetError
from monet.hardware.fields import Bytes, Count
from monet.quantities import EXAMPLES, parse_bytes, parse_quantity, plain_number


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("2 MiB", "B", 2 << 20), ("64KiB", "B", 65536), ("1e10 bit", "B", 1.25e9), ("12mb", "B", 12e6),
        ("800 MHz", "Hz", 8e8), ("800 mHz", "Hz", 0.8),
        ("0.04 pJ", "J", 4e-14), ("3.9 pJ/bit", "J/bit", 3.9e-12), ("3.9 pJ", "J/bit", 3.9e-12),
        ("25.6 GB/s", "B/s", 25.6e9), ("51.2 Gbit/s", "B/s", 6.4e9), ("1 mm", "m", 1e-3), ("20 mW", "W", 0.02),
        ("1.5 mm2", "m2", 1.5e-6), ("100 ns", "s", 1e-7), ("800e6", "Hz", 8e8), ("1_000", "", 1000), ("1e3", "", 1000),
    ],
)  # fmt: skip
def test_a_number_with_its_unit(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value)
    assert plain_number(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["2 MHz", "many", "", "2 XB", "50%", "1.2.3"])
def test_what_is_no_quantity_is_refused_with_units(text: str) -> None:
    with pytest.raises(MonetError, match="expected a number, or a number with a unit such as '2 MiB'"):
        parse_quantity(text, "B")


def test_examples_in_messages_can_be_read() -> None:
    for unit, texts in EXAMPLES.items():
        for text in texts:
            assert parse_quantity(text, unit) > 0


def test_budgets() -> None:
    given = {"12MB": 12_000_000, "1.5 MiB": 3 * 2**19, "25%": 250, "4096 B": 4096, "11.5mib": 23 * 2**19}
    assert {text: parse_bytes("--budget", text, 1000) for text in given} == given
    for text, message in {
        "half": "--budget 'half': expected a number, or .* such as '2 MiB', '64 kB', or a share such as '50%'",
        "-1 MB": "--budget '-1 MB': must be a finite amount, not negative",
        "1e999 MB": "must be a finite amount",
        "50": "--budget '50': a number alone is neither bytes nor a share; write 50MB, or 50%",
        "0.5": "write 0.5MB, or 50%",
        "1e3": "write 1e3MB, or 1e3%",
    }.items():
        with pytest.raises(MonetError, match=message):
            parse_bytes("--budget", text, 1000)


@pytest.mark.parametrize("value", ["4x4", "int8", "keep", 7, None, True, "2M"])
def test_what_has_no_unit_stays_as_it_is(value: object) -> None:
    assert plain_number(value) is value


@pytest.mark.parametrize("value", [True, "2 MHz", -1, 1.5])
def test_fields_of_a_description_take_quantities_only(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Bytes).validate_python(value)
    assert TypeAdapter(Bytes).validate_python("64 KiB") == 65536
    assert TypeAdapter(Count).validate_python("1_000") == 1000
