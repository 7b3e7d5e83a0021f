"""Decide: walk the gangs in plan order and fix every transfer, its source, its place in each queue, every eviction.

A gang is one tile of one operator, with a step on each core that takes part in it. Its operands are held (the whole
block lies in the core's memory), streamed (passes through buffers, as often as the mapper asks) or only waited for.
The order in which nodes are appended is the order in which their resources serve them. Nothing here looks at time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.compiled import kernel
from monet.schedule.simulation.nodes import (
    COMPUTE,
    DATA,
    EVICT,
    FAILED_BYTES,
    FAILED_MEMORY,
    GANG_NOW,
    JOIN,
    LATENCY,
    MOVE,
    OPERATOR_NOW,
    READ,
    SPACE,
    TARGETS,
    WRITE,
    book,
    book_route,
    depend,
    in_rows,
    inner,
    join,
    open_node,
)
from monet.schedule.simulation.residency import (
    COPIES,
    DRAM_FROM,
    DRAM_READY,
    DRAM_TO,
    DUE,
    FIRST,
    FREE,
    FROM,
    GUARD,
    GUARD_CORE,
    IN_DRAM,
    LEADER,
    NEVER,
    NEXT,
    NO_ROOM,
    NOT_YET,
    PERSISTENT,
    PIN,
    READY,
    SIZE,
    THROUGH,
    USE,
    USE_END,
    WRITES_LEFT,
    add_copy,
    guard_with,
    next_use,
    release,
    take,
    write_back,
)

Array = Any

# columns of a gang
FIRST_STEP, LAST_STEP, LEAVES_CHIP, AHEAD = range(4)  # AHEAD: gangs whose reads go before its writes
# columns of a step
(
    CORE,
    TICKS,
    OPERATOR,
    ENTRY_START,
    ENTRY_END,
    WORK_START,
    WORK_END,
    ROOM,
    IN_NODE,
    THROUGH_NODE,
    OUT_NODE,
    RUN,
    DONE,
    PORT_MEMORY,  # a memory that other cores share, and for how long the step takes its busiest port
    PORT_TICKS,
) = range(15)
STEP_COLUMNS = 15
# columns of a step's buffers
WORK_MEMORY, WORK_BYTES, WORK_COPY = range(3)
# columns of an entry: one operand block of one step; E_ROWS: if it is a part of it, the rows in which it lies in DRAM
E_BLOCK, E_MEMORY, E_KIND, E_BYTES, E_FIRST, E_SHARE, E_ROWS = range(7)
ENTRY_COLUMNS = 7
# columns of what becomes of an entry in its gang; E_NOW: its kind, once it is known whether a result stays
E_NOW, E_ROOM, E_NEW, E_SOURCE, E_IN, E_THROUGH, E_NEXT = range(7)
LIVE_COLUMNS = 7
# kinds of entries
HOLD_READ, STREAM_READ, HOLD_WRITE, STREAM_WRITE, WAIT, KEEP_WRITE, SPILL = range(7)
WRITES = np.isin(np.arange(7), (HOLD_WRITE, STREAM_WRITE, KEEP_WRITE))  # by kind
# sources of an entry that are not a memory
LEADS, FOLLOWS, UNWANTED = -1, -2, -3

OK, NO_SPACE, NOWHERE = 0, 1, 2
# what a schedule is made of: two-dimensional arrays of int64
NODES, DEPS, BOOKINGS, MEMORIES, CHUNKS, BLOCKS, COPIES_OF, GANGS, STEPS, WORK, ENTRIES, LIVE, PENDING = range(13)


@inner
def _take(count: Array, state: Any, at: Array, uses: Array, routes: Any, where: int, size: int, later: int) -> int:
    return take(
        count, state[NODES], state[DEPS], state[BOOKINGS], state[MEMORIES], state[CHUNKS], state[BLOCKS],
        state[COPIES_OF], at, uses, routes, where, size, later,
    )  # fmt: skip


@inner
def _drop(count: Array, state: Any, at: Array, one: int) -> None:
    release(count, state[MEMORIES], state[CHUNKS], state[BLOCKS], state[COPIES_OF], at, one)


@inner
def _reserve(count: Array, state: Any, at: Array, uses: Array, routes: Any, gang: int) -> int:
    """Take the space of all buffers and held blocks of a gang."""
    memory, block, copy = state[MEMORIES], state[BLOCKS], state[COPIES_OF]
    steps, work, entry, live = state[STEPS], state[WORK], state[ENTRIES], state[LIVE]
    first, last = state[GANGS][gang, FIRST_STEP], state[GANGS][gang, LAST_STEP]
    for s in range(first, last):
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            live[e, E_NOW] = entry[e, E_KIND]
            if live[e, E_NOW] == HOLD_READ or live[e, E_NOW] == HOLD_WRITE:
                block[entry[e, E_BLOCK], PIN] = gang
    for s in range(first, last):
        steps[s, ROOM] = -1
        for w in range(steps[s, WORK_START], steps[s, WORK_END]):
            where, size = work[w, WORK_MEMORY], work[w, WORK_BYTES]
            event = _take(count, state, at, uses, routes, where, size, -1)
            if event == NO_ROOM:
                count[FAILED_MEMORY], count[FAILED_BYTES] = where, size - memory[where, FREE]
                return NO_SPACE
            work[w, WORK_COPY] = add_copy(count, memory, copy, -1, where, size)
            steps[s, ROOM] = join(count, state[NODES], state[DEPS], steps[s, ROOM], event, SPACE)
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            number, where, kind = entry[e, E_BLOCK], entry[e, E_MEMORY], live[e, E_NOW]
            live[e, E_NEW], live[e, E_ROOM], live[e, E_IN], live[e, E_THROUGH] = 0, -1, -1, -1
            if kind == STREAM_READ:
                live[e, E_ROOM] = steps[s, ROOM]
            if (kind != HOLD_READ and kind != HOLD_WRITE) or at[number, where] >= 0:
                continue
            event = _take(count, state, at, uses, routes, where, block[number, SIZE], -1)
            if event == NO_ROOM:
                count[FAILED_MEMORY], count[FAILED_BYTES] = where, block[number, SIZE] - memory[where, FREE]
                return NO_SPACE
            live[e, E_NEW], live[e, E_ROOM] = 1, event
            at[number, where] = add_copy(count, memory, copy, number, where, block[number, SIZE])
            block[number, COPIES] += 1
    return OK


@inner
def _admit(count: Array, state: Any, at: Array, uses: Array, routes: Any, gang: int) -> None:
    """Results that may stay on chip do so if that drives out only what is needed later than they are."""
    block, copy, steps, entry, live = state[BLOCKS], state[COPIES_OF], state[STEPS], state[ENTRIES], state[LIVE]
    for s in range(state[GANGS][gang, FIRST_STEP], state[GANGS][gang, LAST_STEP]):
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            if live[e, E_NOW] != KEEP_WRITE:
                continue
            number, where = entry[e, E_BLOCK], entry[e, E_MEMORY]
            block[number, PIN] = gang
            if at[number, where] >= 0:
                live[e, E_NOW] = HOLD_WRITE
                continue
            use = block[number, USE]
            while use < block[number, USE_END] and uses[use] <= gang:
                use += 1
            if use == block[number, USE_END]:  # nobody reads it again
                live[e, E_NOW] = STREAM_WRITE
                continue
            event = _take(count, state, at, uses, routes, where, block[number, SIZE], uses[use])
            if event == NO_ROOM:
                live[e, E_NOW] = STREAM_WRITE
                continue
            live[e, E_NOW], live[e, E_NEW], live[e, E_ROOM] = HOLD_WRITE, 1, event
            at[number, where] = add_copy(count, state[MEMORIES], copy, number, where, block[number, SIZE])
            block[number, COPIES] += 1


@inner
def _nearest(state: Any, at: Array, routes: Any, number: int, where: int) -> int:
    """The memory to get a block from: the on-chip copy with the shortest way, else DRAM."""
    copy, pointer, exists = state[COPIES_OF], routes[0], routes[4]
    memories = at.shape[1]
    best, hops = 0, NEVER
    if state[BLOCKS][number, COPIES] == 0:
        return 0
    for source in range(1, memories):
        one = at[number, source]
        if one >= 0 and copy[one, READY] >= 0 and exists[source * memories + where]:
            pair = source * memories + where
            if pointer[pair + 1] - pointer[pair] < hops:
                best, hops = source, pointer[pair + 1] - pointer[pair]
    return best


@inner
def _chain(state: Any, at: Array, gang: int, held: bool) -> None:
    """Link the entries of a gang that want the same block from outside: the first of them leads, for a multicast."""
    block, steps, entry, live = state[BLOCKS], state[STEPS], state[ENTRIES], state[LIVE]
    first, last = state[GANGS][gang, FIRST_STEP], state[GANGS][gang, LAST_STEP]
    for s in range(first, last):
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            block[entry[e, E_BLOCK], LEADER] = -1
    for s in range(last - 1, first - 1, -1):
        for e in range(steps[s, ENTRY_END] - 1, steps[s, ENTRY_START] - 1, -1):
            number, kind = entry[e, E_BLOCK], live[e, E_NOW]
            live[e, E_NEXT], live[e, E_SOURCE] = -1, UNWANTED
            if held:  # a sum that has been evicted comes back before it is continued
                wanted = live[e, E_NEW] == 1 and (kind == HOLD_READ or block[number, DUE] < 0)
            else:
                wanted = kind == STREAM_READ and at[number, entry[e, E_MEMORY]] < 0
            if not wanted:
                continue
            live[e, E_SOURCE], lead = LEADS, block[number, LEADER]
            if lead >= 0 and (held or (entry[e, E_SHARE] > 0 and entry[lead, E_SHARE] == entry[e, E_SHARE])):
                live[e, E_NEXT], live[lead, E_SOURCE] = lead, FOLLOWS
            block[number, LEADER] = e


@inner
def _from(count: Array, state: Any, at: Array, routes: Any, number: int, where: int) -> int:
    """The source of a block; written to DRAM first if it can only be reached there. Negative if it is nowhere."""
    source = _nearest(state, at, routes, number, where)
    if source == 0 and state[BLOCKS][number, IN_DRAM] == 0:
        done = write_back(
            count,
            state[NODES],
            state[DEPS],
            state[BOOKINGS],
            state[BLOCKS],
            state[COPIES_OF],
            at,
            routes,
            number,
            WRITE,
        )
        if not done:
            return -1
    return source


@inner
def _transfer(count: Array, state: Any, at: Array, routes: Any, lead: int, source: int, size: int, step: int) -> int:
    """One transfer of a block to every entry of a chain, each link of the ways booked once."""
    node, dep, booking = state[NODES], state[DEPS], state[BOOKINGS]
    block, copy, entry, live = state[BLOCKS], state[COPIES_OF], state[ENTRIES], state[LIVE]
    number, memories = entry[lead, E_BLOCK], at.shape[1]
    target = entry[lead, E_MEMORY]
    new = open_node(count, node, READ if source == 0 else MOVE, step, size, source, target)
    ready = block[number, DRAM_READY] if source == 0 else copy[at[number, source], READY]
    depend(count, node, dep, new, ready, 0, DATA)
    bursts = in_rows(size, entry[lead, E_ROWS], routes[5][1])
    e, targets = lead, 0
    while e >= 0:
        pair = source * memories + entry[e, E_MEMORY]
        depend(count, node, dep, new, live[e, E_ROOM], 0, SPACE)
        book_route(count, node, booking, new, pair, size, bursts, routes)
        node[new, LATENCY] = max(node[new, LATENCY], routes[3][pair])
        e, targets = live[e, E_NEXT], targets + 1
    node[new, TARGETS] = targets
    if source > 0:
        guard_with(count, node, dep, copy, at[number, source], new, -1)
    return new


@inner
def _fetch(count: Array, state: Any, at: Array, routes: Any, gang: int) -> int:
    """Bring the held blocks that are missing."""
    _chain(state, at, gang, True)
    block, copy, steps, entry, live = state[BLOCKS], state[COPIES_OF], state[STEPS], state[ENTRIES], state[LIVE]
    for s in range(state[GANGS][gang, FIRST_STEP], state[GANGS][gang, LAST_STEP]):
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            number = entry[e, E_BLOCK]
            if live[e, E_SOURCE] != LEADS:
                continue
            source = _from(count, state, at, routes, number, entry[e, E_MEMORY])
            if source < 0:
                return NOWHERE
            new = _transfer(count, state, at, routes, e, source, block[number, SIZE], s)
            f = e
            while f >= 0:
                one = at[number, entry[f, E_MEMORY]]
                copy[one, READY], copy[one, GUARD], copy[one, GUARD_CORE], copy[one, FROM] = new, new, -1, new
                f = live[f, E_NEXT]
    return OK


@inner
def _stream(count: Array, state: Any, at: Array, routes: Any, gang: int) -> int:
    """Streams of a gang: what must be there before the array starts, then what passes while it runs."""
    _chain(state, at, gang, False)
    steps, entry, live = state[STEPS], state[ENTRIES], state[LIVE]
    first, last = state[GANGS][gang, FIRST_STEP], state[GANGS][gang, LAST_STEP]
    for s in range(first, last):
        private = bursts = 0
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            number = entry[e, E_BLOCK]
            if live[e, E_SOURCE] != LEADS:
                continue
            live[e, E_SOURCE] = _from(count, state, at, routes, number, entry[e, E_MEMORY])
            if live[e, E_SOURCE] < 0:
                return NOWHERE
            if live[e, E_SOURCE] == 0 and live[e, E_NEXT] < 0:
                private += entry[e, E_FIRST]
                bursts += in_rows(entry[e, E_FIRST], entry[e, E_ROWS], routes[5][1])
            elif entry[e, E_FIRST] > 0:
                _shared(count, state, at, routes, e, s, entry[e, E_FIRST], E_IN)
        steps[s, IN_NODE] = _private(count, state, routes, at, s, private, bursts, True) if private else -1
    for s in range(first, last):
        private = 0
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            rest = entry[e, E_BYTES] - entry[e, E_FIRST]
            if live[e, E_NOW] == SPILL and live[e - 1, E_NOW] == STREAM_WRITE:
                private += entry[e, E_BYTES]
            if live[e, E_SOURCE] < 0:
                continue
            if live[e, E_SOURCE] == 0 and live[e, E_NEXT] < 0:
                private += rest
            elif rest > 0:
                _shared(count, state, at, routes, e, s, rest, E_THROUGH)
        steps[s, THROUGH_NODE] = _private(count, state, routes, at, s, private, 0, False) if private else -1
        steps[s, OUT_NODE] = _leaving(count, state, routes, at, s, -1)
    return OK


@inner
def _shared(count: Array, state: Any, at: Array, routes: Any, lead: int, step: int, size: int, column: int) -> None:
    """A stream that several steps share, or that comes from another core's memory."""
    live = state[LIVE]
    new = _transfer(count, state, at, routes, lead, live[lead, E_SOURCE], size, step)
    e = lead
    while e >= 0:
        live[e, column] = new
        if column == E_THROUGH and live[e, E_IN] >= 0:  # its latency was paid with its first part
            state[NODES][new, LATENCY] = 0
        e = live[e, E_NEXT]


