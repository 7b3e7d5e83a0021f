"""In which order cores and wires serve what waits for them: whenever one is free, of all that could start now the node
that comes first in the plan. A compiled kernel.

What is fetched far ahead is then not in the way of what is needed sooner, however much room there is to fetch into.
What needs several of them would hardly ever find all of them free: so nothing begins that would still be under way on
one of them when something before it in the plan, which waits for another, can have it.

Time goes from one happening to the next. What finds a resource taken, or wanted sooner, waits in the queue of that, a
skew heap of nodes by their number; the first of it is looked at when the resource is free, or was to be taken.
"""

from __future__ import annotations

from typing import NamedTuple

from monet.arrays import I64, Table
from monet.compiled import kernel, part
from monet.schedule.simulation.records import NEVER, Events

NOBODY = -1


class Turns(Table):
    """By node: what it waits for, and its place in a queue."""

    missing: I64  # nodes that it waits for and that have no time yet
    ready: I64  # when all the others let it start
    queue: I64  # the resource that it queues for; NOBODY: none
    left: I64  # nodes behind it in that queue
    right: I64


class Wires(Table):
    """By resource."""

    free: I64
    queue: I64  # the first node of its queue
    called: I64  # 1: its queue is looked at again
    expected: I64  # the first booking whose node waits for another one


class Expected(Table):
    """By booking, in the heap of those of a resource whose nodes wait for another: its node, and those behind it."""

    node: I64
    left: I64
    right: I64
    listed: I64  # 1: it is in that heap


class Followers(Table):
    """What waits for a node, and the ticks from its end on."""

    node: I64
    lag: I64


class Happenings(Table):
    """A heap by time: a node may start, or (below zero) a resource is free."""

    when: I64
    what: I64


class Counts(Table):
    """Rows in use."""

    happenings: I64
    chances: I64
    settled: I64
    served: I64


class Walk(NamedTuple):
    """All that ``dispatch`` changes as it goes. ``chances``: a heap of nodes that may start now; ``settled``: nodes
    that wait for no other that has no time; ``first``: of the followers of each node."""

    events: Events
    cores: int  # resources below this are cores
    order: I64
    turns: Turns
    wires: Wires
    expected: Expected
    first: I64
    followers: Followers
    happenings: Happenings
    chances: I64
    settled: I64
    counts: Counts


@kernel
def dispatch(walk: Walk) -> None:
    """Fill in the order in which nodes are served: each after all that it waits for, those of a core as they are. By a
    replay of it nothing starts later than here, and some things sooner: those that waited in vain for what was to
    come."""
    counts, now = walk.counts[0], 0
    start_anew(walk)
    list_followers(walk)
    for number in range(walk.order.size):
        if walk.turns[number].missing == 0:
            walk.settled[counts.settled] = number
            counts.settled += 1
    settle(walk, now)
    while counts.chances > 0 or counts.happenings > 0:
        if counts.chances == 0:
            now = walk.happenings[0].when
        while counts.happenings > 0 and walk.happenings[0].when <= now:
            happen(walk, now)
        if counts.chances > 0:
            give_chance(walk, now)


@part()
def start_anew(walk: Walk) -> None:
    """Nothing is served yet."""
    counts = walk.counts[0]
    counts.happenings, counts.chances, counts.settled, counts.served = 0, 0, 0, 0
    walk.first[:] = 0
    for resource in range(len(walk.wires)):
        wire = walk.wires[resource]
        wire.free, wire.called, wire.queue, wire.expected = 0, 0, NOBODY, NOBODY
    for b in range(len(walk.expected)):
        walk.expected[b].listed = 0


@part()
def list_followers(walk: Walk) -> None:
    """Note how many nodes each waits for, and what waits for it."""
    nodes, deps, bookings = walk.events.nodes, walk.events.deps, walk.events.bookings
    for number in range(walk.order.size):
        node, turn = nodes[number], walk.turns[number]
        turn.missing, turn.ready, turn.queue = node.dep_end - node.dep_start, 0, NOBODY
        for d in range(node.dep_start, node.dep_end):
            walk.first[deps[d].node + 1] += 1
        for b in range(node.book_start, node.book_end):
            if bookings[b].resource < walk.cores:
                wire = walk.wires[bookings[b].resource]
                if wire.queue >= 0:  # the last node of its core, while this goes on
                    turn.missing += 1
                    walk.first[wire.queue + 1] += 1
                wire.queue = number
    for number in range(walk.order.size):
        walk.first[number + 1] += walk.first[number]
    note_followers(walk)


