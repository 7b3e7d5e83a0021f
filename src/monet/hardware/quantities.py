"""Quantities of a description: a plain number in the unit that the field's name ends in, or text such as ``2 MiB``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

_DECIMAL = {"a": 1e-18, "f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0,
            "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}  # fmt: skip
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_TEXT = re.compile(r"^\s*([-+]?(?:\d[\d_ ]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d\s].*?)?\s*$")


def _scales(symbol: str) -> dict[str, float]:
    """Every accepted spelling of a unit, with its factor."""
    if symbol == "m2":
        return {"m2": 1.0, "mm2": 1e-6, "um2": 1e-12, "µm2": 1e-12}
    head, *rest = symbol.split("/")
    tail = "".join(f"/{part}" for part in rest)
    scales = {prefix + head + tail: factor for prefix, factor in _DECIMAL.items()}
    if head == "B":
        scales |= {prefix + head + tail: factor for prefix, factor in _BINARY.items()}
        scales |= {prefix + "bit" + tail: factor / 8 for prefix, factor in (_DECIMAL | _BINARY).items()}
    if rest:
        scales |= {prefix + head: factor for prefix, factor in _DECIMAL.items()}
    return scales


def parse_quantity(value: object, symbol: str) -> object:
    """A number from ``value`` in units of ``symbol``; what cannot be read is left for pydantic to refuse."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    if not isinstance(value, str):
        return value
    match = _TEXT.match(value)
    scales = _scales(symbol) if symbol else {}
    if not match or (match[2] and match[2] not in scales):
        examples = ", ".join(f"'{number} {unit}'" for number, unit in _EXAMPLES.get(symbol, ()))
        raise ValueError("expected a number" + (f", or a number with a unit such as {examples}" if examples else ""))
    return float(match[1].replace("_", "").replace(" ", "")) * (scales[match[2]] if match[2] else 1.0)


_EXAMPLES = {
    "B": (("2", "MiB"), ("64", "KiB")),
    "Hz": (("800", "MHz"),),
    "J": (("0.04", "pJ"),),
    "J/bit": (("3.9", "pJ/bit"),),
    "B/s": (("25.6", "GB/s"),),
    "s": (("100", "ns"),),
    "W": (("20", "mW"),),
    "m2": (("1.5", "mm2"),),
    "m": (("1", "mm"),),
}


def _parser(symbol: str, *, whole: bool = False) -> Callable[[object], object]:
    def parse(value: object) -> object:
        number = parse_quantity(value, symbol)
        if whole and isinstance(number, float) and number.is_integer():
            return int(number)
        return number

    return parse


def _schema(symbol: str, *, positive: bool) -> WithJsonSchema:
    number: dict[str, object] = {"type": "number", ("exclusiveMinimum" if positive else "minimum"): 0}
    text = {"type": "string", "description": f"a number with a unit: {symbol}"}
    return WithJsonSchema({"anyOf": [number, text]} if symbol else number)


Count = Annotated[int, BeforeValidator(_parser("", whole=True)), Field(gt=0), _schema("", positive=True)]
Cycles = Annotated[int, BeforeValidator(_parser("", whole=True)), Field(ge=0), _schema("", positive=False)]
Positive = Annotated[float, BeforeValidator(_parser("")), Field(gt=0), _schema("", positive=True)]
NotNegative = Annotated[float, BeforeValidator(_parser("")), Field(ge=0), _schema("", positive=False)]
Bytes = Annotated[int, BeforeValidator(_parser("B", whole=True)), Field(gt=0), _schema("B", positive=True)]
Hertz = Annotated[float, BeforeValidator(_parser("Hz")), Field(gt=0), _schema("Hz", positive=True)]
BytesPerSecond = Annotated[float, BeforeValidator(_parser("B/s")), Field(gt=0), _schema("B/s", positive=True)]
Joules = Annotated[float, BeforeValidator(_parser("J")), Field(ge=0), _schema("J", positive=False)]
JoulesPerBit = Annotated[float, BeforeValidator(_parser("J/bit")), Field(ge=0), _schema("J/bit", positive=False)]
Seconds = Annotated[float, BeforeValidator(_parser("s")), Field(ge=0), _schema("s", positive=False)]
Watts = Annotated[float, BeforeValidator(_parser("W")), Field(ge=0), _schema("W", positive=False)]
SquareMetres = Annotated[float, BeforeValidator(_parser("m2")), Field(ge=0), _schema("m2", positive=False)]
Metres = Annotated[float, BeforeValidator(_parser("m")), Field(ge=0), _schema("m", positive=False)]