@inner
def _private(count: Array, state: Any, routes: Any, at: Array, step: int, size: int, bursts: int, wait: bool) -> int:
    """All that one step streams from DRAM for itself, as one node."""
    node, dep, block, steps = state[NODES], state[DEPS], state[BLOCKS], state[STEPS]
    entry, live = state[ENTRIES], state[LIVE]
    target = 0
    for e in range(steps[step, ENTRY_START], steps[step, ENTRY_END]):
        if live[e, E_NOW] == STREAM_READ or live[e, E_NOW] == SPILL:
            target = entry[e, E_MEMORY]
            break
    new = open_node(count, node, READ, step, size, 0, target)
    depend(count, node, dep, new, steps[step, ROOM], 0, SPACE)
    for e in range(steps[step, ENTRY_START], steps[step, ENTRY_END]):
        number = entry[e, E_BLOCK]
        if live[e, E_SOURCE] == 0 and live[e, E_NEXT] < 0:
            depend(count, node, dep, new, block[number, DRAM_READY], 0, DATA)
    if not wait:
        depend(count, node, dep, new, steps[step, IN_NODE], -routes[3][target], DATA)
    book_route(count, node, state[BOOKINGS], new, target, size, bursts, routes)
    if wait or steps[step, IN_NODE] < 0:  # what follows the first part arrives behind it without a pause
        node[new, LATENCY] = routes[3][target]
    return new


