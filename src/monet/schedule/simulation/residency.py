"""Which blocks lie in which memory, and where the space for them comes from. Compiled parts of ``decide``.

Freed bytes queue up in every memory, each with the node that frees them. An allocation takes bytes from the front and
waits for exactly those nodes, so no memory is ever above its capacity, whatever the durations turn out to be.
"""

from __future__ import annotations

from monet.compiled import part
from monet.schedule.simulation.nodes import between, book_route, depend, join, open_node
from monet.schedule.simulation.records import DATA, EVICT, JOIN, NEVER, NOT_YET, SPACE, Routes, State, Tables

NO_ROOM = -3


@part()
def next_use(plan: Tables, state: State, number: int) -> int:
    """The gang that uses a block next."""
    use = state.blocks[number].use
    return int(plan.uses[use]) if use < plan.blocks[number].use_end else NEVER


@part()
def size_in(plan: Tables, routes: Routes, number: int, memory: int) -> int:
    """Bytes of a block in a memory: all, or what each of the cores that work together has of it."""
    block = plan.blocks[number]
    return int(block.own if routes.members[memory] > 1 else block.bytes)


@part()
def free_bytes(state: State, where: int, size: int, event: int) -> None:
    """Queue freed bytes of a memory; they may be taken once ``event`` has ended."""
    memory, counters = state.memories[where], state.counters[0]
    chunk, number = state.chunks[counters.chunks], counters.chunks
    counters.chunks += 1
    chunk.bytes, chunk.event, chunk.next = size, event, -1
    if memory.head < 0:
        memory.head = number
    else:
        state.chunks[memory.tail].next = number
    memory.tail = number
    memory.free += size


@part()
def add_copy(state: State, block: int, where: int, size: int) -> int:
    """Note that ``size`` bytes of a memory now belong to a block, or to a step's buffers (-1)."""
    counters = state.counters[0]
    number = int(counters.copies)
    counters.copies += 1
    copy, guard = state.copies[number], state.guards[number]
    copy.block, copy.memory, copy.bytes, copy.came, copy.went = block, where, size, -1, NOT_YET
    copy.since, copy.upto = counters.gang, NEVER
    guard.room, guard.ready, guard.until, guard.core, guard.filled = -1, -1, -1, -1, size
    put_first(state, number)
    if block >= 0:
        state.at[block, where] = number
        state.blocks[block].copies += 1
        if state.blocks[block].pinned != counters.gang:
            counters.turn += 1
    return number


@part()
def put_first(state: State, number: int) -> None:
    """Make a copy the newest of its memory."""
    memory, guard = state.memories[state.copies[number].memory], state.guards[number]
    guard.previous, guard.next = -1, memory.newest
    if memory.newest >= 0:
        state.guards[memory.newest].previous = number
    else:
        memory.oldest = number
    memory.newest = number


@part()
def take_out(state: State, number: int) -> None:
    """Take a copy out of the order of its memory."""
    memory, guard = state.memories[state.copies[number].memory], state.guards[number]
    if guard.previous >= 0:
        state.guards[guard.previous].next = guard.next
    else:
        memory.newest = guard.next
    if guard.next >= 0:
        state.guards[guard.next].previous = guard.previous
    else:
        memory.oldest = guard.previous


@part()
def release(state: State, number: int) -> None:
    """A copy goes; its bytes are free once its guard has ended."""
    copy, guard = state.copies[number], state.guards[number]
    take_out(state, number)
    copy.went, copy.upto = guard.until if guard.until >= 0 else guard.room, state.counters[0].gang
    free_bytes(state, copy.memory, copy.bytes, copy.went)
    if copy.block >= 0:
        block, counters = state.blocks[copy.block], state.counters[0]
        state.at[copy.block, copy.memory] = -1
        block.copies -= 1
        if block.copies == 1 and block.in_dram == 0 and block.pinned != counters.gang:
            counters.turn += 1  # the other one has become the only one


@part()
def guard_with(state: State, copy: int, user: int, core: int) -> None:
    """A copy may not go before ``user`` has ended. Users on one core end in order; others are joined."""
    guard = state.guards[copy]
    if core >= 0 and guard.core == core:
        guard.until = user
    else:
        guard.until = join(state, guard.until, user, SPACE)
        guard.core = -1
    if core >= 0 and guard.until == user:
        guard.core = core


