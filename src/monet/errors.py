"""Errors a user can cause: each says what was given, where, what is allowed, and the nearest valid name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_MEANT = 3
CLOSE, CLOSE_SHORT, SHORT = 0.5, 0.6, 4  # as difflib rates it; of names of so few characters more has to agree
MOST_LISTED = 80  # names in a message: all of the zoo, not all operators of a network


class MonetError(Exception):
    """Bad input. The command line prints the message alone and exits with code 2."""


class OptionError(MonetError):
    """An option that cannot have its value. ``option`` is the name of a field; whoever took the value from a user says
    it in the words of that place: ``--batch 0``, ``workloads.training.batch``. Here it is said as in Python."""

    def __init__(self, option: str, value: object, reason: str) -> None:
        self.option, self.value, self.reason = option, value, reason
        super().__init__(f"{option}={value!r}: {reason}")

    def __reduce__(self) -> tuple[type[OptionError], tuple[str, object, str]]:
        return OptionError, (self.option, self.value, self.reason)


class ModelError(MonetError):
    """A model cannot be read, or does not describe a valid graph."""


class ComputerMemoryError(MonetError, MemoryError):
    """What was asked for takes more memory than the computer that monet runs on has free."""


class ModelWarning(UserWarning):
    """Something about a model that was read is worth a look. The command line prints it as one line."""


class UnsupportedOperators(ModelError):
    """A model uses operators that monet has no entry for; lists all of them at once."""

    def __init__(self, source: str, missing: dict[str, tuple[int, str]]) -> None:
        """``missing`` maps an operator to (how often it occurs, where it occurs first)."""
        self.missing = missing
        rows = [f"  {kind}: {count}×, first at {place}" for kind, (count, place) in sorted(missing.items())]
        super().__init__(f"{source}: {len(missing)} unsupported operator(s)\n" + "\n".join(rows))


def nearest(name: str, allowed: Iterable[str]) -> str:
    """A hint that names the closest allowed spelling, or lists what is allowed when nothing is close.

    What is longer by some ending is meant before what is only similar: ``fp8`` is ``fp8_e4m3``, not ``fp64``. Names
    that are equally close are all named.
    """
    options = sorted(set(allowed))
    close = [option for option in options if name and option.startswith(name)]
    if not close:
        cutoff = CLOSE if len(name) > SHORT else CLOSE_SHORT
        alike = {option: difflib.SequenceMatcher(None, option, name).ratio() for option in options}
        best = max(alike.values(), default=0.0)
        close = [option for option in options if alike[option] == best >= cutoff]
    if 0 < len(close) <= MOST_MEANT:
        return f"did you mean {' or '.join(map(repr, close))}?"
    more = f" and {len(options) - MOST_LISTED:,} more" if len(options) > MOST_LISTED else ""
    return f"allowed: {', '.join(options[:MOST_LISTED])}{more}"
