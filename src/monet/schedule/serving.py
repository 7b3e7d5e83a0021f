"""In which order links and DRAM serve what waits for them, and when everything starts and ends then."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import numpy as np

from monet.arrays import I64
from monet.schedule.machine import Machine
from monet.schedule.schedule import Decided
from monet.schedule.simulation.queues import could_start, needed_by, reorder
from monet.schedule.simulation.records import NEVER, Nodes
from monet.schedule.simulation.replay import WAIT_HOST, Timed, booked_ticks, end_times, last_end, replay
from monet.schedule.simulation.workspace import Workspace

FAR = 1.25  # orders that take so many times as long as is of interest are not improved


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
    """Merge the queues of links and DRAM, and time what comes out. Reads stay in order, and so do writes; but a result
    that waits for its tile does not hold up the reads queued behind it.

    Everything is served by when it could start if it had the wires to itself. Where room is the only limit of how far
    ahead operands are fetched, this puts all that a large memory has room for before what is needed now; so reads are
    also served by when they are needed then, and by when they were needed in the faster of these two, where all else
    stays as it was served. The fastest order is taken. ``strict``: only the first, by when something is asked for, so
    that what a core asks for after a tile comes behind that tile's results however long these take to the wires. Every
    order is fixed, so timing stays a longest path. What is found lies in ``room``, if one is given.
    """
    booked = _booked(decided, machine)
    order, _ = best_order(decided, machine, strict, lambda order: last_end(decided.events, order, booked, NEVER))
    return timed_in_order(decided, machine, order, room or Workspace())


def served_within(decided: Decided, machine: Machine, most: int, *, strict: bool) -> int:
    """The makespan of what ``served`` finds, or ``most`` if that is less, or if the first orders take ``FAR`` times as
    long."""
    booked = _booked(decided, machine)
    if booked.max(initial=0) >= most:
        return most
    far = min(NEVER, int(FAR * most))
    _, ticks = best_order(decided, machine, strict, lambda order: last_end(decided.events, order, booked, far), far)
    return min(most, ticks)


def _booked(decided: Decided, machine: Machine) -> I64:
    """How long each resource is booked for in all."""
    booked = np.empty(len(machine.resource_names), np.int64)
    booked_ticks(decided.events, booked)
    return booked


def best_order(
    decided: Decided, machine: Machine, strict: bool, ticks_of: Callable[[I64], int], most: int = NEVER
) -> tuple[I64, int]:
    """The best order in which nodes may be served, the first of equals, and its ticks. What takes ``most`` is not
    improved."""
    events, cores, resources = decided.events, len(machine.cores), len(machine.resource_names)
    start = np.empty(len(events.nodes), np.int64)
    has_levels = machine.routes.depth > 0
    could_start(events, start, cores, resources, machine.first_outside, has_levels, strict)
    best = np.argsort(start, kind="stable")
    least = ticks_of(best)
    if strict:
        return best, least

    def by_need() -> I64:
        """Reads by when they are needed if all starts when it could, or did."""
        needed_by(events, start, cores, resources, has_levels)
        return np.argsort(start, kind="stable")

    needed = by_need()
    if not np.array_equal(needed, best):
        best, least = min((best, least), (needed, ticks_of(needed)), key=itemgetter(1))
    if least < most:
        end_times(events, best, start, resources)
        start -= events.nodes.duration + events.nodes.latency
        needed = by_need()
        best, least = min((best, least), (needed, ticks_of(needed)), key=itemgetter(1))
    return best, least


def timed_in_order(decided: Decided, machine: Machine, order: I64, room: Workspace) -> tuple[Decided, Timed]:
    """Nodes served in some order, and when; in ``room``."""
    nodes, place = decided.events.nodes, np.empty(len(order), np.int64)
    moved = room.table(Nodes, len(nodes))
    reorder(order, nodes, moved, place)
    found = decided.renumbered(moved, place, room)
    return found, run_replay(found, machine)
