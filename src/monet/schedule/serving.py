"""In which order links and DRAM serve what waits for them, and when everything starts and ends then."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from monet.arrays import I64
from monet.schedule.machine import Machine
from monet.schedule.schedule import Decided
from monet.schedule.simulation.queues import could_start, needed_by, packed
from monet.schedule.simulation.records import NEVER
from monet.schedule.simulation.replay import WAIT_HOST, Timed, booked_ticks, last_end, replay
from monet.schedule.simulation.workspace import Workspace

TICKS = attrgetter("ticks")
FAR = 1.25  # orders that take so many times as long as is of interest are not improved


class Ordered(NamedTuple):
    """Nodes served in some order: the makespan (or more than is of interest), and when each ends."""

    ticks: int
    order: I64
    end: I64


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
    order, _ = best_order(decided, machine, strict)
    return timed_in_order(decided, machine, order, room or Workspace())


def served_within(decided: Decided, machine: Machine, most: int, *, strict: bool) -> int:
    """The makespan of what ``served`` finds, or ``most`` if that is less, or if the first orders take ``FAR`` times as
    long."""
    booked = _booked(decided, machine)
    if booked.max(initial=0) >= most:
        return most
    _, ticks = best_order(decided, machine, strict, most=min(NEVER, int(FAR * most)), booked=booked)
    return min(most, ticks)


def _booked(decided: Decided, machine: Machine) -> I64:
    """How long each resource is booked for in all."""
    booked = np.empty(len(machine.resource_names), np.int64)
    booked_ticks(decided.events, booked)
    return booked


def best_order(
    decided: Decided,
    machine: Machine,
    strict: bool,
    whole: Callable[[I64, I64], int] | None = None,
    most: int = NEVER,
    booked: I64 | None = None,
) -> tuple[I64, int]:
    """The best order in which nodes may be served, the first of equals, and its ticks. What takes ``most`` is not
    improved. ``whole``: ticks of all that the nodes stand for, of an order and when nodes end in it. ``booked``: how
    long each resource is, if it is known."""
    events, cores, resources = decided.events, len(machine.cores), len(machine.resource_names)
    booked = _booked(decided, machine) if booked is None else booked
    start = np.empty(len(events.nodes), np.int64)
    could_start(events, start, cores, resources, machine.first_outside, machine.routes.depth > 0, strict)

    def timed(order: I64, most: int) -> Ordered:
        end = np.empty(len(order), np.int64)
        if whole is None:
            return Ordered(last_end(events, order, booked, most, end), order, end)
        last_end(events, order, booked, NEVER, end)
        return Ordered(whole(order, end), order, end)

    def by_need() -> I64:
        """Reads by when they are needed if all starts when it could, or did."""
        needed_by(events, start, cores, resources)
        return _sorted(start)

    best = timed(_sorted(start), most)
    if not strict:
        needed = by_need()
        if not np.array_equal(needed, best.order):
            best = min(best, timed(needed, best.ticks), key=TICKS)
        if best.ticks < most:
            np.subtract(best.end, events.nodes.duration, out=start)
            start -= events.nodes.latency
            best = min(best, timed(by_need(), best.ticks), key=TICKS)
    return best.order, best.ticks


def _sorted(start: I64) -> I64:
    """Nodes by when they start, of equal ones the first."""
    keys = np.empty(len(start), np.int64)
    if not packed(start, keys):
        return np.argsort(start, kind="stable")
    keys.sort()
    keys &= (1 << len(start).bit_length()) - 1
    return keys


def timed_in_order(decided: Decided, machine: Machine, order: I64, room: Workspace) -> tuple[Decided, Timed]:
    """Nodes served in some order, and when; in ``room``."""
    found = decided.in_order(order, room)
    return found, run_replay(found, machine)
