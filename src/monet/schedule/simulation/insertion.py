"""More nodes put among those of a schedule, at given places in the order in which resources serve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monet.schedule.schedule import Decided
from monet.schedule.simulation.records import DATA, READ, WRITE, Bookings, Dependencies, Events, Nodes


@dataclass(frozen=True)
class Extra:
    """A transfer between DRAM and the world outside, put before node ``before``. ``books``: ticks by resource."""

    before: int
    to_dram: bool
    bytes: int
    latency: int  # ticks
    books: Mapping[int, int]
    waits: tuple[int, ...]  # nodes of the schedule
    after: tuple[int, ...]  # other extras, by position: earlier ones


def inserted(
    decided: Decided, extras: Sequence[Extra], held_up: Mapping[int, Sequence[int]]
) -> tuple[Decided, list[int]]:
    """What was decided with extra nodes in it, and where these are. They are given in order. ``held_up``: nodes of the
    schedule that wait for extras, by position."""
    old, deps, bookings = decided.events
    before, count = np.array([extra.before for extra in extras], np.int64), len(old)
    place = np.arange(count) + np.searchsorted(before, np.arange(count), side="right")
    places = (before + np.arange(len(extras))).tolist()
    nodes = Nodes.zeros(count + len(extras))
    nodes.plain[place] = old.plain
    waits: list[tuple[int, int, int]] = []  # more dependencies, more bookings
    books: list[tuple[int, int]] = []
    n_deps, n_books = len(deps), len(bookings)
    for extra, at in zip(extras, places, strict=True):
        nodes.kind[at], nodes.step[at], nodes.bytes[at] = WRITE if extra.to_dram else READ, -1, extra.bytes
        nodes.latency[at], nodes.duration[at] = extra.latency, max(extra.books.values())
        nodes.dep_start[at], nodes.book_start[at] = n_deps + len(waits), n_books + len(books)
        waits += [(after, 0, DATA) for after in (*place[list(extra.waits)].tolist(), *(places[i] for i in extra.after))]
        books += extra.books.items()
        nodes.dep_end[at], nodes.book_end[at] = n_deps + len(waits), n_books + len(books)
    found = decided.renumbered(nodes, place)
    deps = found.events.deps
    for number, others in held_up.items():
        reader, mine = place[number], slice(old.dep_start[number], old.dep_end[number])
        nodes.dep_start[reader] = n_deps + len(waits)
        waits += [*map(tuple, deps.plain[mine].tolist()), *((places[i], 0, DATA) for i in others)]
        nodes.dep_end[reader] = n_deps + len(waits)
    more_deps, more_books = np.array(waits, np.int64).reshape(-1, 3), np.array(books, np.int64).reshape(-1, 2)
    events = Events(
        nodes,
        Dependencies.of(np.concatenate([deps.plain, more_deps])),
        Bookings.of(np.concatenate([bookings.plain, more_books])),
    )
    return found._replace(events=events), places
