"""Shared levels: memories between DRAM and those of the cores, and what they hold. Compiled parts of ``decide``.

A block that comes from DRAM is kept by every level on its way that has a use for it, and served from there, now and
later; results that leave a core, and what is driven out of its memory, stay in a level if that drives out only what
is needed later. A level never makes a plan impossible: what it has no room for passes by.

A level may hold a part of a block. It cannot know which part a transfer asks for, so shares stand for parts: until all
bytes of the block have come once, every byte asked for comes from above; after that, of all that is asked for, the
share that the level does not hold. ``r`` passes over a block of ``b`` bytes of which ``h`` are held bring
``b + (r - 1) · (b - h)`` from above.

Levels are *managed* (what is used last goes first, and what is not used again is not kept) or *caches* (everything is
kept, what was not used for longest goes first; and nothing comes there before a core has room for it).
"""

from __future__ import annotations

from monet.compiled import part
from monet.schedule.simulation.nodes import between, book_route, depend, in_rows, join, open_node, part_of
from monet.schedule.simulation.records import (
    DATA,
    EVICT,
    KEEP_WRITE,
    MOVE,
    NEVER,
    READ,
    SPACE,
    SPILL,
    STREAM_WRITE,
    Routes,
    State,
    Tables,
)
from monet.schedule.simulation.residency import (
    NO_ROOM,
    add_copy,
    farthest,
    guard_with,
    next_use,
    put_first,
    release,
    size_in,
    take_free,
    take_out,
    write_back,
    write_out,
)

# --- space ------------------------------------------------------------------------------------------------------------


@part()
def take(plan: Tables, routes: Routes, state: State, where: int, size: int, later_than: int) -> int:
    """Make room for ``size`` bytes in a core's memory and take them. The node to wait for, -1 for none, NO_ROOM if
    there is no way."""
    while state.memories[where].free < size:
        victim = farthest(plan, state, where, later_than)
        if victim < 0:
            return NO_ROOM
        drive_out(plan, routes, state, victim)
    return take_free(state, where, size)


@part()
def drive_out(plan: Tables, routes: Routes, state: State, copy: int) -> None:
    """Release a copy of a block in a core's memory; if it is the only one, it goes to a shared level or to DRAM."""
    number = state.copies[copy].block
    is_only = state.blocks[number].in_dram == 0 and state.blocks[number].copies == 1
    if is_only and not put_up(plan, routes, state, copy, EVICT):
        write_back(plan, routes, state, number, EVICT)
    release(state, copy)


@part()
def leaves_for_dram(plan: Tables, number: int) -> bool:
    """Whether a block that is written must come to DRAM. What only other cores need may stay in a level they share."""
    given = plan.blocks[number]
    return bool(given.persistent == 1 or (given.through == 1 and given.from_outside == 0))


@part()
def put_up(plan: Tables, routes: Routes, state: State, copy: int, kind: int) -> bool:
    """Copy a block that is used again from a core's memory to the nearest shared level that has room for it."""
    number, memory, memories = state.copies[copy].block, state.copies[copy].memory, state.at.shape[1]
    use, size = next_use(plan, state, number), plan.blocks[number].bytes
    if use >= NEVER or leaves_for_dram(plan, number):
        return False
    level = routes.parent[memory]
    while level > 0:
        pair = memory * memories + level
        if routes.exists[pair]:
            event = take_whole(plan, routes, state, level, size, use)
            if event != NO_ROOM:
                new = open_node(state, kind, -1, size, memory, level)
                depend(state, new, event, 0, SPACE)
                depend(state, new, state.guards[copy].ready, routes.latency[pair], DATA)
                book_route(state, routes, new, pair, size, size_in(plan, routes, number, memory), size, 0, 0)
                guard_with(state, copy, new, -1)
                there = add_copy(state, number, level, size)
                state.copies[there].came = new
                state.guards[there].ready = state.guards[there].until = new
                return True
        level = routes.parent[level]
    return False


@part()
def take_whole(plan: Tables, routes: Routes, state: State, level: int, size: int, later_than: int) -> int:
    """Take ``size`` bytes of a shared level, or NO_ROOM: nothing is driven out in vain."""
    if could_spare(plan, routes, state, level, size, later_than) < size:
        return NO_ROOM
    return make_and_take(plan, routes, state, level, size, later_than)


