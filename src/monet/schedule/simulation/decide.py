"""Decide: walk the gangs in plan order and fix every transfer, its source, its place in each queue, every eviction.

The operands of a gang are held (the whole block lies in the core's memory), streamed (passes through buffers, as often
as the mapper asks) or only waited for. The order in which nodes are appended is the order in which their resources
serve them. Nothing here looks at time.
"""

from __future__ import annotations

from monet.compiled import kernel, part
from monet.schedule.simulation.levels import leaves_for_dram, look_for_homes, settle, take, use_after
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
    guard_with,
    next_use,
    release,
    size_in,
    write_back,
    write_out,
)
from monet.schedule.simulation.supply import fetch, leave, pass_while_running, put_where_shared, stream

OK, NO_SPACE, NOWHERE = range(3)  # what ``decide`` answers


@kernel
def decide(plan: Tables, routes: Routes, state: State) -> int:
    """Fill in events, copies and stays in DRAM. 0, or why there is no schedule."""
    counters = state.counters[0]
    for gang in range(len(plan.gangs)):
        counters.gang = gang
        counters.turn += 1
        counters.operator = plan.steps[plan.gangs[gang].first_step].operator
        if plan.gangs[gang].leaves_chip:
            clear_chip(plan, routes, state)
        if not reserve(plan, routes, state, gang):
            return NO_SPACE
        admit(plan, routes, state, gang)
        if not fetch(plan, routes, state, gang) or not stream(plan, routes, state, gang):
            return NOWHERE
        flush(plan, routes, state, gang)
        start_steps(plan, routes, state, gang)
        pass_while_running(plan, routes, state, gang)
        end_steps(plan, state, gang)
        finish(plan, routes, state, gang)
        counters.turn += 1
        flush(plan, routes, state, gang)
    flush(plan, routes, state, NEVER)
    return OK


@part()
def reserve(plan: Tables, routes: Routes, state: State, gang: int) -> bool:
    """Take the space of all buffers and held blocks of a gang; False if there is not enough."""
    first, last = entries_of(plan, gang)
    for e in range(first, last):
        entry = plan.entries[e]
        state.entries[e].kind = entry.kind
        if entry.kind in (HOLD_READ, HOLD_WRITE):
            state.blocks[entry.block].pinned = gang
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        if not reserve_step(plan, routes, state, s):
            return False
    return True


@part()
def entries_of(plan: Tables, gang: int) -> tuple[int, int]:
    """The first entry of a gang, and the one after its last: those of its steps stand together."""
    return plan.steps[plan.gangs[gang].first_step].entry_start, plan.steps[plan.gangs[gang].last_step - 1].entry_end


@part()
def reserve_step(plan: Tables, routes: Routes, state: State, s: int) -> bool:
    """Take the space of the buffers and held blocks of a step; False if there is not enough."""
    step, doing = plan.steps[s], state.steps[s]
    doing.room = -1
    for b in range(step.buffer_start, step.buffer_end):
        buffer = plan.buffers[b]
        event = take_or_fail(plan, routes, state, buffer.memory, buffer.bytes)
        if event == NO_ROOM:
            return False
        state.buffer_copy[b] = add_copy(state, -1, buffer.memory, buffer.bytes)
        doing.room = join(state, doing.room, event, SPACE)
    for e in range(step.entry_start, step.entry_end):
        entry, live = plan.entries[e], state.entries[e]
        live.is_new, live.room, live.first_in, live.through = 0, -1, -1, -1
        if entry.kind == STREAM_READ:
            live.room = doing.room
        if entry.kind not in (HOLD_READ, HOLD_WRITE) or state.at[entry.block, entry.memory] >= 0:
            continue
        size = size_in(plan, routes, entry.block, entry.memory)
        event = take_or_fail(plan, routes, state, entry.memory, size)
        if event == NO_ROOM:
            return False
        live.is_new, live.room = 1, event
        add_copy(state, entry.block, entry.memory, size)
    return True


@part()
def take_or_fail(plan: Tables, routes: Routes, state: State, memory: int, size: int) -> int:
    """Take space that a gang cannot do without; where there is none, note where and how much is short."""
    event = take(plan, routes, state, memory, size, -1)
    if event == NO_ROOM:
        counters = state.counters[0]
        counters.failed_memory, counters.failed_bytes = memory, size - state.memories[memory].free
    return event


@part()
def admit(plan: Tables, routes: Routes, state: State, gang: int) -> None:
    """Results that may stay on chip do so if that drives out only what is needed later than they are."""
    first, last = entries_of(plan, gang)
    if routes.depth > 0:
        look_for_homes(plan, routes, state, first, last)
    for e in range(first, last):
        if plan.entries[e].kind == KEEP_WRITE:
            admit_result(plan, routes, state, e, gang)
        if routes.depth > 0 and state.entries[e].kind == STREAM_WRITE:
            settle(plan, routes, state, plan.entries[e].block)


