"""Decide: walk the gangs in plan order and fix every transfer, its source, its place in each queue, every eviction.

The operands of a gang are held (the whole block lies in the core's memory), streamed (passes through buffers, as often
as the mapper asks) or only waited for. The order in which nodes are appended is the order in which their resources
serve them. Nothing here looks at time.
"""

from __future__ import annotations

from monet.compiled import kernel, part
from monet.schedule.simulation.nodes import book, depend, join, open_node
from monet.schedule.simulation.records import (
    COMPUTE,
    DATA,
    HOLD_READ,
    HOLD_WRITE,
    JOIN,
    KEEP_WRITE,
    NEVER,
    NOT_YET,
    SPACE,
    STREAM_READ,
    STREAM_WRITE,
    WAIT,
    WRITE,
    Routes,
    State,
    Tables,
)
from monet.schedule.simulation.residency import (
    NO_ROOM,
    add_copy,
    drive_out,
    guard_with,
    next_use,
    release,
    take,
    write_back,
)
from monet.schedule.simulation.supply import fetch, leave, stream

OK, NO_SPACE, NOWHERE = range(3)  # what ``decide`` answers


@kernel
def decide(plan: Tables, routes: Routes, state: State) -> int:
    """Fill in events, copies and stays in DRAM. 0, or why there is no schedule."""
    gangs, count = plan.gangs, state.counters
    for gang in range(len(gangs)):
        count.gang[0] = gang
        count.operator[0] = plan.steps.operator[gangs.first_step[gang]]
        if gangs.leaves_chip[gang]:
            clear_chip(plan, routes, state)
        if not reserve(plan, routes, state, gang):
            return NO_SPACE
        admit(plan, routes, state, gang)
        if not fetch(plan, routes, state, gang) or not stream(plan, routes, state, gang):
            return NOWHERE
        flush(plan, routes, state, gang)
        run_steps(plan, routes, state, gang)
        finish(plan, routes, state, gang)
        flush(plan, routes, state, gang)
    flush(plan, routes, state, NEVER)
    return OK


@part()
def reserve(plan: Tables, routes: Routes, state: State, gang: int) -> bool:
    """Take the space of all buffers and held blocks of a gang; False if there is not enough."""
    steps, buffers, entries = plan.steps, plan.buffers, plan.entries
    first, last = plan.gangs.first_step[gang], plan.gangs.last_step[gang]
    for e in range(steps.entry_start[first], steps.entry_end[last - 1]):
        kind = state.entries.kind[e] = entries.kind[e]
        if kind in (HOLD_READ, HOLD_WRITE):
            state.blocks.pinned[entries.block[e]] = gang
    for s in range(first, last):
        state.steps.room[s] = -1
        for b in range(steps.buffer_start[s], steps.buffer_end[s]):
            event = take_or_fail(plan, routes, state, buffers.memory[b], buffers.bytes[b])
            if event == NO_ROOM:
                return False
            state.buffer_copy[b] = add_copy(state, -1, buffers.memory[b], buffers.bytes[b])
            state.steps.room[s] = join(state, state.steps.room[s], event, SPACE)
        for e in range(steps.entry_start[s], steps.entry_end[s]):
            block, memory, kind = entries.block[e], entries.memory[e], entries.kind[e]
            state.entries.is_new[e], state.entries.room[e] = 0, -1
            state.entries.first_in[e], state.entries.through[e] = -1, -1
            if kind == STREAM_READ:
                state.entries.room[e] = state.steps.room[s]
            if kind not in (HOLD_READ, HOLD_WRITE) or state.at[block, memory] >= 0:
                continue
            event = take_or_fail(plan, routes, state, memory, plan.blocks.bytes[block])
            if event == NO_ROOM:
                return False
            state.entries.is_new[e], state.entries.room[e] = 1, event
            add_copy(state, block, memory, plan.blocks.bytes[block])
    return True


@part()
def take_or_fail(plan: Tables, routes: Routes, state: State, memory: int, size: int) -> int:
    """Take space that a gang cannot do without; where there is none, note where and how much is short."""
    event = take(plan, routes, state, memory, size, -1)
    if event == NO_ROOM:
        state.counters.failed_memory[0], state.counters.failed_bytes[0] = memory, size - state.memories.free[memory]
    return event