@part()
def write_back(plan: Tables, routes: Routes, state: State, number: int, kind: int) -> bool:
    """Write a block from the first memory that has it to DRAM, or to the level in which it is resident."""
    block, size, memories = state.blocks[number], plan.blocks[number].bytes, state.at.shape[1]
    target, place = plan.blocks[number].resident, plan.blocks[number].place
    for memory in range(1, memories):
        copy, pair = state.at[number, memory], between(memory, target, memories, place)
        if copy < 0 or not routes.exists[pair]:
            continue
        new = open_node(state, kind, -1, size, memory, target)
        depend(state, new, state.guards[copy].ready, routes.latency[pair], DATA)
        book_route(state, routes, new, pair, size, size_in(plan, routes, number, memory), size, 0, place)
        guard_with(state, copy, new, -1)
        block.in_dram, block.dram_ready = 1, new
        if kind != EVICT:  # the copy stays, and may go before others now
            state.counters[0].turn += 1
        if block.due >= 0:  # negative: still accumulating
            block.due = NEVER
        if target > 0:
            state.guards[state.at[number, target]].ready = new
        elif state.dram[number].came == NOT_YET:
            state.dram[number].came = new
        return True
    return False


@part()
def farthest(plan: Tables, state: State, where: int, later_than: int) -> int:
    """The copy in a memory whose next use is farthest (after ``later_than``); clean ones first among equals, then newer
    ones. All that are used last are found together: until the next turn they can only become fewer."""
    memory, counters = state.memories[where], state.counters[0]
    if memory.turn != counters.turn:
        find_used_last(plan, state, where)
    while memory.last_use > later_than:
        copy = int(memory.used_last)
        while copy >= 0:
            number = state.copies[copy].block
            if state.at[number, where] == copy and state.blocks[number].pinned != counters.gang:
                memory.used_last = copy
                return copy
            copy = int(state.guards[copy].used_with)
        find_used_last(plan, state, where)
    return -1


@part()
def find_used_last(plan: Tables, state: State, where: int) -> None:
    """Link the copies in a memory that are used last, but for those of this gang: clean ones, then others."""
    memory, counters, guards = state.memories[where], state.counters[0], state.guards
    use, clean, last_clean, only, last_only = -1, -1, -1, -1, -1
    copy = int(memory.newest)
    while copy >= 0:
        number = state.copies[copy].block
        if number >= 0 and state.blocks[number].pinned != counters.gang:
            here = next_use(plan, state, number)
            if here > use:
                use, clean, last_clean, only, last_only = here, -1, -1, -1, -1
            if here == use:
                guards[copy].used_with = -1
                if state.blocks[number].in_dram == 1 or state.blocks[number].copies > 1:
                    if last_clean < 0:
                        clean = copy
                    else:
                        guards[last_clean].used_with = copy
                    last_clean = copy
                else:
                    if last_only < 0:
                        only = copy
                    else:
                        guards[last_only].used_with = copy
                    last_only = copy
        copy = int(guards[copy].next)
    if last_clean >= 0:
        guards[last_clean].used_with = only
    memory.turn, memory.last_use, memory.used_last = counters.turn, use, clean if clean >= 0 else only


@part()
def take_free(state: State, where: int, size: int) -> int:
    """Take bytes that are free. The node to wait for, -1 for none."""
    memory = state.memories[where]
    memory.free -= size
    event, joined = -1, -1
    while size > 0:
        chunk = state.chunks[memory.head]
        taken = min(size, chunk.bytes)
        if chunk.event >= 0 and chunk.event != event:
            if event < 0:
                event = chunk.event
            else:
                if joined < 0:
                    joined = open_node(state, JOIN, -1, 0, -1, -1)
                    depend(state, joined, event, 0, SPACE)
                depend(state, joined, chunk.event, 0, SPACE)
        chunk.bytes -= taken
        size -= taken
        if chunk.bytes == 0:
            memory.head = chunk.next
    return joined if joined >= 0 else event


@part()
def write_out(plan: Tables, routes: Routes, state: State, copy: int) -> None:
    """Release a copy of a block, and write it to DRAM first if it is the only one."""
    number = state.copies[copy].block
    if state.blocks[number].in_dram == 0 and state.blocks[number].copies == 1:
        write_back(plan, routes, state, number, EVICT)
    release(state, copy)