@part()
def admit_result(plan: Tables, routes: Routes, state: State, e: int, gang: int) -> None:
    """Keep a result in the memory of its core if there is room."""
    entry, live = plan.entries[e], state.entries[e]
    block, size = state.blocks[entry.block], size_in(plan, routes, entry.block, entry.memory)
    block.pinned = gang
    if state.at[entry.block, entry.memory] >= 0:
        live.kind = HOLD_WRITE
        return
    use, event = use_after(plan, state, entry.block, gang), NO_ROOM
    if use < NEVER:  # somebody reads it again
        event = take(plan, routes, state, entry.memory, size, use)
    if event == NO_ROOM:
        live.kind = STREAM_WRITE
        return
    live.kind, live.is_new, live.room = HOLD_WRITE, 1, event
    add_copy(state, entry.block, entry.memory, size)


@part()
def start_steps(plan: Tables, routes: Routes, state: State, gang: int) -> None:
    """The compute nodes of a gang, and what they wait for."""
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        step, doing = plan.steps[s], state.steps[s]
        new = open_node(state, COMPUTE, s, 0, -1, -1)
        depend(state, new, doing.room, 0, SPACE)
        depend(state, new, doing.first_in, 0, DATA)
        for e in range(step.entry_start, step.entry_end):
            wait_for_entry(plan, state, new, e)
            state.entries[e].run = new
        book(state, new, step.core, step.ticks)
        if step.port_ticks > 0:
            book(state, new, routes.port[step.port_memory], min(step.port_ticks, step.ticks))
        doing.run = new


@part()
def end_steps(plan: Tables, state: State, gang: int) -> None:
    """The nodes with which steps of a gang are done; what they read from memories of cores is not needed any more."""
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        step, doing = plan.steps[s], state.steps[s]
        doing.done = when_all_has_passed(plan, state, s)
        for e in range(step.entry_start, step.entry_end):
            kind, copy = state.entries[e].kind, state.at[plan.entries[e].block, plan.entries[e].memory]
            if kind in (HOLD_READ, STREAM_READ) and copy >= 0:
                guard_with(state, copy, doing.done, step.core)


@part()
def wait_for_entry(plan: Tables, state: State, new: int, e: int) -> None:
    """A compute node waits for an operand, or for the place of a result."""
    entry, live = plan.entries[e], state.entries[e]
    depend(state, new, live.first_in, 0, DATA)
    if live.kind == WAIT:
        wait_for_block(state, new, entry.block)
        return
    copy = state.at[entry.block, entry.memory]
    if live.kind == HOLD_WRITE:
        depend(state, new, live.room, 0, SPACE)
        depend(state, new, state.guards[copy].ready, 0, DATA)
        depend(state, new, state.guards[copy].until, 0, DATA)
    elif live.kind in (HOLD_READ, STREAM_READ) and copy >= 0:
        depend(state, new, state.guards[copy].ready, 0, DATA)
    elif live.kind == STREAM_READ and live.first == 0:  # too small for a first part that it would wait for
        wait_for_block(state, new, entry.block)


@part()
def wait_for_block(state: State, new: int, number: int) -> None:
    """Depend on a block wherever it is."""
    if state.blocks[number].in_dram == 1:
        depend(state, new, state.blocks[number].dram_ready, 0, DATA)
        return
    for memory in range(1, state.at.shape[1]):
        copy = state.at[number, memory]
        if copy >= 0:
            depend(state, new, state.guards[copy].ready, 0, DATA)
            return


@part()
def when_all_has_passed(plan: Tables, state: State, s: int) -> int:
    """The node with which a step is done: its own, or a join with all that streams while it runs; the core is not free
    before."""
    step, doing = plan.steps[s], state.steps[s]
    streams = doing.through >= 0 or doing.out >= 0
    for e in range(step.entry_start, step.entry_end):
        streams = streams or state.entries[e].through >= 0
    if not streams:
        return int(doing.run)
    done = open_node(state, JOIN, s, 0, -1, -1)
    depend(state, done, doing.run, 0, DATA)
    wait_for_stream(state, done, doing.through)
    wait_for_stream(state, done, doing.out)
    for e in range(step.entry_start, step.entry_end):
        wait_for_stream(state, done, state.entries[e].through)
    book(state, done, step.core, 0)
    return done


@part()
def wait_for_stream(state: State, done: int, passing: int) -> None:
    """Wait for a stream's last byte; its latency was paid with its first one."""
    if passing >= 0:
        depend(state, done, passing, -state.events.nodes[passing].latency, DATA)


