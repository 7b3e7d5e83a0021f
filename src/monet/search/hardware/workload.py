"""A workload of a space: a request without hardware, written with the names of a request's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from monet.errors import OptionError, nearest
from monet.options import Option, option, options_of
from monet.request import Request


@dataclass(frozen=True)
class Workload(Request):
    """What is run on every design: a model, how it is trained, how it is scheduled."""

    weight: float = option(1.0, group="schedule", above=0, help="Exponent in the geometric mean over workloads.")

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> CoreSchema:
        """Read and written as below, whatever pydantic would make of the fields."""
        written = core_schema.plain_serializer_function_ser_schema(_written)
        return core_schema.no_info_plain_validator_function(read_workload, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: Any) -> dict[str, Any]:
        properties = {name: {"description": knob.help, **_type(knob)} for name, knob in knobs().items()}
        return {"type": "object", "properties": properties, "required": ["model"], "additionalProperties": False}


def knobs() -> dict[str, Option]:
    """What may be written of a workload; the hardware is the space's."""
    return {name: knob for name, knob in options_of(Workload).items() if knob.group != "hardware"}


def read_workload(given: Any) -> Workload:
    """A workload from plain values; every problem is reported at once, with the key it is about."""
    if isinstance(given, Workload):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f"must be a mapping with {', '.join(knobs())}")
    problems, values = list[OptionError](), dict[str, Any]()
    for name, value in given.items():
        try:
            values[name] = _option(name, value).read(value)
        except OptionError as error:
            problems.append(error)
    if "model" not in given:
        problems.append(OptionError("model", "", "is required"))
    try:
        if not problems:
            return Workload(**values)
    except OptionError as error:
        problems.append(error)
    raise ValidationError.from_exception_data("workload", [_detail(problem) for problem in problems])


def _detail(error: OptionError) -> InitErrorDetails:
    said = PydanticCustomError("option", "{said}", {"said": error.reason})
    return InitErrorDetails(type=said, loc=(error.option,), input=error.value)


def _option(name: str, value: Any) -> Option:
    known = knobs()
    if name in known:
        return known[name]
    for knob in known.values():
        if knob.formerly == name:
            raise OptionError(name, value, f"is called {knob.name} now: {knob.help}")
    raise OptionError(name, value, f"unknown key; {nearest(name, known)}")


def _written(workload: Workload) -> dict[str, Any]:
    """What is not the default, as plain values."""
    found = {name: getattr(workload, name) for name, knob in knobs().items() if getattr(workload, name) != knob.default}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _type(knob: Option) -> dict[str, Any]:
    if knob.type.startswith("tuple"):
        return {"type": "array", "items": {"type": "string"}}
    kind = {"int": "integer", "float": "number", "Mapping": "object"}.get(knob.type.partition("[")[0].split(" ")[0])
    if kind is None:
        allowed = {"enum": [knob.default, *knob.names()]} if knob.choices and not knob.file else {"type": "string"}
        return {"anyOf": [{"type": "string"}, {"type": "object"}]} if "Mapping" in knob.type else allowed
    limits = {"minimum": knob.minimum, "exclusiveMinimum": knob.above}
    return {"type": kind} | {name: limit for name, limit in limits.items() if limit is not None}
