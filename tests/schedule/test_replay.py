"""Time and blame on schedules made by hand: what a core waited for, tick by tick."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from monet.schedule.simulation.queues import could_start, needed_by
from monet.schedule.simulation.records import (
    COMPUTE,
    DATA,
    EVICT,
    JOIN,
    MOVE,
    READ,
    SPACE,
    WRITE,
    Bookings,
    Dependencies,
    Events,
    Nodes,
)
from monet.schedule.simulation.replay import Timed, longest_chain, replay

CORE, OTHER, LINK, PORT, DRAM = range(5)
CORES, RESOURCES = 2, 5
ON_CHIP = 9  # the first memory that is not


@dataclass(frozen=True)
class N:
    """A node: its kind, ticks by resource, (node, lag, reason) that it waits for, and latency."""

    kind: int
    books: dict[int, int]
    waits: tuple[tuple[int, int, int], ...] = ()
    latency: int = 0


def events_of(*given: N) -> Events:
    nodes = Nodes.zeros(len(given))
    deps, books = [wait for one in given for wait in one.waits], [book for one in given for book in one.books.items()]
    nodes.kind[:], nodes.latency[:] = [one.kind for one in given], [one.latency for one in given]
    nodes.duration[:] = [max(one.books.values(), default=0) for one in given]
    nodes.dep_end[:], nodes.book_end[:] = (
        np.cumsum([len(one.waits) for one in given]),
        np.cumsum([len(one.books) for one in given]),
    )
    nodes.dep_start[1:], nodes.book_start[1:] = nodes.dep_end[:-1], nodes.book_end[:-1]
    return Events(
        nodes,
        Dependencies.of(np.array(deps, np.int64).reshape(-1, 3)),
        Bookings.of(np.array(books, np.int64).reshape(-1, 2)),
    )


def timed(*given: N) -> Timed:
    zeros = [np.zeros(len(given), np.int64) for _ in range(4)]
    found = Timed(*zeros, np.zeros((CORES, 4), np.int64), np.zeros(RESOURCES, np.int64))
    replay(events_of(*given), found, CORES)
    return found


def waits(*given: N) -> dict[str, int]:
    """Ticks that the first core waited, by what for."""
    names = ("dram", "link", "dependency", "space")
    return {name: ticks for name, ticks in zip(names, timed(*given).waits[CORE].tolist(), strict=True) if ticks}


CASES = {
    "a read from DRAM, with its latency": (
        (N(READ, {DRAM: 10}, latency=5), N(COMPUTE, {CORE: 7}, ((0, 0, DATA),))),
        {"dram": 15},
    ),
    "a write that has to be over": (
        (N(WRITE, {DRAM: 10}), N(COMPUTE, {CORE: 7}, ((0, 0, DATA),))),
        {"dram": 10},
    ),
    "a move over a link": (
        (N(MOVE, {LINK: 10}), N(COMPUTE, {CORE: 7}, ((0, 0, DATA),))),
        {"link": 10},
    ),
    "what another core computes": (
        (N(COMPUTE, {OTHER: 30}), N(COMPUTE, {CORE: 7}, ((0, 0, DATA),))),
        {"dependency": 30},
    ),
    "space, whoever frees it": (
        (N(EVICT, {DRAM: 10}), N(COMPUTE, {CORE: 7}, ((0, 0, SPACE),))),
        {"space": 10},
    ),
    "space through a join stays space": (
        (N(READ, {DRAM: 4}), N(COMPUTE, {OTHER: 9}), N(JOIN, {}, ((0, 0, SPACE), (1, 0, SPACE))),
         N(COMPUTE, {CORE: 7}, ((2, 0, SPACE),))),
        {"space": 9},
    ),
    "data through a join is what the join waited for last": (
        (N(READ, {DRAM: 4}), N(MOVE, {LINK: 9}), N(JOIN, {}, ((0, 0, DATA), (1, 0, DATA))),
         N(COMPUTE, {CORE: 7}, ((2, 0, DATA),))),
        {"link": 9},
    ),
    "first another core, then the move of what it made": (
        (N(COMPUTE, {OTHER: 20}), N(MOVE, {LINK: 5}, ((0, 0, DATA),)), N(COMPUTE, {CORE: 7}, ((1, 0, DATA),))),
        {"dependency": 20, "link": 5},
    ),
    "a read that queues behind another is DRAM all the way": (
        (N(READ, {DRAM: 20}), N(READ, {DRAM: 5}), N(COMPUTE, {CORE: 7}, ((1, 0, DATA),))),
        {"dram": 25},
    ),
    "a move that queues behind a read is the link all the way": (
        (N(READ, {DRAM: 20, LINK: 20}), N(MOVE, {LINK: 5}), N(COMPUTE, {CORE: 7}, ((1, 0, DATA),))),
        {"link": 25},
    ),
    "the port of a memory that another core is using": (
        (N(COMPUTE, {OTHER: 30, PORT: 30}), N(COMPUTE, {CORE: 7, PORT: 3})),
        {"link": 30},
    ),
    "only what the core did not compute meanwhile": (
        (N(READ, {DRAM: 10}), N(COMPUTE, {CORE: 6}), N(COMPUTE, {CORE: 7}, ((0, 0, DATA),))),
        {"dram": 4},
    ),
    "a lag after a node is charged to that node": (
        (N(COMPUTE, {OTHER: 3}), N(COMPUTE, {CORE: 7}, ((0, 4, DATA),))),
        {"dependency": 7},
    ),
    "nothing": ((N(READ, {DRAM: 10}), N(COMPUTE, {CORE: 7})), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_waiting_is_blamed_on_what_was_going_on(case: str) -> None:
    given, expected = CASES[case]
    assert waits(*given) == expected


def test_times_causes_and_reasons() -> None:
    found = timed(
        N(READ, {DRAM: 10, LINK: 4}, latency=2),
        N(READ, {DRAM: 6}),  # behind it in the queue
        N(COMPUTE, {CORE: 5}, ((0, 0, DATA), (1, 3, SPACE))),
        N(WRITE, {LINK: 8}, ((2, 0, DATA),)),
    )
    assert found.start.tolist() == [0, 10, 19, 24]
    assert found.end.tolist() == [12, 16, 24, 32]
    assert found.cause.tolist() == [-1, 0, 1, 2]
    assert found.why.tolist() == [0, 2, 1, 0]
    assert found.free.tolist() == [24, 0, 32, 0, 16]


def test_of_two_that_end_together_the_first_is_the_cause() -> None:
    reads = N(READ, {DRAM: 4}), N(MOVE, {LINK: 4})
    found = timed(*reads, N(COMPUTE, {CORE: 1}, ((1, 0, DATA), (0, 0, SPACE))))
    assert (found.cause[2], found.why[2]) == (1, DATA)


def test_the_longest_chain_knows_neither_queues_nor_space() -> None:
    given = (
        N(READ, {DRAM: 10}, latency=2),
        N(READ, {DRAM: 6}),
        N(COMPUTE, {CORE: 5}, ((0, 1, DATA),)),
        N(COMPUTE, {CORE: 9}, ((1, 0, DATA), (2, 0, SPACE))),
    )
    assert longest_chain(events_of(*given)) == 18


@pytest.mark.parametrize(
    ("strict", "expected"), [(False, [0, 0, 10, 22, 10, 10, 15]), (True, [0, 0, 10, 15, 10, 10, 15])]
)
def test_reads_and_writes_queue_apart_before_they_are_merged(strict: bool, expected: list[int]) -> None:
    """Ten ticks of a read are no reason to wait for another read, nor for a write; a core does its tiles in order; what
    queues behind something that could not start yet does not start before it."""
    given = (
        N(READ, {DRAM: 10}),
        N(READ, {DRAM: 6}),
        N(COMPUTE, {CORE: 5}, ((0, 0, DATA),)),
        N(WRITE, {DRAM: 8}, ((2, 7, DATA),)),
        N(READ, {DRAM: 1}, ((0, 0, DATA),)),
        N(READ, {DRAM: 1}),
        N(COMPUTE, {CORE: 3}),
    )
    start = np.zeros(len(given), np.int64)
    could_start(events_of(*given), start, CORES, RESOURCES, ON_CHIP, False, strict)
    assert start.tolist() == expected


def test_what_a_port_moves_does_not_hold_up_what_cores_read_and_write() -> None:
    """A collective takes its port for a hundred ticks, and its result is written then; results of cores, and what is
    read for them, go before."""
    given = (
        N(READ, {DRAM: 10}),
        N(COMPUTE, {1: 100}, ((0, 0, DATA),)),
        N(WRITE, {DRAM: 10}, ((1, 0, DATA),)),
        N(READ, {DRAM: 3}),
        N(COMPUTE, {CORE: 5}, ((3, 0, DATA),)),
        N(WRITE, {DRAM: 3}, ((4, 0, DATA),)),
    )
    start, events = np.zeros(len(given), np.int64), events_of(*given)
    events.nodes.target[0] = events.nodes.source[2] = ON_CHIP
    could_start(events, start, CORES, RESOURCES, ON_CHIP, False, False)
    assert start.tolist() == [0, 10, 110, 0, 3, 8]
    could_start(events, start, CORES, RESOURCES, ON_CHIP + 1, False, False)
    assert start[5] == 110  # in one queue with the others it would


def test_what_one_port_moves_does_not_hold_up_another() -> None:
    """The result of a long collective is written late; that of a short one over another port, behind it in the program,
    is not."""
    given = (
        N(COMPUTE, {1: 100}),
        N(WRITE, {DRAM: 10}, ((0, 0, DATA),)),
        N(COMPUTE, {CORE: 5}),
        N(WRITE, {DRAM: 3}, ((2, 0, DATA),)),
    )
    start, events = np.zeros(len(given), np.int64), events_of(*given)
    events.nodes.source[1], events.nodes.source[3] = ON_CHIP, ON_CHIP + 1
    could_start(events, start, CORES, RESOURCES, ON_CHIP, False, False)
    assert start.tolist() == [0, 100, 0, 5]


def test_what_is_read_far_ahead_comes_just_in_time() -> None:
    """Weights of the third tile may come from the start, but are needed last: they come behind what the second tile
    needs from another core, which takes the same wires. The first weights are needed at once."""
    given = (
        N(READ, {DRAM: 4, LINK: 4}),
        N(COMPUTE, {CORE: 10}, ((0, 0, DATA),)),
        N(READ, {DRAM: 6, LINK: 6}),  # weights of the last tile, behind those of the one before
        N(READ, {DRAM: 5, LINK: 5}, latency=1),
        N(MOVE, {LINK: 3}, ((1, 0, DATA),)),
        N(COMPUTE, {CORE: 10}, ((4, 0, DATA), (2, 2, DATA))),
        N(COMPUTE, {CORE: 10}, ((5, 0, DATA), (3, 0, DATA))),
    )
    start, events = np.zeros(len(given), np.int64), events_of(*given)
    could_start(events, start, CORES, RESOURCES, ON_CHIP, False, False)
    assert start.tolist() == [0, 4, 0, 0, 14, 17, 27]
    could = start.copy()
    needed_by(events, start, CORES, RESOURCES, False)
    assert start.tolist() == [0, 4, 9, 21, 14, 17, 27]  # 17 - 2 - 6; 27 - 5 - 1
    needed_by(events, could, CORES, RESOURCES, True)  # a move too: 17 - 3, when it could start anyway
    assert could.tolist() == start.tolist()
