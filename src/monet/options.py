"""Options: fields of a frozen dataclass that say, where they are declared, all that a place to ask for them needs.

The command line, the workloads of a space and the Python API read the same declarations. Nothing heavy is imported
here: tables of allowed names are looked up when a value other than the default is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from typing import Any

from monet.errors import MonetError, OptionError, nearest

GROUPS = ("model", "training", "checkpoint", "hardware", "schedule", "system")


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``name`` and ``type`` are those of its field.

    ``choices`` are names, or ``module:TABLE`` whose names they are. ``file`` says what a file may hold instead of one
    of them; so may a mapping, the content of such a file. ``minimum`` and ``maximum`` are allowed, ``above`` is
    not. ``separator`` divides a list written as one text. ``usual`` says what the default means. ``formerly`` is a name
    it no longer has.
    """

    help: str
    group: str
    flag: str = ""
    unit: str = ""
    choices: tuple[str, ...] | str = ()
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    file: str = ""
    separator: str = ""
    usual: str = ""
    formerly: str = ""
    default: Any = None
    name: str = ""
    type: str = ""

    def names(self) -> tuple[str, ...]:
        """Every allowed name, none if there is no list of them."""
        if not isinstance(self.choices, str):
            return self.choices
        module, _, table = self.choices.partition(":")
        return tuple(
            str(choice) if isinstance(choice, str) else choice.name for choice in getattr(import_module(module), table)
        )

    def read(self, given: Any) -> Any:
        """The value of the field for what was given, text or plain value; ``OptionError`` if there is none."""
        if given == self.default or given is None:
            return self.default
        value = READERS[self.type](self, given)
        for number in (value,) if isinstance(value, int | float) else ():
            if not math.isfinite(number):
                raise self.error(given, "a finite number is needed")
            if self.minimum is not None and number < self.minimum:
                raise self.error(given, f"at least {self.minimum} is needed")
            if self.above is not None and number <= self.above:
                raise self.error(given, f"more than {self.above} is needed")
            if self.maximum is not None and number > self.maximum:
                raise self.error(given, f"at most {self.maximum:,} is allowed, far above any that is trained")
        if self.choices:
            for name in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
                self._check_name(name)
        return value

    def _check_name(self, name: str) -> None:
        allowed = self.names()
        if name in allowed or (self.file and name.endswith((".yaml", ".yml"))):
            return
        hint = nearest(name, allowed)
        more = f", or {self.file}" if self.file else ""
        raise self.error(name, f"allowed are {', '.join(allowed)}{more}{f'; {hint}' if hint.startswith('did') else ''}")

    def error(self, value: object, reason: str) -> OptionError:
        """That the option cannot have this value."""
        return OptionError(self.name, value, reason)


def option(default: Any = MISSING, **facts: Any) -> Any:
    """A field with an ``Option`` of these facts; without a default it is required."""
    declared = Option(default=None if default is MISSING else default, **facts)
    if isinstance(default, Mapping):
        return field(default_factory=dict, metadata={"option": declared})
    return field(default=default, metadata={"option": declared})


@cache
def options_of(declaring: type) -> dict[str, Option]:
    """The options of a dataclass by name, those of one group next to each other."""
    found = [
        replace(declaration.metadata["option"], name=declaration.name, type=str(declaration.type))
        for declaration in fields(declaring)
        if "option" in declaration.metadata
    ]
    return {declared.name: declared for declared in sorted(found, key=lambda declared: GROUPS.index(declared.group))}


def read_options(values: object) -> None:
    """Check every option of a dataclass that is being made, and bring it to its type."""
    for name, declared in options_of(type(values)).items():  # type: ignore[arg-type]  # a class is hashable
        object.__setattr__(values, name, declared.read(getattr(values, name)))


# --- readers: what was given, as the type of the field; keyed by how a field's type is written ------------------------


def _whole(declared: Option, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given // 1:
        raise declared.error(given, "a whole number is needed")
    return int(given)


def _number(declared: Option, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise declared.error(given, "a number is needed")
    return float(given)


def _truth(declared: Option, given: Any) -> bool:
    if not isinstance(given, bool):
        raise declared.error(given, "true or false is needed")
    return given


def _text(declared: Option, given: Any) -> str:
    if not isinstance(given, str):
        raise declared.error(given, "a text is needed")
    return given


def _texts(declared: Option, given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split(declared.separator) if declared.separator else [given]
    if not isinstance(given, list | tuple) or not all(isinstance(part, str) for part in given):
        raise declared.error(given, "a list of texts is needed")
    return tuple(part.strip() for part in given if part.strip())


def _sizes(declared: Option, given: Any) -> dict[str, int]:
    pairs = _pairs(declared, given, "NAME=SIZE with a size of at least 1")
    for name, size in pairs.items():
        if not (size.isdecimal() if isinstance(size, str) else isinstance(size, int)) or int(size) < 1:
            raise declared.error(f"{name}={size}", "write NAME=SIZE with a size of at least 1")
    return {name: int(size) for name, size in pairs.items()}


def _values(declared: Option, given: Any) -> dict[str, Any]:
    pairs = _pairs(declared, given, "NAME=VALUE")
    if isinstance(given, Mapping):
        return pairs
    from yaml import YAMLError, safe_load

    from monet.nesting import check_nesting

    found = {}
    for name, value in pairs.items():
        try:
            check_nesting(value, name)
            found[name] = safe_load(value)
        except (YAMLError, ValueError, MonetError) as error:
            raise declared.error(f"{name}={value}"[:80], f"not a value: {str(error).splitlines()[0]}") from None
    return found


def _pairs(declared: Option, given: Any, form: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    found = {}
    for pair in _texts(declared, given):
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise declared.error(pair, f"write {form}")
        found[name] = value
    return found


def _text_or_content(declared: Option, given: Any) -> str | dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else _text(declared, given)


READERS: dict[str, Callable[[Option, Any], Any]] = {
    "int": _whole,
    "int | None": _whole,
    "float": _number,
    "float | None": _number,
    "bool": _truth,
    "str": _text,
    "str | Optimizer": lambda _, given: given,
    "tuple[str, ...]": _texts,
    "Mapping[str, int]": _sizes,
    "Mapping[str, Any]": _values,
    "str | Mapping[str, Any]": _text_or_content,
}
