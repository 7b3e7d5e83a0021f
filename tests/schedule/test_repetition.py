"""Layers that a schedule repeats to the tick."""

from __future__ import annotations

import random

import numpy as np
import pytest

from monet.graph import Graph
from monet.hardware import Accelerator
from monet.request import Request
from monet.schedule.evaluation import evaluate
from monet.schedule.measurement.repetition import LEAST_TIMES, repetitions
from monet.schedule.plan import Plan
from monet.schedule.result_rows import OperatorRow
from tests.schedule.cases import random_accelerator


def repeats_plainly(kind: list[int], start: list[int], size: list[int], first: int, period: int, upto: int) -> bool:
    """Whether all operators but those of the first period do what the one a period before did, always as much later."""
    pairs = [(number, number - period) for number in range(first + period, upto)]
    alike = all(kind[a] == kind[b] and size[a] == size[b] for a, b in pairs)
    return alike and len({start[a] - start[b] for a, b in pairs}) == 1


@pytest.mark.parametrize("seed", range(60))
def test_what_repeats_is_what_a_plain_reading_finds(seed: int) -> None:
    draw = random.Random(seed)
    kind, start, size = list[int](), list[int](), list[int]()
    for _ in range(draw.randint(1, 4)):
        period, ticks = draw.randint(2, 6), draw.randint(50, 90)
        layer = [(draw.randrange(4), 7 * place, draw.randrange(3)) for place in range(period)]
        begun = start[-1] + 10 if start else 0
        for number in range(draw.randint(1, 7)):
            late = draw.random() < 0.1
            for one, at, many in layer:
                kind.append(one)
                start.append(begun + number * ticks + at + late)
                size.append(many)
    found = repetitions(np.array(kind), np.array(start), [np.array(size)])
    ends = 0
    for one in found:
        upto = one.first + one.operators
        assert one.first >= ends
        assert one.times >= LEAST_TIMES
        assert repeats_plainly(kind, start, size, one.first, one.period, upto)
        longer = upto < len(kind) and repeats_plainly(kind, start, size, one.first, one.period, upto + 1)
        earlier = one.first > 0 and repeats_plainly(kind, start, size, one.first - 1, one.period, upto)
        assert not longer
        assert not earlier
        assert one.ticks == start[upto - 1] - start[upto - 1 - one.period]
        ends = upto


def extrapolated(row: OperatorRow, name: str, layer: str, later: float, rate: float) -> tuple[object, ...]:
    """What a row says, so much later and of another layer; ``rate``: ticks per second."""
    return (name, layer, row.kind, row.cores, row.split, row.tiles, round(rate * (row.start_s + later)), row.cycles,
            row.dram_read_bytes, row.dram_write_bytes, row.link_bytes, row.macs)  # fmt: skip


def test_equal_layers_of_a_schedule_are_found_and_named() -> None:
    result = Request("gpt:layers=8,hidden=64,heads=2", "tpu-like-quad", sequence=16, fusion="none").evaluate()
    forward = [note for note in result.notes if "repeat to the tick in forward" in note]
    assert len(forward) == 1
    names = forward[0].split()
    first, last = int(names[0].removeprefix("h.")), int(names[2].removeprefix("h."))
    assert last - first + 1 >= LEAST_TIMES
    rows = {row.name: row for row in result.operators if row.phase == "forward"}
    of_first = [row for row in rows.values() if row.layer.startswith(f"h.{first}.")]
    second = next(row for row in rows.values() if row.layer.startswith(f"h.{first + 1}."))
    apart, rate = second.start_s - of_first[0].start_s, result.ticks_per_second
    for number in range(first, last + 1):  # every layer is the first one, so much later
        for row in of_first:
            other = rows[row.name.replace(f"h.{first}.", f"h.{number}.")]
            expected = extrapolated(row, other.name, other.layer, (number - first) * apart, rate)
            assert extrapolated(other, other.name, other.layer, 0.0, rate) == expected


def test_layers_that_differ_are_not_said_to_repeat() -> None:
    assert not [note for note in Request("mlp", "edge-tpu").evaluate().notes if "repeat" in note]


def test_random_machines_repeat_or_say_nothing() -> None:
    """On some machines layers repeat, on others not: what is said is read off the schedule."""
    graph = Request("gpt:layers=6,hidden=16,heads=2,vocabulary=32", sequence=4, mode="inference").graph()
    said = [_said(graph, random_accelerator(random.Random(number))) for number in range(12)]
    assert sum(said) >= 3
    assert 0 in said


def _said(graph: Graph, accelerator: Accelerator) -> int:
    """How many notes say that layers repeat."""
    result = evaluate(graph, accelerator, Plan())
    return len([note for note in result.notes if "repeat to the tick" in note])