@part()
def could_spare(plan: Tables, routes: Routes, state: State, level: int, size: int, later_than: int) -> int:
    """Bytes of a shared level, at most ``size``, that are free or that others would make room for."""
    room, gang = state.memories[level].free, state.counters[0].gang
    copy = state.memories[level].oldest
    while copy >= 0 and room < size:
        number = state.copies[copy].block
        if state.blocks[number].pinned != gang and (routes.lru[level] or next_use(plan, state, number) > later_than):
            room += state.copies[copy].bytes
        copy = state.guards[copy].previous
    return int(min(size, room))


@part()
def make_and_take(plan: Tables, routes: Routes, state: State, level: int, size: int, later_than: int) -> int:
    """Take bytes of a shared level that it can spare; what has to go is written to DRAM if it lies nowhere else."""
    while state.memories[level].free < size:
        victim = longest_unused(state, level) if routes.lru[level] else farthest(plan, state, level, later_than)
        write_out(plan, routes, state, victim)
    return take_free(state, level, size)


@part()
def longest_unused(state: State, level: int) -> int:
    """The copy that was not used for longest, but for those of this gang."""
    copy = state.memories[level].oldest
    while state.blocks[state.copies[copy].block].pinned == state.counters[0].gang:
        copy = state.guards[copy].previous
    return int(copy)


# --- on the way to cores ----------------------------------------------------------------------------------------------


@part()
def is_above(routes: Routes, memory: int, level: int) -> bool:
    """Whether data from DRAM to a memory passes a shared level."""
    above = routes.parent[memory]
    while above > 0 and above != level:
        above = routes.parent[above]
    return bool(above > 0)


@part()
def stage(plan: Tables, routes: Routes, state: State, e: int, size: int, step: int, is_rest: bool) -> int:
    """Have a block come down from DRAM for ``size`` bytes that an entry takes of it. The levels on the way that have a
    part of it, or (unless this is the rest of a stream) keep one from now on, get what they miss, each from the next
    above. The nearest of them; 0 for DRAM itself."""
    entry = plan.entries[e]
    nearest, highest, wanted = 0, 0, size
    level = routes.parent[entry.memory]
    while level > 0 and (wanted > 0 or nearest == 0):
        copy = int(state.at[entry.block, level]) if is_rest else keep_at(plan, routes, state, entry.block, level)
        if copy >= 0:
            memory = state.memories[level]
            wanted = missing_bytes(state, copy, plan.blocks[entry.block].bytes, wanted)
            memory.missing, memory.below = wanted, highest
            highest = level
            if nearest == 0:
                nearest = level
        level = routes.parent[level]
    above, level = 0, highest
    while level > 0:
        if state.memories[level].missing > 0:
            bring(plan, routes, state, e, above, level, step, is_rest)
        above, level = level, state.memories[level].below
    return int(nearest)


@part()
def keep_at(plan: Tables, routes: Routes, state: State, number: int, level: int) -> int:
    """The copy of a block in a shared level; a new one if it is not there and is worth its space; -1 if there is
    none."""
    block, whole, gang = state.blocks[number], plan.blocks[number].bytes, state.counters[0].gang
    copy = int(state.at[number, level])
    if copy < 0:
        if block.in_dram == 0:  # the only valid copy is elsewhere; it is served from there
            return -1
        later_than = gang if block.asked > whole else use_after(plan, state, number, gang)
        if later_than == NEVER and not routes.lru[level]:
            return -1
        held = could_spare(plan, routes, state, level, whole, later_than)
        if held <= 0:
            return -1
        event = make_and_take(plan, routes, state, level, held, later_than)
        copy = add_copy(state, number, level, held)
        state.guards[copy].filled, state.guards[copy].until = 0, event
    elif routes.lru[level] and plan.blocks[number].resident != level:
        take_out(state, copy)
        put_first(state, copy)
    block.pinned = gang
    return copy


@part()
def use_after(plan: Tables, state: State, number: int, gang: int) -> int:
    """The gang that uses a block next after a given one."""
    use, end = state.blocks[number].use, plan.blocks[number].use_end
    while use < end and plan.uses[use] <= gang:
        use += 1
    return int(plan.uses[use]) if use < end else NEVER


@part()
def missing_bytes(state: State, copy: int, whole: int, wanted: int) -> int:
    """Of ``wanted`` bytes of a block those that a level has to get from above."""
    guard, held = state.guards[copy], state.copies[copy].bytes
    new = min(wanted, whole - guard.filled)
    guard.filled += new
    return int(new + int((wanted - new) * ((whole - held) / whole)))


