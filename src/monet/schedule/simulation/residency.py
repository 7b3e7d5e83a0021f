"""Which blocks lie in which memory, and where the space for them comes from. Compiled helpers of ``decide``.

Freed bytes queue up in every memory, each with the node that frees them. An allocation takes bytes from the front and
waits for exactly those nodes, so no memory is ever above its capacity, whatever the durations turn out to be.
"""

from __future__ import annotations

from typing import Any

from monet.schedule.simulation.nodes import (
    EVICT,
    GANG_NOW,
    JOIN,
    N_COPY,
    SPACE,
    book_route,
    depend,
    inner,
    join,
    open_node,
)

Array = Any

# columns of a memory
FREE, HEAD, TAIL, FIRST = range(4)
# columns of a chunk of freed bytes
CHUNK_BYTES, CHUNK_EVENT, CHUNK_NEXT = range(3)
# columns of a block
(
    SIZE,
    IN_DRAM,
    DRAM_READY,
    PERSISTENT,
    THROUGH,
    WRITES_LEFT,
    USE,
    USE_END,
    PIN,
    DUE,
    DRAM_FROM,
    DRAM_TO,
    COPIES,
    LEADER,
) = range(14)
BLOCK_COLUMNS = 14
# columns of a copy: a block in a memory, or (block -1) the buffers of a step
BLOCK, MEMORY, BYTES_HERE, READY, GUARD, GUARD_CORE, FROM, TO, PREVIOUS, NEXT = range(10)
COPY_COLUMNS = 10

NEVER = 2**62
NOT_YET = -2  # DRAM_FROM of a block that is not in DRAM; TO of a copy that is still there
NO_ROOM = -3


@inner
def next_use(block: Array, uses: Array, number: int) -> int:
    """The gang that uses a block next."""
    use: int = uses[block[number, USE]] if block[number, USE] < block[number, USE_END] else NEVER
    return use


@inner
def free_bytes(memory: Array, chunk: Array, count: Array, where: int, size: int, event: int) -> None:
    """Queue freed bytes; they may be taken once ``event`` has ended."""
    number = chunk[0, CHUNK_NEXT]  # row 0 counts the rows in use
    chunk[0, CHUNK_NEXT] = number + 1
    chunk[number, CHUNK_BYTES], chunk[number, CHUNK_EVENT], chunk[number, CHUNK_NEXT] = size, event, -1
    if memory[where, HEAD] < 0:
        memory[where, HEAD] = number
    else:
        chunk[memory[where, TAIL], CHUNK_NEXT] = number
    memory[where, TAIL] = number
    memory[where, FREE] += size


@inner
def add_copy(count: Array, memory: Array, copy: Array, number: int, where: int, size: int) -> int:
    """Note that ``size`` bytes of a memory now belong to a block (or to a step's buffers)."""
    new: int = count[N_COPY]
    count[N_COPY] += 1
    copy[new, BLOCK], copy[new, MEMORY], copy[new, BYTES_HERE] = number, where, size
    copy[new, READY], copy[new, GUARD], copy[new, GUARD_CORE] = -1, -1, -1
    copy[new, FROM], copy[new, TO] = -1, NOT_YET
    copy[new, PREVIOUS], copy[new, NEXT] = -1, memory[where, FIRST]
    if memory[where, FIRST] >= 0:
        copy[memory[where, FIRST], PREVIOUS] = new
    memory[where, FIRST] = new
    return new


@inner
def release(count: Array, memory: Array, chunk: Array, block: Array, copy: Array, at: Array, old: int) -> None:
    """A copy goes; its bytes are free once its guard has ended."""
    before, after, where, number = copy[old, PREVIOUS], copy[old, NEXT], copy[old, MEMORY], copy[old, BLOCK]
    if before >= 0:
        copy[before, NEXT] = after
    else:
        memory[where, FIRST] = after
    if after >= 0:
        copy[after, PREVIOUS] = before
    free_bytes(memory, chunk, count, where, copy[old, BYTES_HERE], copy[old, GUARD])
    copy[old, TO] = copy[old, GUARD]
    if number >= 0:
        at[number, where] = -1
        block[number, COPIES] -= 1


