"""Quantities as people write them (``2 MiB``, ``51.2 GB/s``, ``1e3``, ``50%``): the one place that reads them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from monet.errors import MonetError

_SMALL = {"a": 1e-18, "f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3}
_LARGE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_TEXT = re.compile(r"^\s*([-+]?(?:\d[\d_ ]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d\s].*?)?\s*$")
EXAMPLES = {
    "": (),
    "B": ("2 MiB", "64 kB"),
    "Hz": ("800 MHz",),
    "B/s": ("25.6 GB/s",),
    "J": ("0.04 pJ",),
    "J/bit": ("3.9 pJ/bit",),
    "s": ("100 ns",),
    "W": ("20 mW",),
    "m2": ("1.5 mm2",),
    "m": ("1 mm",),
}  # of every unit that is known


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a quantity makes sense: zero (where nothing is meant by it), or from ``least`` to ``most``; and why."""

    least: float
    most: float
    why: str

    def check(self, number: float, unit: str) -> None:
        """Refuse what is infinite, no number, or beyond the limits, with the unit it was taken in."""
        given = f"{number:g} {unit}".strip()
        if not math.isfinite(number):
            raise QuantityError(f"a finite number is needed, not {number}")
        if number < 0:
            raise QuantityError(f"must not be negative (it was read as {given})")
        if number and not self.least <= number <= self.most:
            reach = f"{self.least:g} to {self.most:g} {unit}".strip()
            example = f"; write the unit, as in {EXAMPLES[unit][0]!r}" if EXAMPLES[unit] else ""
            raise QuantityError(f"{given} is outside {reach} ({self.why}){example}")


# What no design on silicon reaches in either direction, so that a forgotten prefix is noticed.
LIMITS = {
    "": Limits(1e-12, 1e15, "whole machines count in 10^15 operations a cycle at most"),
    "B": Limits(1, 2.0**50, "a rack of memory holds less than 1 PiB"),
    "Hz": Limits(1e3, 1e12, "from below a watch crystal to above any transistor's"),
    "B/s": Limits(1e3, 1e17, "from a serial line to a wafer's memory"),
    "J": Limits(1e-21, 1e-3, "from below the thermal limit of a bit to a thousand times a page of flash"),
    "J/bit": Limits(1e-21, 1e-5, "from below the thermal limit of a bit to a thousand times a radio"),
    "s": Limits(1e-15, 10, "nothing on a machine waits longer for one access"),
    "W": Limits(1e-15, 1e7, "from one transistor's leakage to a data centre"),
    "m2": Limits(1e-18, 1, "from one transistor to twelve wafers"),
    "m": Limits(1e-10, 1e3, "from an atom to a cable across a hall"),
}


class QuantityError(MonetError, ValueError):
    """A text that is no quantity of the unit asked for."""


def _scales(unit: str) -> dict[str, float]:
    """Every accepted spelling of a unit, with its factor. There are no thousandths of a byte."""
    if unit == "m2":
        return {"m2": 1.0, "mm2": 1e-6, "um2": 1e-12, "µm2": 1e-12}
    head, *rest = unit.split("/")
    tail = "".join(f"/{part}" for part in rest)
    heads = {head: 1.0, "bit": 1 / 8} if head == "B" else {head: 1.0}
    prefixes = _LARGE | _BINARY if head == "B" else _SMALL | _LARGE
    scales = {
        prefix + stem + tail: factor * part for stem, part in heads.items() for prefix, factor in prefixes.items()
    }
    return scales | {prefix + head: factor for prefix, factor in prefixes.items() if rest}


def _scale(spelled: str, unit: str) -> float | None:
    """Factor of a spelling. The case of bytes does not matter (``12mb``), as none of their units differ by it alone."""
    scales = _scales(unit) if unit else {}
    if unit.startswith("B"):
        scales, spelled = {name.lower(): factor for name, factor in scales.items()}, spelled.lower()
    return scales.get(spelled)


def parse_quantity(text: str, unit: str, *, share_of: float | None = None, what: str = "") -> float:
    """``text`` in ``unit`` (one of ``EXAMPLES``; empty: a bare number). Where ``share_of`` is given, so is ``50%`` of
    it. ``what`` names in the error what was given."""
    match = _TEXT.match(text)
    spelled = (match[2] or "") if match else ""
    if match:
        number = float(match[1].replace("_", "").replace(" ", ""))
        if spelled == "%" and share_of is not None:
            return share_of * number / 100
        scale = _scale(spelled, unit) if spelled else 1.0
        if scale is not None:
            return number * scale
    examples = [repr(example) for example in EXAMPLES[unit]]
    allowed = f", or a number with a unit such as {', '.join(examples)}" if examples else ""
    share = ", or a share such as '50%'" if share_of is not None else ""
    given = f"{what} {text!r}: " if what else ""
    raise QuantityError(f"{given}expected a number{allowed}{share}")


def parse_bytes(what: str, text: str, share_of: int) -> int:
    """Bytes of an option called ``what``: an amount (``12MB``, ``11.5 MiB``, ``4096B``), or a share (``50%``). A number
    alone could be either, and is refused."""
    number = parse_quantity(text, "B", share_of=share_of, what=what)
    if not 0 <= number < math.inf:
        raise QuantityError(f"{what} {text!r}: must be a finite amount, not negative")
    if not any(map(str.isalpha, re.sub(r"(?<=\d)[eE](?=[-+]?\d)", "", text))) and "%" not in text:
        bare = text.strip()
        share = f"{100 * number:g}%" if number <= 1 else f"{bare}%"
        raise QuantityError(f"{what} {text!r}: a number alone is neither bytes nor a share; write {bare}MB, or {share}")
    return int(number)


def plain_number(value: Any) -> Any:
    """A number written with or without any unit, in SI units; what is no quantity as it is."""
    for unit in EXAMPLES if isinstance(value, str) else ():
        try:
            number = parse_quantity(value, unit)
        except QuantityError:
            continue
        return int(number) if number.is_integer() else number
    return value
