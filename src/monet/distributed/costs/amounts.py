"""Amounts by name that add up: seconds, joules, bytes of a pass. The difference of two passes is what a block costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Name = tuple[str, ...]


@dataclass(frozen=True)
class Amounts:
    """Numbers by name, added and multiplied name by name; a name that is absent is zero.

    Of a pass: ``("seconds",)``; of these ``("exposed", kind)``, ``("host",)`` in which cores wait for it,
    ``("recomputation",)``, ``("update",)`` and ``("weight_gradient",)``; ``("energy", level)``; ``("macs", dtype)`` and
    ``("macs again", dtype)``; on a port ``("network", kind, group)`` seconds, ``("calls", kind, group)``,
    ``("sent", kind, group, level)`` bytes a device sends; ``("message",)`` bytes to another stage; ``("leaving",)``
    most bytes that wait for the port to the host; ``("launches",)`` groups that an eager host issues.
    """

    values: Mapping[Name, float] = field(default_factory=dict)

    def __getitem__(self, name: Name | str) -> float:
        return self.values.get((name,) if isinstance(name, str) else name, 0.0)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts({name: self[name] + other[name] for name in {**self.values, **other.values}})

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts({name: self[name] - other[name] for name in {**self.values, **other.values}})

    def __mul__(self, factor: float) -> Amounts:
        return Amounts({name: value * factor for name, value in self.values.items()})

    def under(self, first: str) -> dict[Name, float]:
        """Amounts whose name begins like this, by the rest of their name."""
        return {name[1:]: value for name, value in self.values.items() if name[0] == first and len(name) > 1}


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum of some amounts."""
    found: dict[Name, float] = {}
    for part in parts:
        for name, value in part.values.items():
            found[name] = found.get(name, 0.0) + value
    return Amounts(found)