@inner
def guard_with(count: Array, node: Array, dep: Array, copy: Array, one: int, user: int, core: int) -> None:
    """A copy may not go before ``user`` has ended. Users on one core end in order; others are joined."""
    if core >= 0 and copy[one, GUARD_CORE] == core:
        copy[one, GUARD] = user
    else:
        copy[one, GUARD] = join(count, node, dep, copy[one, GUARD], user, SPACE)
        copy[one, GUARD_CORE] = -1
    if core >= 0 and copy[one, GUARD] == user:
        copy[one, GUARD_CORE] = core


@inner
def write_back(
    count: Array, node: Array, dep: Array, booking: Array, block: Array, copy: Array, at: Array, routes: Any,
    number: int, kind: int,
) -> bool:  # fmt: skip
    """Write a block from the first memory that has it to DRAM."""
    latency, exists = routes[3], routes[4]
    memories = at.shape[1]
    for where in range(1, memories):
        one = at[number, where]
        if one < 0 or not exists[where * memories]:
            continue
        new = open_node(count, node, kind, -1, block[number, SIZE], where, 0)
        depend(count, node, dep, new, copy[one, READY], latency[where * memories], 0)
        book_route(count, node, booking, new, where * memories, block[number, SIZE], 0, routes)
        guard_with(count, node, dep, copy, one, new, -1)
        block[number, IN_DRAM], block[number, DRAM_READY] = 1, new
        if block[number, DUE] >= 0:  # negative: still accumulating
            block[number, DUE] = NEVER
        if block[number, DRAM_FROM] == NOT_YET:
            block[number, DRAM_FROM] = new
        return True
    return False


@inner
def farthest(block: Array, copy: Array, memory: Array, uses: Array, where: int, gang: int, later_than: int) -> int:
    """The copy in a memory whose next use is farthest (after ``later_than``); clean ones first among equals."""
    best, best_use, best_clean = -1, later_than, False
    one = memory[where, FIRST]
    while one >= 0:
        number = copy[one, BLOCK]
        if number >= 0 and block[number, PIN] != gang:
            use = next_use(block, uses, number)
            clean = block[number, IN_DRAM] == 1 or block[number, COPIES] > 1
            if use > best_use or (use == best_use and best >= 0 and clean and not best_clean):
                best, best_use, best_clean = one, use, clean
        one = copy[one, NEXT]
    return best


@inner
def take(
    count: Array, node: Array, dep: Array, booking: Array, memory: Array, chunk: Array, block: Array, copy: Array,
    at: Array, uses: Array, routes: Any, where: int, size: int, later_than: int,
) -> int:  # fmt: skip
    """Make room for ``size`` bytes and take them. The node to wait for, -1 for none, NO_ROOM if there is no way."""
    while memory[where, FREE] < size:
        victim = farthest(block, copy, memory, uses, where, count[GANG_NOW], later_than)
        if victim < 0:
            return NO_ROOM
        number = copy[victim, BLOCK]
        if block[number, IN_DRAM] == 0 and block[number, COPIES] == 1:
            write_back(count, node, dep, booking, block, copy, at, routes, number, EVICT)
        release(count, memory, chunk, block, copy, at, victim)
    memory[where, FREE] -= size
    event, joined = -1, -1
    while size > 0:
        first = memory[where, HEAD]
        part = min(size, chunk[first, CHUNK_BYTES])
        if chunk[first, CHUNK_EVENT] >= 0 and chunk[first, CHUNK_EVENT] != event:
            if event < 0:
                event = chunk[first, CHUNK_EVENT]
            else:
                if joined < 0:
                    joined = open_node(count, node, JOIN, -1, 0, -1, -1)
                    depend(count, node, dep, joined, event, 0, SPACE)
                depend(count, node, dep, joined, chunk[first, CHUNK_EVENT], 0, SPACE)
        chunk[first, CHUNK_BYTES] -= part
        size -= part
        if chunk[first, CHUNK_BYTES] == 0:
            memory[where, HEAD] = chunk[first, CHUNK_NEXT]
    return joined if joined >= 0 else event