@part()
def note_followers(walk: Walk) -> None:
    """List the followers of every node."""
    nodes, deps, bookings = walk.events.nodes, walk.events.deps, walk.events.bookings
    for resource in range(len(walk.wires)):
        walk.wires[resource].queue = NOBODY  # the last node of a core, while this goes on
    for number in range(walk.order.size):
        node = nodes[number]
        for d in range(node.dep_start, node.dep_end):
            note_follower(walk, deps[d].node, number, deps[d].lag)
        for b in range(node.book_start, node.book_end):
            resource = bookings[b].resource
            if resource < walk.cores:
                if walk.wires[resource].queue >= 0:
                    note_follower(walk, walk.wires[resource].queue, number, -NEVER)
                walk.wires[resource].queue = number
    for resource in range(len(walk.wires)):
        walk.wires[resource].queue = NOBODY


@part()
def note_follower(walk: Walk, number: int, follower: int, lag: int) -> None:
    """Note one. While this goes on, ``first`` of a node is where its next follower goes."""
    row = walk.followers[walk.first[number]]
    row.node, row.lag = follower, lag
    walk.first[number] += 1


@part()
def settle(walk: Walk, now: int) -> None:
    """Let nodes that wait for no other that has no time have their chance, now or when they are ready. One that needs
    no resource has its time, and its followers with it."""
    counts = walk.counts[0]
    while counts.settled > 0:
        counts.settled -= 1
        number = walk.settled[counts.settled]
        node, ready = walk.events.nodes[number], walk.turns[number].ready
        if node.book_start == node.book_end:
            serve(walk, number, ready)
        elif ready <= now:
            add_chance(walk, number)
        else:
            add_happening(walk, ready, number)


@part()
def serve(walk: Walk, number: int, start: int) -> None:
    """A node starts: its followers know when it ends."""
    counts, node = walk.counts[0], walk.events.nodes[number]
    end = start + node.duration + node.latency
    walk.order[counts.served] = number
    counts.served += 1
    for f in range(walk.first[number - 1] if number > 0 else 0, walk.first[number]):
        follower = walk.followers[f]
        turn = walk.turns[follower.node]
        turn.ready = max(turn.ready, end + follower.lag)
        turn.missing -= 1
        if turn.missing == 0:
            walk.settled[counts.settled] = follower.node
            counts.settled += 1


@part()
def begin(walk: Walk, number: int, now: int) -> None:
    """A node takes its resources."""
    node = walk.events.nodes[number]
    for b in range(node.book_start, node.book_end):
        booking = walk.events.bookings[b]
        walk.wires[booking.resource].free = now + booking.ticks
    serve(walk, number, now)
    settle(walk, now)


@part()
def what_is_taken(walk: Walk, number: int, now: int) -> int:
    """Of the resources of a node, the one that is free last, if that is later than now; else NOBODY."""
    node, found, free = walk.events.nodes[number], NOBODY, now
    for b in range(node.book_start, node.book_end):
        resource = walk.events.bookings[b].resource
        if walk.wires[resource].free > free:
            found, free = resource, walk.wires[resource].free
    return found


@part()
def give_chance(walk: Walk, now: int) -> None:
    """The first node that may start now does so, or goes into a queue."""
    number = next_chance(walk)
    queue = walk.turns[number].queue
    if queue >= 0:
        if walk.wires[queue].queue != number:
            return  # what has come before it meanwhile is looked at first
        if walk.wires[queue].free > now:
            look_again(walk, queue, walk.wires[queue].free)
            return
        leave_queue(walk, number, queue)
    taken, wanted = what_is_taken(walk, number, now), NOBODY
    if taken >= 0:
        enter_queue(walk, number, taken)
        look_again(walk, taken, walk.wires[taken].free)
    else:
        wanted = what_is_wanted(walk, number, now)
        if wanted >= 0:
            enter_queue(walk, number, wanted)
            look_again(walk, wanted, when_wanted(walk, wanted))
        else:
            begin(walk, number, now)
    if queue >= 0 and queue != wanted:
        look(walk, queue, now)


@part()
def look(walk: Walk, resource: int, now: int) -> None:
    """Give the first in the queue of a resource its chance, now or when it is free."""
    wire = walk.wires[resource]
    if wire.queue >= 0:
        if wire.free <= now:
            add_chance(walk, wire.queue)
        else:
            look_again(walk, resource, wire.free)


@part()
def look_again(walk: Walk, resource: int, when: int) -> None:
    """Look at the queue of a resource at some time, if that is not to be done anyway."""
    wire = walk.wires[resource]
    if wire.called == 0:
        wire.called = 1
        add_happening(walk, when, -1 - resource)


@part()
def happen(walk: Walk, now: int) -> None:
    """The first happening: a node, or the first in the queue of a resource, has its chance."""
    what = next_happening(walk)
    if what >= 0:
        add_chance(walk, what)
        return
    walk.wires[-1 - what].called = 0
    look(walk, -1 - what, now)


# --- what waits for others too ----------------------------------------------------------------------------------------


@part()
def expect(walk: Walk, number: int) -> None:
    """The wires of a node will be wanted for it."""
    node = walk.events.nodes[number]
    for b in range(node.book_start, node.book_end):
        resource, place = walk.events.bookings[b].resource, walk.expected[b]
        if resource >= walk.cores and place.listed == 0:
            place.node, place.left, place.right, place.listed = number, NOBODY, NOBODY, 1
            walk.wires[resource].expected = melded_bookings(walk, walk.wires[resource].expected, b)