@inner
def _leaving(count: Array, state: Any, routes: Any, at: Array, step: int, after: int) -> int:
    """Streamed results of a step: while it runs (``after`` negative), or the last of them once it is done."""
    node, dep, steps, entry, live = state[NODES], state[DEPS], state[STEPS], state[ENTRIES], state[LIVE]
    size, bursts, source = 0, 0, -1
    for e in range(steps[step, ENTRY_START], steps[step, ENTRY_END]):
        if live[e, E_NOW] == STREAM_WRITE:
            part = entry[e, E_FIRST] if after >= 0 else entry[e, E_BYTES] - entry[e, E_FIRST]
            size, bursts = size + part, bursts + in_rows(part, entry[e, E_ROWS], routes[5][1])
            source = entry[e, E_MEMORY]
    if size == 0:
        return -1
    pair = source * at.shape[1]
    new = open_node(count, node, WRITE, step, size, source, 0)
    if after >= 0:
        depend(count, node, dep, new, after, routes[3][pair], DATA)
        depend(count, node, dep, new, steps[step, DONE], 0, DATA)
    else:
        depend(count, node, dep, new, steps[step, ROOM], 0, SPACE)
        depend(count, node, dep, new, steps[step, IN_NODE], -routes[3][pair], DATA)
    book_route(count, node, state[BOOKINGS], new, pair, size, bursts, routes)
    return new


