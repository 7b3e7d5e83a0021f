"""Damage to texts, bytes and plain values, decided by a random generator (hypothesis's own, or a seeded one)."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

ATOMS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e-30, 1e30, 1e308, float("inf"), float("-inf"), float("nan"), 10**11,
    2**31, 2**63, 2**64, -(2**63), 10**40, "", " ", "x", "..", "../x", "/", "~", "nan", ".inf", "1e999", "-5 MiB",
    "12 parsecs", "0r0w", "99999r1w", "0x0", "100000x100000", "None", "[", "{", "a: b: c", "\N{BELL}", "é", "🧨",
    "0" * 400,
    "*", "**", "%s", "{x}", [], {}, [[]], [None], {"": None}, {"x": {"y": []}}, [1, "a", None], ["I", "I"],
)  # fmt: skip


def atom(random: Random) -> Any:
    """One value that fits nowhere in particular."""
    value = random.choice(ATOMS)
    return deep(random.choice((5, 60, 120))) if random.random() < 0.01 else copy.deepcopy(value)


def deep(levels: int) -> Any:
    """Lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def alike(value: Any, there: list[tuple[Any, Any]], random: Random) -> Any:
    """Another value of the same type: what a reader that looks at types alone lets pass."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return random.choice((0, 1, -1, -value, value + 1, value * 1000, 2**40, 2**62))
    if isinstance(value, float):
        return random.choice((0.0, -value, value * 1e6, 1e300, 1e-300))
    others = [container[key] for container, key in there if type(container[key]) is type(value)]
    return copy.deepcopy(random.choice(others))


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything inside a plain value."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        here = pending.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            found.append((here, key))
            pending.append(here[key])
    return found


def damaged(value: Any, random: Random, most: int = 3) -> Any:
    """A copy of a plain value with some of its parts replaced, taken out, moved or added to."""
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, most)):
        there = places(value)
        if not there:
            return atom(random)
        container, key = random.choice(there)
        what = random.randrange(9)
        if what <= 2:
            container[key] = atom(random)
        elif what >= 6:
            container[key] = alike(container[key], there, random)
        elif what == 3:
            del container[key]
        elif what == 4:
            other, name = random.choice(there)
            container[key] = copy.deepcopy(other.get(name) if isinstance(other, dict) else None)
        elif isinstance(container, dict):
            container[random.choice(("x", "name", "use", "size", str(key) + "s"))] = atom(random)
        else:
            container.append(atom(random))
    return value


def torn(data: bytes, random: Random) -> bytes:
    """Bytes cut short, with some changed, doubled or put in."""
    found = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(found) + 1)
        what = random.randrange(5)
        if what == 0:
            del found[at:]
        elif what == 1 and at < len(found):
            found[at] = random.randrange(256)
        elif what == 2:
            found[at:at] = bytes(random.randrange(256) for _ in range(random.randint(1, 8)))
        elif what == 3:
            del found[at : at + random.randint(1, 40)]
        else:
            found[at:at] = found[max(0, at - 60) : at]
    return bytes(found)
