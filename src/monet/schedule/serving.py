"""In which order cores, links and DRAM serve what waits for them, and when everything starts and ends then."""

from __future__ import annotations

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
)
from monet.schedule.simulation.queues import asked_for, reorder
from monet.schedule.simulation.records import Events, Nodes
from monet.schedule.simulation.replay import WAIT_HOST, Timed, last_end, longest_booked, replay
from monet.schedule.simulation.workspace import Workspace, own_workspace


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
    start then, what comes first in the plan (``dispatch``): what is fetched far ahead does not wait in front of what is
    needed before. ``strict``: everything is served by when it is asked for, so that what a core asks for after a tile
    comes behind that tile's results however long these take to the wires. Either order is fixed, so timing stays a
    longest path. What is found lies in ``room``, if one is given."""
    return timed_in_order(decided, machine, order_of_service(decided, machine, strict=strict), room or Workspace())


def served_within(decided: Decided, machine: Machine, most: int, *, strict: bool) -> int:
    """The makespan of what ``served`` finds, or ``most`` if that is less."""
    events, resources = decided.events, len(machine.resource_names)
    if longest_booked(events, resources) >= most:
        return most
    return last_end(events, order_of_service(decided, machine, strict=strict), resources, most)


def order_of_service(decided: Decided, machine: Machine, *, strict: bool) -> I64:
    """The order in which nodes are served."""
    events, cores, resources = decided.events, len(machine.cores), len(machine.resource_names)
    if not strict:
        return dispatched(events, cores, resources, own_workspace())
    asked = np.empty(len(events.nodes), np.int64)
    asked_for(events, asked, cores, resources, machine.first_outside, machine.routes.depth > 0)
    return np.argsort(asked, kind="stable")


def dispatched(events: Events, cores: int, resources: int, room: Workspace) -> I64:
    """Run the ``dispatch`` kernel; what it needs lies in ``room``."""
    count = len(events.nodes)
    walk = Walk(
        events,
        cores,
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
    dispatch(walk)
    return walk.order


def timed_in_order(decided: Decided, machine: Machine, order: I64, room: Workspace) -> tuple[Decided, Timed]:
    """Nodes served in some order, and when; in ``room``."""
    nodes, place = decided.events.nodes, np.empty(len(order), np.int64)
    moved = room.table(Nodes, len(nodes))
    reorder(order, nodes, moved, place)
    found = decided.renumbered(moved, place, room)
    return found, run_replay(found, machine)