@part()
def what_is_wanted(walk: Walk, number: int, now: int) -> int:
    """Of the wires of a node, the first that the first of the nodes before it in the plan that wait for another one
    could have before the node would be done with it; NOBODY if there is none."""
    node = walk.events.nodes[number]
    for b in range(node.book_start, node.book_end):
        booking = walk.events.bookings[b]
        if booking.resource < walk.cores:
            continue
        first = first_expected(walk, booking.resource)
        if 0 <= first < b and now < when_wanted(walk, booking.resource) < now + booking.ticks:
            return int(booking.resource)
    return NOBODY


@part()
def first_expected(walk: Walk, resource: int) -> int:
    """The first booking of a resource whose node waits for another one; NOBODY if there is none."""
    wire = walk.wires[resource]
    while wire.expected >= 0:
        place = walk.expected[wire.expected]
        if walk.turns[place.node].queue >= 0:
            break
        place.listed = 0
        wire.expected = melded_bookings(walk, place.left, place.right)
    return int(wire.expected)


@part()
def when_wanted(walk: Walk, resource: int) -> int:
    """When the first of the nodes that a resource expects could start."""
    number = walk.expected[walk.wires[resource].expected].node
    node, start = walk.events.nodes[number], walk.turns[number].ready
    for b in range(node.book_start, node.book_end):
        start = max(start, walk.wires[walk.events.bookings[b].resource].free)
    return int(start)


@part()
def melded_bookings(walk: Walk, one: int, other: int) -> int:
    """Two heaps as one: its first booking."""
    if one < 0 or other < 0:
        return max(one, other)
    first, behind = min(one, other), max(one, other)
    at = first
    while True:
        place = walk.expected[at]
        after = place.right
        place.right = place.left
        if after < 0:
            place.left = behind
            return first
        at, behind = min(after, behind), max(after, behind)
        place.left = at


# --- queues -----------------------------------------------------------------------------------------------------------


@part()
def enter_queue(walk: Walk, number: int, resource: int) -> None:
    """Queue a node for a resource; if it needs others, these expect it."""
    turn, wire, node = walk.turns[number], walk.wires[resource], walk.events.nodes[number]
    turn.queue, turn.left, turn.right = resource, NOBODY, NOBODY
    wire.queue = melded(walk, wire.queue, number)
    if node.book_end - node.book_start > 1:
        expect(walk, number)


@part()
def leave_queue(walk: Walk, number: int, resource: int) -> None:
    """The first of a queue leaves it."""
    turn = walk.turns[number]
    walk.wires[resource].queue = melded(walk, turn.left, turn.right)
    turn.queue = NOBODY


@part()
def melded(walk: Walk, one: int, other: int) -> int:
    """Two queues as one: its first node."""
    if one < 0 or other < 0:
        return max(one, other)
    first, behind = min(one, other), max(one, other)
    at = first
    while True:
        turn = walk.turns[at]
        after = turn.right
        turn.right = turn.left
        if after < 0:
            turn.left = behind
            return first
        at, behind = min(after, behind), max(after, behind)
        turn.left = at


# --- heaps ------------------------------------------------------------------------------------------------------------


@part()
def add_chance(walk: Walk, number: int) -> None:
    """A node may start now."""
    heap, counts = walk.chances, walk.counts[0]
    at = counts.chances
    counts.chances += 1
    while at > 0 and heap[(at - 1) >> 1] > number:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = number


@part()
def next_chance(walk: Walk) -> int:
    """The first in the plan of all nodes that may start now."""
    heap, counts = walk.chances, walk.counts[0]
    counts.chances -= 1
    size, first, last, at = counts.chances, heap[0], heap[counts.chances], 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= last:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = last
    return int(first)


@part()
def add_happening(walk: Walk, when: int, what: int) -> None:
    """Something happens at some time."""
    heap, counts = walk.happenings, walk.counts[0]
    at = counts.happenings
    counts.happenings += 1
    while at > 0 and heap[(at - 1) >> 1].when > when:
        above = heap[(at - 1) >> 1]
        heap[at].when, heap[at].what = above.when, above.what
        at = (at - 1) >> 1
    heap[at].when, heap[at].what = when, what


@part()
def next_happening(walk: Walk) -> int:
    """What happens first."""
    heap, counts = walk.happenings, walk.counts[0]
    counts.happenings -= 1
    size, first, last, at = counts.happenings, heap[0].what, heap[counts.happenings], 0
    when, what = last.when, last.what
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and heap[below + 1].when < heap[below].when:
            below += 1
        if heap[below].when >= when:
            break
        heap[at].when, heap[at].what = heap[below].when, heap[below].what
        at = below
    heap[at].when, heap[at].what = when, what
    return int(first)