@inner
def _run(count: Array, state: Any, at: Array, routes: Any, gang: int) -> None:
    """The compute nodes of a gang, and what they wait for."""
    node, dep, booking, copy = state[NODES], state[DEPS], state[BOOKINGS], state[COPIES_OF]
    steps, entry, live = state[STEPS], state[ENTRIES], state[LIVE]
    for s in range(state[GANGS][gang, FIRST_STEP], state[GANGS][gang, LAST_STEP]):
        core = steps[s, CORE]
        new = open_node(count, node, COMPUTE, s, 0, -1, -1)
        depend(count, node, dep, new, steps[s, ROOM], 0, SPACE)
        depend(count, node, dep, new, steps[s, IN_NODE], 0, DATA)
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            kind, one = live[e, E_NOW], at[entry[e, E_BLOCK], entry[e, E_MEMORY]]
            depend(count, node, dep, new, live[e, E_IN], 0, DATA)
            if kind == WAIT:
                _wait(count, state, at, new, entry[e, E_BLOCK])
            elif kind == HOLD_WRITE:
                depend(count, node, dep, new, live[e, E_ROOM], 0, SPACE)
                depend(count, node, dep, new, copy[one, READY], 0, DATA)
                depend(count, node, dep, new, copy[one, GUARD], 0, DATA)
            elif kind in (HOLD_READ, STREAM_READ) and one >= 0:
                depend(count, node, dep, new, copy[one, READY], 0, DATA)
        book(count, node, booking, new, core, steps[s, TICKS])
        if steps[s, PORT_TICKS] > 0:
            book(
                count, node, booking, new, routes[6][steps[s, PORT_MEMORY]], min(steps[s, PORT_TICKS], steps[s, TICKS])
            )
        steps[s, RUN], done = new, new
        through = steps[s, THROUGH_NODE] >= 0 or steps[s, OUT_NODE] >= 0
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            through = through or live[e, E_THROUGH] >= 0
        if through:  # the core is not free before all has passed
            done = open_node(count, node, JOIN, s, 0, -1, -1)
            depend(count, node, dep, done, new, 0, DATA)
            _after_stream(count, node, dep, done, steps[s, THROUGH_NODE])
            _after_stream(count, node, dep, done, steps[s, OUT_NODE])
            for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
                _after_stream(count, node, dep, done, live[e, E_THROUGH])
            book(count, node, booking, done, core, 0)
        steps[s, DONE] = done
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            one = at[entry[e, E_BLOCK], entry[e, E_MEMORY]]
            if (live[e, E_NOW] == HOLD_READ or live[e, E_NOW] == STREAM_READ) and one >= 0:
                guard_with(count, node, dep, copy, one, done, core)