@part()
def finish(plan: Tables, routes: Routes, state: State, gang: int) -> None:
    """Results leave or stay, buffers are freed, and blocks that nobody uses again go."""
    end = -1
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        step, doing = plan.steps[s], state.steps[s]
        out = leave(plan, routes, state, s, doing.run)
        for e in range(step.entry_start, step.entry_end):
            if state.entries[e].kind == HOLD_WRITE:
                written_on_chip(plan, state, s, e)
            elif state.entries[e].kind == STREAM_WRITE:
                written_outside(plan, state, s, e, out if out >= 0 else doing.done)
        for b in range(step.buffer_start, step.buffer_end):
            copy = state.buffer_copy[b]
            state.copies[copy].came = doing.first_read if doing.first_read >= 0 else doing.run
            state.guards[copy].until = join(state, doing.done, out, SPACE)
            release(state, copy)
        end = join(state, end, doing.done, DATA)
    first, last = entries_of(plan, gang)
    for e in range(first, last):
        number = plan.entries[e].block
        block, given = state.blocks[number], plan.blocks[number]
        while block.use < given.use_end and plan.uses[block.use] <= gang:
            block.use += 1
        retire(plan, state, number, end)


@part()
def written_on_chip(plan: Tables, state: State, s: int, e: int) -> None:
    """A result is in a memory: its copy there is the only valid one."""
    entry, doing = plan.entries[e], state.steps[s]
    drop_copies(plan, state, entry.block, entry.memory)
    number = state.at[entry.block, entry.memory]
    copy, guard, block = state.copies[number], state.guards[number], state.blocks[entry.block]
    if copy.came < 0:
        copy.came = doing.run
    guard.ready, guard.until, guard.core = doing.done, doing.done, plan.steps[s].core
    block.in_dram = 0
    block.writes_left -= 1
    if block.writes_left > 0:
        block.due = -1
    elif plan.blocks[entry.block].through == 1:
        write_later(plan, state, entry.block)
    else:
        block.due = NEVER


@part()
def write_later(plan: Tables, state: State, number: int) -> None:
    """A finished block is written to DRAM once the gangs whose reads go ahead have theirs."""
    counters = state.counters[0]
    state.blocks[number].due = counters.gang + plan.gangs[counters.gang].ahead
    state.pending[counters.pending] = number
    counters.pending += 1


@part()
def written_outside(plan: Tables, state: State, s: int, e: int, out: int) -> None:
    """A result has left its core with ``out``: only DRAM has it, or the shared level that is its home. A step that has
    nothing to do writes nothing there, and waits for no room."""
    number = plan.entries[e].block
    block = state.blocks[number]
    block.writes_left -= 1
    if block.home > 0:
        drop_copies(plan, state, number, block.home)
        copy = state.at[number, block.home]
        guard = state.guards[copy]
        if plan.entries[e].bytes > 0:
            guard.ready, guard.filled = join(state, guard.ready, out, DATA), plan.blocks[number].bytes
            guard_with(state, copy, out, -1)
        block.in_dram = 1 if block.home == plan.blocks[number].resident else 0
        if block.in_dram == 0 and block.writes_left == 0 and leaves_for_dram(plan, number):
            write_later(plan, state, number)
        return
    drop_copies(plan, state, number, -1)
    block.in_dram = 1
    block.dram_ready = join(state, max(-1, block.dram_ready), out, DATA)
    if state.dram[number].came == NOT_YET:
        state.dram[number].came = state.steps[s].run


@part()
def drop_copies(plan: Tables, state: State, number: int, but: int) -> None:
    """Release all copies of a block but that in one memory, and one that is resident."""
    if state.blocks[number].copies > 0:
        for memory in range(1, state.at.shape[1]):
            if state.at[number, memory] >= 0 and memory != but and memory != plan.blocks[number].resident:
                release(state, state.at[number, memory])


@part()
def retire(plan: Tables, state: State, number: int, end: int) -> None:
    """Let a block go everywhere if nobody uses it again and it need not be written."""
    given, stay = plan.blocks[number], state.dram[number]
    must_leave = state.blocks[number].in_dram == 0 and leaves_for_dram(plan, number)
    if must_leave or next_use(plan, state, number) < NEVER:
        return
    drop_copies(plan, state, number, -1)
    if given.persistent == 0 and stay.came != NOT_YET and stay.went == NOT_YET:
        stay.went = end


@part()
def flush(plan: Tables, routes: Routes, state: State, upto: int) -> None:
    """Write results that are due to DRAM, in the order in which they were made."""
    counters = state.counters[0]
    while counters.flushed < counters.pending:
        number = state.pending[counters.flushed]
        block = state.blocks[number]
        if upto < block.due < NEVER:
            return
        if 0 <= block.due < NEVER and block.in_dram == 0:
            if routes.depth > 0 and put_where_shared(plan, routes, state, number):
                block.due = NEVER
            else:
                write_back(plan, routes, state, number, WRITE)
            retire(plan, state, number, block.dram_ready)
        counters.flushed += 1


@part()
def clear_chip(plan: Tables, routes: Routes, state: State) -> None:
    """Boundary ``dram``: nothing stays on chip from one group to the next."""
    flush(plan, routes, state, NEVER)
    for memory in range(1, routes.outside):
        copy = int(state.memories[memory].newest)
        while copy >= 0:
            after = int(state.guards[copy].next)
            if state.copies[copy].block >= 0:
                write_out(plan, routes, state, copy)
            copy = after
