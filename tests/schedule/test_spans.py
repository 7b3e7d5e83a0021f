"""When operators run: own tiles and the transfers that lead straight to them."""

from __future__ import annotations

import numpy as np
import pytest

from monet.schedule.measurement.spans import operator_spans

Event = tuple[int, int, int, int]


@pytest.mark.parametrize(
    ("tiles", "moves", "span"),
    [
        ([(10, 20)], [], (10, 20)),
        ([(10, 20)], [(4, 10)], (4, 20)),  # the read it waited for
        ([(10, 20)], [(0, 5)], (10, 20)),  # prefetched long before
        ([(10, 20)], [(2, 6), (6, 12)], (2, 20)),  # a chain of transfers
        ([(10, 20), (40, 50)], [(20, 30)], (10, 50)),  # from first to last tile
        ([(10, 20)], [(15, 30), (30, 40)], (10, 40)),  # streams that outlast the tile
        ([(10, 20)], [(30, 40)], (10, 20)),  # written much later
        ([(10, 20)], [(0, 2), (1, 9), (9, 10)], (0, 20)),  # every one of them touches the next
        ([(10, 20)], [(0, 3), (5, 10)], (5, 20)),  # a gap ends the chain, whatever lies before it
        ([], [(3, 5), (8, 9)], (3, 9)),  # it computes nothing
    ],
)
def test_a_span_is_tiles_and_what_led_to_them(tiles, moves, span: tuple[int, int]) -> None:
    # operator 0 and 2 have events of their own, on other cores
    found = spans(
        [(1, 0, *one) for one in tiles] + [(0, 1, 0, 100), (2, 2, 5, 6)],
        [(1, *one) for one in moves] + [(0, 0, 90), (2, 0, 5)],
    )
    assert found[1] == span
    assert found[0] == (0, 100)
    assert found[2] == (0, 6)


def test_a_span_does_not_begin_while_the_core_does_something_else() -> None:
    assert spans([(0, 0, 0, 7), (1, 0, 10, 20)], [(1, 2, 10)]) == [(0, 7), (7, 20)]


def spans(tiles: list[Event], moves: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    count = 1 + max(one[0] for one in (*tiles, *moves))
    start, end = operator_spans(count, columns(tiles, 4), columns(moves, 3), 0)
    return [(int(a), int(b)) for a, b in zip(start, end, strict=True)]


def columns(rows, many: int):
    return tuple(np.array(rows, np.int64).reshape(-1, many).T)