@inner
def _after_stream(count: Array, node: Array, dep: Array, done: int, stream: int) -> None:
    """Wait for a stream's last byte; its latency was paid with its first one."""
    if stream >= 0:
        depend(count, node, dep, done, stream, -node[stream, LATENCY], DATA)


@inner
def _wait(count: Array, state: Any, at: Array, new: int, number: int) -> None:
    """Depend on a block wherever it is."""
    block, copy = state[BLOCKS], state[COPIES_OF]
    if block[number, IN_DRAM] == 1:
        depend(count, state[NODES], state[DEPS], new, block[number, DRAM_READY], 0, DATA)
        return
    for where in range(1, at.shape[1]):
        if at[number, where] >= 0:
            depend(count, state[NODES], state[DEPS], new, copy[at[number, where], READY], 0, DATA)
            return


@inner
def _written(count: Array, state: Any, at: Array, s: int, e: int, out: int, gang: int) -> None:
    """What a result changes: its copy is the only valid one, in the memory or in DRAM."""
    block, copy, steps, entry, live = state[BLOCKS], state[COPIES_OF], state[STEPS], state[ENTRIES], state[LIVE]
    number, where, held = entry[e, E_BLOCK], entry[e, E_MEMORY], live[e, E_NOW] == HOLD_WRITE
    for other in range(1, at.shape[1]):
        if at[number, other] >= 0 and not (held and other == where):
            _drop(count, state, at, at[number, other])
    if held:
        one = at[number, where]
        if copy[one, FROM] < 0:
            copy[one, FROM] = steps[s, RUN]
        copy[one, READY], copy[one, GUARD], copy[one, GUARD_CORE] = steps[s, DONE], steps[s, DONE], steps[s, CORE]
        block[number, IN_DRAM] = 0
    else:
        block[number, IN_DRAM] = 1
        block[number, DRAM_READY] = join(
            count, state[NODES], state[DEPS], max(-1, block[number, DRAM_READY]), out, DATA
        )
        if block[number, DRAM_FROM] == NOT_YET:
            block[number, DRAM_FROM] = steps[s, RUN]
    block[number, WRITES_LEFT] -= 1
    if held:
        block[number, DUE] = -1 if block[number, WRITES_LEFT] > 0 else NEVER
        if block[number, WRITES_LEFT] <= 0 and block[number, THROUGH] == 1:
            block[number, DUE] = gang + state[GANGS][gang, AHEAD]
            pending = state[PENDING]
            pending[1 + pending[0, 1], 0] = number
            pending[0, 1] += 1


