"""In which order cores, links and DRAM serve what waits for them, and when everything starts and ends then."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import numpy as np

from monet.arrays import I64
from monet.schedule.machine import Machine
from monet.schedule.schedule import Decided
from monet.schedule.simulation.dispatch import (
    Counts,
    Expected,
    Followers,
    Happenings,
    Turns,
    Walk,
    Wires,
    dispatch,
    list_followers,
)
from monet.schedule.simulation.queues import asked_for, reorder
from monet.schedule.simulation.records import NEVER, Events, Nodes
from monet.schedule.simulation.replay import WAIT_HOST, Timed, last_end, longest_booked, replay
from monet.schedule.simulation.workspace import Workspace, own_workspace

FAR = 1.25  # an order that takes so many times as long as is of interest is not improved


def run_replay(decided: Decided, machine: Machine) -> Timed:
    """Run the ``replay`` kernel."""
    count, cores = len(decided.events.nodes), len(machine.cores)
    start, end, cause, why = (np.zeros(count, np.int64) for _ in range(4))
    free = np.zeros(len(machine.resource_names), np.int64)
    timed = Timed(start, end, cause, why, np.zeros((cores, WAIT_HOST + 1), np.int64), free)
    replay(decided.events, timed, cores)
    return timed


def served(
    decided: Decided, machine: Machine, *, strict: bool = False, room: Workspace | None = None
) -> tuple[Decided, Timed]:
    """Merge the queues of links and DRAM, and time what comes out. Whenever one is free it serves, of all that could
    start then, what comes first in the plan: what is fetched far ahead does not wait in front of what is needed before.
    But a large transfer that has begun is in the way; so the same is tried with nothing beginning that would hold up
    what is known to come before it, and the faster of the two is taken. ``strict``: everything is served by when it is
    asked for, so that what a core asks for after a tile comes behind that tile's results however long these take to the
    wires. Every order is fixed, so timing stays a longest path. What is found lies in ``room``, if one is given."""
    events, resources = decided.events, len(machine.resource_names)
    order, _ = best_order(decided, machine, strict, lambda order: last_end(events, order, resources, NEVER))
    return timed_in_order(decided, machine, order, room or Workspace())


def served_within(decided: Decided, machine: Machine, most: int, *, strict: bool) -> int:
    """The makespan of what ``served`` finds, or ``most`` if that is less, or if the first order takes ``FAR`` times as
    long."""
    events, resources = decided.events, len(machine.resource_names)
    if longest_booked(events, resources) >= most:
        return most
    far = min(NEVER, int(FAR * most))
    _, ticks = best_order(decided, machine, strict, lambda order: last_end(events, order, resources, far), far)
    return min(most, ticks)


def best_order(
    decided: Decided, machine: Machine, strict: bool, ticks_of: Callable[[I64], int], most: int = NEVER
) -> tuple[I64, int]:
    """The best order in which nodes may be served, the first of equals, and its ticks. What takes ``most`` is not
    improved."""
    if strict:
        order = as_asked(decided, machine)
        return order, ticks_of(order)
    walk = walk_of(decided.events, len(machine.cores), len(machine.resource_names), own_workspace())
    order = dispatched(walk, yields=False)
    ticks = ticks_of(order)
    if ticks >= most:
        return order, ticks
    other = dispatched(walk, yields=True)
    return min((order, ticks), (other, ticks_of(other)), key=itemgetter(1))


def as_asked(decided: Decided, machine: Machine) -> I64:
    """The order in which nodes are asked for."""
    asked = np.empty(len(decided.events.nodes), np.int64)
    cores, resources = len(machine.cores), len(machine.resource_names)
    asked_for(decided.events, asked, cores, resources, machine.first_outside, machine.routes.depth > 0)
    return np.argsort(asked, kind="stable")


def walk_of(events: Events, cores: int, resources: int, room: Workspace) -> Walk:
    """What ``dispatch`` needs for some nodes, in ``room``."""
    count = len(events.nodes)
    walk = Walk(
        events,
        cores,
        False,
        np.empty(count, np.int64),
        room.table(Turns, count),
        room.table(Wires, resources),
        room.table(Expected, len(events.bookings)),
        np.empty(count + 1, np.int64),
        room.table(Followers, len(events.deps) + len(events.bookings)),
        room.table(Happenings, count + resources),
        np.empty(count + resources, np.int64),
        np.empty(count, np.int64),
        room.table(Counts, 1),
    )
    list_followers(walk)
    return walk


def dispatched(walk: Walk, *, yields: bool) -> I64:
    """Run the ``dispatch`` kernel."""
    order = np.empty(len(walk.order), np.int64)
    dispatch(walk._replace(order=order, yields=yields))
    return order


def timed_in_order(decided: Decided, machine: Machine, order: I64, room: Workspace) -> tuple[Decided, Timed]:
    """Nodes served in some order, and when; in ``room``."""
    nodes, place = decided.events.nodes, np.empty(len(order), np.int64)
    moved = room.table(Nodes, len(nodes))
    reorder(order, nodes, moved, place)
    found = decided.renumbered(moved, place, room)
    return found, run_replay(found, machine)