@part()
def admit(plan: Tables, routes: Routes, state: State, gang: int) -> None:
    """Results that may stay on chip do so if that drives out only what is needed later than they are."""
    steps, entries = plan.steps, plan.entries
    first, last = plan.gangs.first_step[gang], plan.gangs.last_step[gang]
    for e in range(steps.entry_start[first], steps.entry_end[last - 1]):
        if entries.kind[e] != KEEP_WRITE:
            continue
        block, memory = entries.block[e], entries.memory[e]
        state.blocks.pinned[block] = gang
        if state.at[block, memory] >= 0:
            state.entries.kind[e] = HOLD_WRITE
            continue
        use, end = state.blocks.use[block], plan.blocks.use_end[block]
        while use < end and plan.uses[use] <= gang:
            use += 1
        event = NO_ROOM
        if use < end:  # somebody reads it again
            event = take(plan, routes, state, memory, plan.blocks.bytes[block], plan.uses[use])
        if event == NO_ROOM:
            state.entries.kind[e] = STREAM_WRITE
            continue
        state.entries.kind[e], state.entries.is_new[e], state.entries.room[e] = HOLD_WRITE, 1, event
        add_copy(state, block, memory, plan.blocks.bytes[block])


@part()
def run_steps(plan: Tables, routes: Routes, state: State, gang: int) -> None:
    """The compute nodes of a gang, and what they wait for."""
    steps, entries = plan.steps, plan.entries
    for s in range(plan.gangs.first_step[gang], plan.gangs.last_step[gang]):
        new = open_node(state, COMPUTE, s, 0, -1, -1)
        depend(state, new, state.steps.room[s], 0, SPACE)
        depend(state, new, state.steps.first_in[s], 0, DATA)
        for e in range(steps.entry_start[s], steps.entry_end[s]):
            wait_for_entry(plan, state, new, e)
        book(state, new, steps.core[s], steps.ticks[s])
        if steps.port_ticks[s] > 0:
            port = routes.port[steps.port_memory[s]]
            book(state, new, port, min(steps.port_ticks[s], steps.ticks[s]))
        state.steps.run[s] = new
        state.steps.done[s] = done = when_all_has_passed(plan, state, s, new)
        for e in range(steps.entry_start[s], steps.entry_end[s]):
            kind, copy = state.entries.kind[e], state.at[entries.block[e], entries.memory[e]]
            if kind in (HOLD_READ, STREAM_READ) and copy >= 0:
                guard_with(state, copy, done, steps.core[s])


@part()
def wait_for_entry(plan: Tables, state: State, new: int, e: int) -> None:
    """A compute node waits for an operand, or for the place of a result."""
    block, memory, kind = plan.entries.block[e], plan.entries.memory[e], state.entries.kind[e]
    depend(state, new, state.entries.first_in[e], 0, DATA)
    if kind == WAIT:
        wait_for_block(state, new, block)
        return
    copy = state.at[block, memory]
    if kind == HOLD_WRITE:
        depend(state, new, state.entries.room[e], 0, SPACE)
        depend(state, new, state.guards.ready[copy], 0, DATA)
        depend(state, new, state.guards.until[copy], 0, DATA)
    elif kind in (HOLD_READ, STREAM_READ) and copy >= 0:
        depend(state, new, state.guards.ready[copy], 0, DATA)


@part()
def wait_for_block(state: State, new: int, block: int) -> None:
    """Depend on a block wherever it is."""
    if state.blocks.in_dram[block] == 1:
        depend(state, new, state.blocks.dram_ready[block], 0, DATA)
        return
    for memory in range(1, state.at.shape[1]):
        copy = state.at[block, memory]
        if copy >= 0:
            depend(state, new, state.guards.ready[copy], 0, DATA)
            return


@part()
def when_all_has_passed(plan: Tables, state: State, s: int, run: int) -> int:
    """The node with which a step is done: its own, or a join with all that streams while it runs; the core is not free
    before."""
    first, last = plan.steps.entry_start[s], plan.steps.entry_end[s]
    streams = state.steps.through[s] >= 0 or state.steps.out[s] >= 0
    for e in range(first, last):
        streams = streams or state.entries.through[e] >= 0
    if not streams:
        return run
    done = open_node(state, JOIN, s, 0, -1, -1)
    depend(state, done, run, 0, DATA)
    wait_for_stream(state, done, state.steps.through[s])
    wait_for_stream(state, done, state.steps.out[s])
    for e in range(first, last):
        wait_for_stream(state, done, state.entries.through[e])
    book(state, done, plan.steps.core[s], 0)
    return done


@part()
def wait_for_stream(state: State, done: int, passing: int) -> None:
    """Wait for a stream's last byte; its latency was paid with its first one."""
    if passing >= 0:
        depend(state, done, passing, -state.events.nodes.latency[passing], DATA)


