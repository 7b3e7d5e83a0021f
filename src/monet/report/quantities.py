"""Quantities for people, with a prefixed unit over the whole range: 12.3 ms, 4.56 MB, 31.2 pJ."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monet.schedule.result import Result

_PREFIXES = ("f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E")
_ONE = _PREFIXES.index("")
_DIVIDED = ("s", "J", "W")  # units that have thousandths; there are no thousandths of a byte or a sample


def quantity(value: float, unit: str) -> str:
    """Three to four digits and a decimal prefix. Counts, bytes and their rates get no prefix below one."""
    if value == 0:
        return f"0 {unit}".rstrip()
    position, smallest = _ONE, 0 if unit in _DIVIDED else _ONE
    while abs(value) >= 999.95 and position < len(_PREFIXES) - 1:
        value, position = value / 1000, position + 1
    while abs(value) < 0.99995 and position > smallest:
        value, position = value * 1000, position - 1
    digits = f"{value:.0f}" if unit == "B" and position == _ONE else f"{value:.4g}"
    return f"{digits} {_PREFIXES[position]}{unit}".rstrip()


def seconds(value: float) -> str:
    """A time: 12.34 ms."""
    return quantity(value, "s")


def joules(value: float) -> str:
    """An energy: 56.78 mJ."""
    return quantity(value, "J")


def nbytes(value: float) -> str:
    """An amount of data in decimal units: 9.012 MB."""
    return quantity(value, "B")


def count(value: float) -> str:
    """A plain count: 1.814 G."""
    return quantity(value, "")


def percent(value: float) -> str:
    """A share, with a digit after the point where it matters: 4.2 %, 73 %."""
    return f"{100 * value:.1f} %" if abs(value) < 0.0995 else f"{100 * value:.0f} %"


def times(value: float) -> str:
    """A ratio: 1.34×."""
    return f"{value:.2f}×" if value < 10 else f"{value:.3g}×"


def step_name(result: Result) -> str:
    """A training or an inference step, or the phases of it that ran."""
    whole = f"one {result.mode} step"
    if result.mode != "training" or not result.phases or {"forward", "backward", "update"} <= result.phases.keys():
        return whole
    *before, last = result.phases
    return f"{', '.join(before)} and {last} of {whole}" if before else f"{last} of {whole}"
