"""What microscaling takes of a step: narrow copies by what they are of, padding, time and energy of making them."""

from __future__ import annotations

from dataclasses import dataclass

from monet.formats import FORMATS
from monet.report.quantities import count, joules, nbytes, percent, seconds
from monet.schedule.result import Result

PLURAL = {"input": "inputs of layers", "weight": "weights", "gradient": "gradients"}


@dataclass(frozen=True, slots=True)
class Copies:
    """All copies of one kind of value in one format."""

    of: str
    format: str
    count: int
    values: int  # different ones: with two copies of each, half as many
    bytes: int
    padding_bytes: int


@dataclass(frozen=True, slots=True)
class Quantising:
    """The operators that make copies, and their shares of all cores' busy time and of the step's dynamic energy."""

    operators: int
    busy_s: float
    busy_share: float
    energy_j: float
    energy_share: float


def copies(result: Result) -> tuple[Copies, ...]:
    """By what they are of and by format, the most bytes first; runs along any axis are one format."""
    found: dict[tuple[str, str], list[int]] = {}
    values: dict[tuple[str, str], set[str]] = {}
    for row in result.copies:
        key = PLURAL[row.of], FORMATS[row.format].mode
        sums = found.setdefault(key, [0, 0, 0])
        sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + row.bytes, sums[2] + row.padding_bytes
        values.setdefault(key, set()).add(row.value)
    made = [Copies(*key, count, len(values[key]), size, padding) for key, (count, size, padding) in found.items()]
    return tuple(sorted(made, key=lambda row: -row.bytes))


def quantising(result: Result) -> Quantising:
    """What making the copies takes."""
    rows = [row for row in result.operators if row.kind == "quantize"]
    busy, energy = sum(row.busy_s for row in rows), sum(row.energy_j for row in rows)
    whole = sum(row.busy_s for row in result.operators) or 1.0
    dynamic = sum(row.energy_j for row in result.operators) or 1.0
    return Quantising(len(rows), busy, busy / whole, energy, energy / dynamic)


def sentences(result: Result) -> tuple[str, ...]:
    """Both in words; none for a step without narrow copies."""
    if not result.copies:
        return ()
    spent = quantising(result)
    listed = ", ".join(
        f"{row.count} of {row.values} {row.of} in {row.format}, {nbytes(row.bytes)} "
        f"({percent(row.padding_bytes / row.bytes)} padding)"
        for row in copies(result)
    )
    return f"Narrow copies of operands: {listed}", took(spent), padding(result)


def padding(result: Result) -> str:
    """Multiplications that only fill groups, in words."""
    asked = sum(row.macs for row in result.operators)
    filling = sum(row.padding_macs for row in result.operators)
    share = percent(filling / ((asked + filling) or 1))
    return (
        f"Padding: {count(filling)} multiply-accumulates only fill groups, {share} of all that arrays do for "
        f"the {count(asked)} of the step"
    )


def took(spent: Quantising) -> str:
    """What making the copies takes, in words."""
    return (
        f"Quantising: {spent.operators} operators, {seconds(spent.busy_s)} of cores' time ({percent(spent.busy_share)} "
        f"of all), {joules(spent.energy_j)} ({percent(spent.energy_share)} of the dynamic energy)"
    )