@part()
def finish(plan: Tables, routes: Routes, state: State, gang: int) -> None:
    """Results leave or stay, buffers are freed, and blocks that nobody uses again go."""
    steps, entries = plan.steps, plan.entries
    first, last = plan.gangs.first_step[gang], plan.gangs.last_step[gang]
    end = -1
    for s in range(first, last):
        run, done, first_in = state.steps.run[s], state.steps.done[s], state.steps.first_in[s]
        out = leave(plan, routes, state, s, run)
        for e in range(steps.entry_start[s], steps.entry_end[s]):
            if state.entries.kind[e] == HOLD_WRITE:
                written_on_chip(plan, state, s, e, gang)
            elif state.entries.kind[e] == STREAM_WRITE:
                written_to_dram(plan, state, s, e, out if out >= 0 else done)
        for b in range(steps.buffer_start[s], steps.buffer_end[s]):
            copy = state.buffer_copy[b]
            state.copies.came[copy] = first_in if first_in >= 0 else run
            state.guards.until[copy] = join(state, done, out, SPACE)
            release(state, copy)
        end = join(state, end, done, DATA)
    for e in range(steps.entry_start[first], steps.entry_end[last - 1]):
        block = entries.block[e]
        while state.blocks.use[block] < plan.blocks.use_end[block] and plan.uses[state.blocks.use[block]] <= gang:
            state.blocks.use[block] += 1
        retire(plan, state, block, end)


@part()
def written_on_chip(plan: Tables, state: State, s: int, e: int, gang: int) -> None:
    """A result is in a memory: its copy there is the only valid one."""
    block, memory, blocks = plan.entries.block[e], plan.entries.memory[e], state.blocks
    drop_copies(state, block, memory)
    copy = state.at[block, memory]
    if state.copies.came[copy] < 0:
        state.copies.came[copy] = state.steps.run[s]
    done = state.steps.done[s]
    state.guards.ready[copy], state.guards.until[copy], state.guards.core[copy] = done, done, plan.steps.core[s]
    blocks.in_dram[block] = 0
    blocks.writes_left[block] -= 1
    if blocks.writes_left[block] > 0:
        blocks.due[block] = -1
    elif plan.blocks.through[block] == 1:
        blocks.due[block] = gang + plan.gangs.ahead[gang]
        state.pending[state.counters.pending[0]] = block
        state.counters.pending[0] += 1
    else:
        blocks.due[block] = NEVER


@part()
def written_to_dram(plan: Tables, state: State, s: int, e: int, out: int) -> None:
    """A result has left with ``out``: only DRAM has it."""
    block, blocks = plan.entries.block[e], state.blocks
    drop_copies(state, block, -1)
    blocks.in_dram[block] = 1
    blocks.dram_ready[block] = join(state, max(-1, blocks.dram_ready[block]), out, DATA)
    if state.dram.came[block] == NOT_YET:
        state.dram.came[block] = state.steps.run[s]
    blocks.writes_left[block] -= 1


@part()
def drop_copies(state: State, block: int, but: int) -> None:
    """Release all copies of a block but that in one memory."""
    if state.blocks.copies[block] > 0:
        for memory in range(1, state.at.shape[1]):
            if state.at[block, memory] >= 0 and memory != but:
                release(state, state.at[block, memory])


@part()
def retire(plan: Tables, state: State, block: int, end: int) -> None:
    """Let a block go everywhere if nobody uses it again and it need not be written."""
    must_leave = plan.blocks.through[block] == 1 and state.blocks.in_dram[block] == 0
    if must_leave or next_use(plan, state, block) < NEVER:
        return
    drop_copies(state, block, -1)
    if plan.blocks.persistent[block] == 0 and state.dram.came[block] != NOT_YET and state.dram.went[block] == NOT_YET:
        state.dram.went[block] = end


@part()
def flush(plan: Tables, routes: Routes, state: State, upto: int) -> None:
    """Write results that are due to DRAM, in the order in which they were made."""
    blocks, flushed = state.blocks, state.counters.flushed
    while flushed[0] < state.counters.pending[0]:
        block = state.pending[flushed[0]]
        due = blocks.due[block]
        if upto < due < NEVER:
            return
        if 0 <= due < NEVER and blocks.in_dram[block] == 0:
            write_back(plan, routes, state, block, WRITE)
            retire(plan, state, block, blocks.dram_ready[block])
        flushed[0] += 1


@part()
def clear_chip(plan: Tables, routes: Routes, state: State) -> None:
    """Boundary ``dram``: nothing stays on chip from one group to the next."""
    flush(plan, routes, state, NEVER)
    for memory in range(1, state.at.shape[1]):
        copy = state.memories.newest[memory]
        while copy >= 0:
            after = state.guards.next[copy]
            if state.copies.block[copy] >= 0:
                drive_out(plan, routes, state, copy)
            copy = after
