"""Parameters of a family of networks: each is a field with its default, its meaning and its check, read from text
(``layers=48,hidden=6144``) by one parser for all families."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from monet.errors import ModelError, nearest

if TYPE_CHECKING:  # families are listed without loading what builds them
    from monet.graph import Graph

_LONGEST = 1 << 16  # blocks and widths: a graph of more operators than this helps nobody


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a field of a family means and which values it takes; ``unset`` says what stands in where it has none."""

    about: str
    allowed: str
    read: Callable[[str], Any]
    fits: Callable[[Any], bool]
    unset: str = ""


def _whole(about: str, low: int, high: int | None, unset: str = "") -> dict[str, Any]:
    allowed = f"a whole number, at least {low}" if high is None else f"a whole number from {low} to {high:,}"

    def fits(value: Any) -> bool:
        return isinstance(value, int) and value >= low and (high is None or value <= high)

    return {"parameter": Parameter(about, allowed, int, fits, unset)}


def whole(default: int, about: str) -> int:
    """A size: a whole number, at least 1."""
    return field(default=default, metadata=_whole(about, 1, None))


def repeats(default: int, about: str) -> int:
    """How often something is repeated: a whole number, at least 1 and not absurdly large."""
    return field(default=default, metadata=_whole(about, 1, _LONGEST))


def whole_or(unset: str, about: str) -> int | None:
    """A size that follows from the others, as ``unset`` says, where it is not given."""
    return field(default=None, metadata=_whole(about, 1, None, unset))


def wholes(default: tuple[int, ...], about: str, least: int = 1) -> tuple[int, ...]:
    """Several whole numbers, written 2-2-2-2."""

    element: Parameter = _whole("", 1, _LONGEST)["parameter"]

    def read(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("-"))

    def fits(value: Any) -> bool:
        return isinstance(value, tuple) and len(value) >= least and all(map(element.fits, value))

    allowed = f"{least} or more whole numbers, each from 1 to {_LONGEST:,}, as in {shown(default)}"
    return field(default=default, metadata={"parameter": Parameter(about, allowed, read, fits)})


def _probability(about: str, unset: str = "") -> dict[str, Any]:
    return {"parameter": Parameter(about, "a number from 0 to below 1", float, lambda value: 0 <= value < 1, unset)}


def probability(default: float, about: str) -> float:
    """A share of elements that are dropped."""
    return field(default=default, metadata=_probability(about))


def probability_or(unset: str, about: str) -> float | None:
    """A share of elements that are dropped; as ``unset`` says where it is not given."""
    return field(default=None, metadata=_probability(about, unset))


def choice(default: str, allowed: tuple[str, ...], about: str) -> str:
    """One of several words."""
    given = Parameter(about, " or ".join(allowed), str, lambda value: value in allowed)
    return field(default=default, metadata={"parameter": given})


_SWITCH = {"yes": True, "no": False, "true": True, "false": False}


def switch(default: bool, about: str) -> bool:
    """Yes or no."""
    given = Parameter(about, "yes or no", lambda text: _SWITCH[text.lower()], lambda value: isinstance(value, bool))
    return field(default=default, metadata={"parameter": given})


def shown(value: object, unset: str = "") -> str:
    """A value as one writes it after a model's name."""
    if value is None:
        return unset
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """A family of networks; its fields are its parameters. ``image`` and ``sequence``, where it has them, are sizes
    that a caller may set too."""

    trains: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, parameter in parameters(self).items():
            _check(name, parameter, getattr(self, name))
        self.check()

    def check(self) -> None:  # noqa: B027  most families have nothing to refuse
        """Refuse parameters that do not go together."""

    @abstractmethod
    def build(self, name: str, batch: int) -> Graph:
        """The forward graph, called ``name``."""


def parameters(family: Family) -> dict[str, Parameter]:
    """What can be set, by name."""
    given: tuple[Field[Any], ...] = fields(family)
    return {declaration.name: declaration.metadata["parameter"] for declaration in given}


def _check(name: str, parameter: Parameter, value: Any) -> None:
    if not (value is None and parameter.unset) and not parameter.fits(value):
        raise ModelError(f"{name}={shown(value)}: expected {parameter.allowed}")


F = TypeVar("F", bound=Family)


def with_parameters(name: str, family: F, text: str) -> F:
    """``family`` with what ``text`` sets (``layers=48,hidden=6144``); ``name`` is what the user calls it."""
    known, values = parameters(family), dict[str, Any]()
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ModelError(f"{name}:{text}: {part!r} is not PARAMETER=VALUE; {name} has {_names(known)}")
        if key not in known:
            close = [hint + " "] if (hint := nearest(key, known)).startswith("did") else []
            raise ModelError(f"{name}:{text}: unknown parameter {key!r}; {''.join(close)}{name} has {_names(known)}")
        if key in values:
            raise ModelError(f"{name}:{text}: {key} is given twice")
        try:
            values[key] = known[key].read(value)
        except (ValueError, KeyError):
            raise ModelError(f"{name}:{text}: {key}={value}: expected {known[key].allowed}") from None
    return changed(f"{name}:{text}", family, values)


def changed(name: str, family: F, values: dict[str, Any]) -> F:
    """``family`` with other values; an error says that it is ``name`` that does not take them."""
    try:
        return replace(family, **values)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from None


def _names(known: dict[str, Parameter]) -> str:
    return ", ".join(known) or "no parameters"