@inner
def _finish(count: Array, state: Any, at: Array, routes: Any, uses: Array, gang: int) -> None:
    """Results leave or stay, buffers are freed, and blocks that nobody uses again go."""
    block, copy, steps = state[BLOCKS], state[COPIES_OF], state[STEPS]
    work, entry, live = state[WORK], state[ENTRIES], state[LIVE]
    first, last = state[GANGS][gang, FIRST_STEP], state[GANGS][gang, LAST_STEP]
    end = -1
    for s in range(first, last):
        out = _leaving(count, state, routes, at, s, steps[s, RUN])
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            if live[e, E_NOW] == HOLD_WRITE or live[e, E_NOW] == STREAM_WRITE:
                _written(count, state, at, s, e, out if out >= 0 else steps[s, DONE], gang)
        for w in range(steps[s, WORK_START], steps[s, WORK_END]):
            one = work[w, WORK_COPY]
            copy[one, FROM] = steps[s, IN_NODE] if steps[s, IN_NODE] >= 0 else steps[s, RUN]
            copy[one, GUARD] = join(count, state[NODES], state[DEPS], steps[s, DONE], out, SPACE)
            _drop(count, state, at, one)
        end = join(count, state[NODES], state[DEPS], end, steps[s, DONE], DATA)
    for s in range(first, last):
        for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
            number = entry[e, E_BLOCK]
            while block[number, USE] < block[number, USE_END] and uses[block[number, USE]] <= gang:
                block[number, USE] += 1
            _retire(count, state, at, uses, number, end)