@part()
def bring(plan: Tables, routes: Routes, state: State, e: int, above: int, level: int, step: int, is_rest: bool) -> None:
    """Get what a shared level misses of a block from the one above, or from DRAM."""
    entry, memory, memories = plan.entries[e], state.memories[level], state.at.shape[1]
    size, place = memory.missing, plan.blocks[entry.block].place
    pair = between(above, level, memories, place)
    copy, source = state.at[entry.block, level], state.at[entry.block, above]
    new = open_node(state, READ if above == 0 else MOVE, step, size, above, level)
    live = state.entries[e]
    own = size if live.bytes <= 0 else part_of(live.own, size, live.bytes)
    bursts = in_rows(size, entry.rows, routes.burst_bytes[place])
    book_route(state, routes, new, pair, size, max(1, own), size, bursts, place)
    state.events.nodes[new].latency = routes.latency[pair]
    guard = state.guards[copy]
    if guard.ready < 0:  # until then it is there when there is room
        depend(state, new, guard.until, 0, SPACE)
        guard.until = -1
    if routes.lru[level]:  # a cache asks for nothing by itself
        depend(state, new, live.room, 0, SPACE)
        if is_rest:
            latency = routes.latency[pair] + routes.latency[level * memories + entry.memory]
            depend(state, new, live.run, -state.events.nodes[live.run].duration - latency, DATA)
    if above == 0:
        depend(state, new, state.blocks[entry.block].dram_ready, 0, DATA)
    else:
        follow(state, new, source, size)
        guard_with(state, source, new, -1)
    if guard.ready >= 0 and state.events.nodes[guard.ready].source != above:
        guard.ready = join(state, guard.ready, new, DATA)
    else:  # over the same wires in order
        guard.ready = new
    if state.copies[copy].came < 0:
        state.copies[copy].came = new
    guard_with(state, copy, new, -1)


@part()
def follow(state: State, new: int, copy: int, needed: int) -> None:
    """The node opened last, with all its bookings, reads ``needed`` bytes of a copy in a shared level. If they are
    coming there it goes on with them as they come, and ends no earlier than the last of them."""
    ready = state.guards[copy].ready
    if ready < 0:
        return
    nodes, lag = state.events.nodes, 0
    before, memory = nodes[ready], state.copies[copy].memory
    if before.kind in (READ, MOVE) and before.target == memory:
        comes = before.duration
        if needed < before.bytes:
            comes = int(before.duration * (needed / before.bytes)) + 1
        lag = max(0, comes - nodes[new].duration) - before.duration
    depend(state, new, ready, lag, DATA)


# --- on the way to DRAM -----------------------------------------------------------------------------------------------


@part()
def look_for_homes(plan: Tables, routes: Routes, state: State, first: int, last: int) -> None:
    """For all blocks that some entries may stream out: the nearest level on the way of all cores that write them."""
    memories, gang = state.at.shape[1], state.counters[0].gang
    for e in range(first, last):
        entry = plan.entries[e]
        block = state.blocks[entry.block]
        if entry.kind == SPILL and entry.bytes > 0:
            block.spilled = gang
        if entry.kind not in (STREAM_WRITE, KEEP_WRITE):
            continue
        if block.homed != gang:
            block.homed, block.home, block.writing = gang, routes.parent[entry.memory], 0
        block.writing += 1
        while block.home > 0 and not (
            is_above(routes, entry.memory, block.home) and routes.exists[entry.memory * memories + block.home]
        ):
            block.home = routes.parent[block.home]


@part()
def settle(plan: Tables, routes: Routes, state: State, number: int) -> None:
    """Decide where the results of this gang in a block go: to a level that has all of the block, or room for it if it
    is new; else to DRAM. What must come to DRAM goes there at once, unless it is a sum that is continued."""
    block, given, gang = state.blocks[number], plan.blocks[number], state.counters[0].gang
    if block.settled == gang:
        return
    block.settled = gang
    if given.resident > 0:
        while block.home > 0 and block.home != given.resident:
            block.home = routes.parent[block.home]
        return
    use, level = gang if block.spilled == gang else use_after(plan, state, number, gang), block.home
    block.home = 0
    is_continued = block.spilled == gang or block.writes_left > block.writing
    if use == NEVER or (leaves_for_dram(plan, number) and not is_continued):
        return
    is_new = given.in_dram == 0 and block.writes_left == given.writes
    while level > 0:
        copy = state.at[number, level]
        if copy >= 0:
            if state.copies[copy].bytes == given.bytes and state.guards[copy].filled == given.bytes:
                block.home, block.pinned = level, gang
                return
        elif is_new:
            event = take_whole(plan, routes, state, level, given.bytes, use)
            if event != NO_ROOM:
                state.guards[add_copy(state, number, level, given.bytes)].room = event
                block.home, block.pinned = level, gang
                return
        level = routes.parent[level]
