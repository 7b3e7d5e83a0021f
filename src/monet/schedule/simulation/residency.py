"""Which blocks lie in which memory, and where the space for them comes from. Compiled parts of ``decide``.

Freed bytes queue up in every memory, each with the node that frees them. An allocation takes bytes from the front and
waits for exactly those nodes, so no memory is ever above its capacity, whatever the durations turn out to be.
"""

from __future__ import annotations

from monet.compiled import part
from monet.schedule.simulation.nodes import book_route, depend, join, open_node
from monet.schedule.simulation.records import DATA, EVICT, JOIN, NEVER, NOT_YET, SPACE, Routes, State, Tables

NO_ROOM = -3


@part()
def next_use(plan: Tables, state: State, block: int) -> int:
    """The gang that uses a block next."""
    use = state.blocks.use[block]
    return int(plan.uses[use]) if use < plan.blocks.use_end[block] else NEVER


@part()
def free_bytes(state: State, memory: int, size: int, event: int) -> None:
    """Queue freed bytes; they may be taken once ``event`` has ended."""
    memories, chunks = state.memories, state.chunks
    new = state.counters.chunks[0]
    state.counters.chunks[0] += 1
    chunks.bytes[new], chunks.event[new], chunks.next[new] = size, event, -1
    if memories.head[memory] < 0:
        memories.head[memory] = new
    else:
        chunks.next[memories.tail[memory]] = new
    memories.tail[memory] = new
    memories.free[memory] += size


@part()
def add_copy(state: State, block: int, memory: int, size: int) -> int:
    """Note that ``size`` bytes of a memory now belong to a block, or to a step's buffers (-1)."""
    copies, guards, memories = state.copies, state.guards, state.memories
    new = int(state.counters.copies[0])
    state.counters.copies[0] += 1
    copies.block[new], copies.memory[new], copies.bytes[new] = block, memory, size
    copies.came[new], copies.went[new] = -1, NOT_YET
    guards.ready[new], guards.until[new], guards.core[new] = -1, -1, -1
    after = memories.newest[memory]
    guards.previous[new], guards.next[new] = -1, after
    if after >= 0:
        guards.previous[after] = new
    memories.newest[memory] = new
    if block >= 0:
        state.at[block, memory] = new
        state.blocks.copies[block] += 1
    return new


@part()
def release(state: State, old: int) -> None:
    """A copy goes; its bytes are free once its guard has ended."""
    copies, guards = state.copies, state.guards
    before, after, memory, block = guards.previous[old], guards.next[old], copies.memory[old], copies.block[old]
    if before >= 0:
        guards.next[before] = after
    else:
        state.memories.newest[memory] = after
    if after >= 0:
        guards.previous[after] = before
    free_bytes(state, memory, copies.bytes[old], guards.until[old])
    copies.went[old] = guards.until[old]
    if block >= 0:
        state.at[block, memory] = -1
        state.blocks.copies[block] -= 1


@part()
def guard_with(state: State, copy: int, user: int, core: int) -> None:
    """A copy may not go before ``user`` has ended. Users on one core end in order; others are joined."""
    guards = state.guards
    if core >= 0 and guards.core[copy] == core:
        guards.until[copy] = user
    else:
        guards.until[copy] = join(state, guards.until[copy], user, SPACE)
        guards.core[copy] = -1
    if core >= 0 and guards.until[copy] == user:
        guards.core[copy] = core


@part()
def write_back(plan: Tables, routes: Routes, state: State, block: int, kind: int) -> bool:
    """Write a block from the first memory that has it to DRAM."""
    blocks, memories = state.blocks, state.at.shape[1]
    for memory in range(1, memories):
        copy, pair = state.at[block, memory], memory * memories
        if copy < 0 or not routes.exists[pair]:
            continue
        new = open_node(state, kind, -1, plan.blocks.bytes[block], memory, 0)
        depend(state, new, state.guards.ready[copy], routes.latency[pair], DATA)
        book_route(state, routes, new, pair, plan.blocks.bytes[block], 0)
        guard_with(state, copy, new, -1)
        blocks.in_dram[block], blocks.dram_ready[block] = 1, new
        if blocks.due[block] >= 0:  # negative: still accumulating
            blocks.due[block] = NEVER
        if state.dram.came[block] == NOT_YET:
            state.dram.came[block] = new
        return True
    return False


@part()
def farthest(plan: Tables, state: State, memory: int, later_than: int) -> int:
    """The copy in a memory whose next use is farthest (after ``later_than``); clean ones first among equals."""
    blocks, gang = state.blocks, state.counters.gang[0]
    best, best_use, best_clean = -1, later_than, False
    copy = state.memories.newest[memory]
    while copy >= 0:
        block = state.copies.block[copy]
        if block >= 0 and blocks.pinned[block] != gang:
            use = next_use(plan, state, block)
            clean = blocks.in_dram[block] == 1 or blocks.copies[block] > 1
            if use > best_use or (use == best_use and best >= 0 and clean and not best_clean):
                best, best_use, best_clean = copy, use, clean
        copy = state.guards.next[copy]
    return best


@part()
def take(plan: Tables, routes: Routes, state: State, memory: int, size: int, later_than: int) -> int:
    """Make room for ``size`` bytes and take them. The node to wait for, -1 for none, NO_ROOM if there is no way."""
    while state.memories.free[memory] < size:
        victim = farthest(plan, state, memory, later_than)
        if victim < 0:
            return NO_ROOM
        drive_out(plan, routes, state, victim)
    state.memories.free[memory] -= size
    chunks, event, joined = state.chunks, -1, -1
    while size > 0:
        first = state.memories.head[memory]
        taken = min(size, chunks.bytes[first])
        if chunks.event[first] >= 0 and chunks.event[first] != event:
            if event < 0:
                event = chunks.event[first]
            else:
                if joined < 0:
                    joined = open_node(state, JOIN, -1, 0, -1, -1)
                    depend(state, joined, event, 0, SPACE)
                depend(state, joined, chunks.event[first], 0, SPACE)
        chunks.bytes[first] -= taken
        size -= taken
        if chunks.bytes[first] == 0:
            state.memories.head[memory] = chunks.next[first]
    return joined if joined >= 0 else event


@part()
def drive_out(plan: Tables, routes: Routes, state: State, copy: int) -> None:
    """Release a copy of a block, and write it to DRAM first if it is the only one."""
    block = state.copies.block[copy]
    if state.blocks.in_dram[block] == 0 and state.blocks.copies[block] == 1:
        write_back(plan, routes, state, block, EVICT)
    release(state, copy)