@inner
def _retire(count: Array, state: Any, at: Array, uses: Array, number: int, end: int) -> None:
    """Let a block go everywhere if nobody uses it again and it need not be written."""
    block = state[BLOCKS]
    if next_use(block, uses, number) < NEVER or (block[number, THROUGH] == 1 and block[number, IN_DRAM] == 0):
        return
    if block[number, COPIES] > 0:
        for where in range(1, at.shape[1]):
            if at[number, where] >= 0:
                _drop(count, state, at, at[number, where])
    if block[number, PERSISTENT] == 0 and block[number, DRAM_FROM] != NOT_YET and block[number, DRAM_TO] == NOT_YET:
        block[number, DRAM_TO] = end


@inner
def _flush(count: Array, state: Any, at: Array, routes: Any, uses: Array, upto: int) -> None:
    """Write results that are due to DRAM, in the order in which they were made."""
    block, pending = state[BLOCKS], state[PENDING]
    while pending[0, 0] < pending[0, 1]:
        number = pending[1 + pending[0, 0], 0]
        if block[number, DUE] > upto and block[number, DUE] < NEVER:
            return
        if block[number, DUE] >= 0 and block[number, DUE] < NEVER and block[number, IN_DRAM] == 0:
            write_back(
                count, state[NODES], state[DEPS], state[BOOKINGS], block, state[COPIES_OF], at, routes, number, WRITE
            )
            _retire(count, state, at, uses, number, block[number, DRAM_READY])
        pending[0, 0] += 1


@inner
def _clear_chip(count: Array, state: Any, at: Array, routes: Any, uses: Array) -> None:
    """Boundary ``dram``: nothing stays on chip from one group to the next."""
    _flush(count, state, at, routes, uses, NEVER)
    memory, block, copy = state[MEMORIES], state[BLOCKS], state[COPIES_OF]
    for where in range(1, at.shape[1]):
        one = memory[where, FIRST]
        while one >= 0:
            after, number = copy[one, NEXT], copy[one, 0]
            if number >= 0:
                if block[number, IN_DRAM] == 0 and block[number, COPIES] == 1:
                    write_back(
                        count, state[NODES], state[DEPS], state[BOOKINGS], block, copy, at, routes, number, EVICT
                    )
                _drop(count, state, at, one)
            one = after


@kernel(
    "int64(int64[::1], UniTuple(int64[:,::1], 13), int32[:,::1], int64[::1], "
    "Tuple((int64[::1], int64[::1], float64[::1], int64[::1], uint8[::1], int64[::1], int64[::1])))"
)
def decide(count: Array, state: Any, at: Array, uses: Array, routes: Any) -> int:
    """Fill the arrays of nodes, dependencies, bookings and copies. 0, or why there is no schedule."""
    gangs = state[GANGS]
    for gang in range(len(gangs)):
        count[GANG_NOW] = gang
        count[OPERATOR_NOW] = state[STEPS][gangs[gang, FIRST_STEP], OPERATOR]
        if gangs[gang, LEAVES_CHIP]:
            _clear_chip(count, state, at, routes, uses)
        status = _reserve(count, state, at, uses, routes, gang)
        if status == OK:
            _admit(count, state, at, uses, routes, gang)
            status = _fetch(count, state, at, routes, gang)
        if status == OK:
            status = _stream(count, state, at, routes, gang)
        if status != OK:
            return status
        _flush(count, state, at, routes, uses, gang)
        _run(count, state, at, routes, gang)
        _finish(count, state, at, routes, uses, gang)
        _flush(count, state, at, routes, uses, gang)
    _flush(count, state, at, routes, uses, NEVER)
    return OK
