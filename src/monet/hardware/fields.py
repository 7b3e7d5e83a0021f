"""Types of fields that hold a quantity: a number in the unit that the name ends in, or text such as ``2 MiB``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from monet.quantities import LIMITS, parse_quantity


def _parser(symbol: str, *, whole: bool = False) -> Callable[[object], object]:
    def parse(value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("expected a number, not true or false")
        number = parse_quantity(value, symbol) if isinstance(value, str) else value
        if isinstance(number, int | float):
            LIMITS[symbol].check(number, symbol)
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


class Model(BaseModel):
    """Base of all parts: unknown keys are refused, nothing is mutated."""

    model_config = ConfigDict(extra="forbid", frozen=True)
