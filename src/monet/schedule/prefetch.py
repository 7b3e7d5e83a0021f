"""When a core may ask for the operands of a tile: a property of the hardware, and one rule for every chip.

A core with n tile buffers (``tile_buffers`` of its description) asks for a tile's operands when it is done with the
tile n before: with one, after the tile before and behind that tile's results, which are queued on the same wires by
then; with two, while the tile before runs. Requests are served in the order in which they are asked for. Where the
number is not given, the room in the core's memories is the limit, and of all requests that could be served the first in
the plan is (``serving.served``).
"""

from __future__ import annotations

import numpy as np

from monet.arrays import I64
from monet.schedule.expansion.expand import Expanded
from monet.schedule.schedule import Decided, bookings_of
from monet.schedule.simulation.records import MOVE, READ, Dependencies, Events


def ask_when_free(decided: Decided, expanded: Expanded, buffers: I64, ports: int) -> Decided:
    """Let every fetch for a tile wait for the tile that had its buffer before; ``buffers``: by core, 0 for no limit.
    Cores from ``ports`` on are ports: what they take from a memory on chip they take at once, to make room there."""
    nodes, deps, bookings = decided.events
    owner, booking = bookings_of(nodes.book_start, nodes.book_end)
    resource = bookings.resource[booking]
    before = np.full(len(nodes), -1, np.int64)
    asks = ((nodes.kind == READ) | (nodes.kind == MOVE)) & (nodes.step >= 0)
    core_of = expanded.tables.steps.core[nodes.step]
    for core in np.flatnonzero(buffers):
        runs = owner[resource == core]
        last = runs[np.flatnonzero(np.diff(nodes.step[runs], append=-1))]  # of every tile that the core runs, in order
        mine = np.flatnonzero(asks & (core_of == core) & ((core < ports) | (nodes.kind == READ)))
        tile = np.searchsorted(last, mine) - buffers[core]
        before[mine] = np.where(tile >= 0, last[np.maximum(tile, 0)], -1) if len(last) else -1
    waits = before >= 0
    more = Dependencies.zeros(int(waits.sum()))  # no lag, for data
    more.node[:] = before[waits]
    deps = Dependencies.of(np.insert(deps.plain, nodes.dep_end[waits], more.plain, axis=0))
    upto = np.cumsum(waits)
    nodes = nodes.copied()
    nodes.dep_start[:] += upto - waits
    nodes.dep_end[:] += upto
    return decided._replace(events=Events(nodes, deps, bookings))
