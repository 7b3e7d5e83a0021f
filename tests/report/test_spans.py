"""When operators run: own tiles and the transfers that lead to them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from monet.report.spans import operator_spans, phase_spans
from monet.schedule.result import Result, Timeline
from tests.report.synthetic import synthetic

SECOND = 4.0  # ticks in a second


def timeline_of(result: Result, events: list[tuple[int, int, int, int, int]]) -> Result:
    """The first operators of a result with these events: (start, end, resource, operator, kind)."""
    columns = np.array(events, np.int64).T
    timeline = Timeline(SECOND, ("core", "dram"), tuple(row["name"] for row in result.operators), *columns)
    return dataclasses.replace(result, timeline=timeline)


@pytest.mark.parametrize(
    ("events", "span"),
    [
        ([(10, 20, 0, 1, 0)], (10, 20)),
        ([(4, 10, 1, 1, 1), (10, 20, 0, 1, 0)], (4, 20)),  # the read it waited for
        ([(0, 5, 1, 1, 1), (10, 20, 0, 1, 0)], (10, 20)),  # prefetched long before
        ([(2, 6, 1, 1, 1), (6, 12, 1, 1, 3), (10, 20, 0, 1, 0)], (2, 20)),  # a chain of transfers
        ([(2, 10, 1, 1, 1), (0, 7, 0, 0, 0), (10, 20, 0, 1, 0)], (7, 20)),  # while the core did something else
        ([(10, 20, 0, 1, 0), (20, 30, 1, 1, 2), (40, 50, 0, 1, 0)], (10, 50)),  # from first to last tile
        ([(10, 20, 0, 1, 0), (15, 30, 1, 1, 1), (30, 40, 1, 1, 2)], (10, 40)),  # streams that outlast the tile
        ([(10, 20, 0, 1, 0), (30, 40, 1, 1, 2)], (10, 20)),  # written much later
    ],
)
def test_a_span_is_tiles_and_what_led_to_them(
    events: list[tuple[int, int, int, int, int]], span: tuple[int, int]
) -> None:
    result = timeline_of(synthetic("mlp-cartpole", "tpu-like", 60), events)
    found = operator_spans(result)[result.operators[1]["name"]]
    assert (found.start_s * SECOND, found.end_s * SECOND) == span


def test_spans_lie_within_the_events_of_their_operator() -> None:
    result = synthetic()
    spans = operator_spans(result)
    assert set(spans) == {row["name"] for row in result.operators}
    for row in result.operators:
        span = spans[row["name"]]
        assert row["start_s"] - 1e-12 <= span.start_s < span.end_s <= row["end_s"] + 1e-12
    phases = phase_spans(result)
    assert phases["forward"].end_s <= phases["update"].end_s == max(span.end_s for span in spans.values())
