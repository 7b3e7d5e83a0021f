"""How operands come to a gang and how streamed results leave it. Compiled parts of ``decide``."""

from __future__ import annotations

from monet.compiled import part
from monet.schedule.simulation.nodes import book_route, depend, in_rows, open_node
from monet.schedule.simulation.records import (
    DATA,
    FOLLOWS,
    HOLD_READ,
    LEADS,
    MOVE,
    NEVER,
    READ,
    SPACE,
    SPILL,
    STREAM_READ,
    STREAM_WRITE,
    UNWANTED,
    WRITE,
    Routes,
    State,
    Tables,
)
from monet.schedule.simulation.residency import guard_with, write_back


@part()
def fetch(plan: Tables, routes: Routes, state: State, gang: int) -> bool:
    """Bring the held blocks that are missing; False if one is nowhere."""
    chain(plan, state, gang, True)
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
            if state.entries[e].source != LEADS:
                continue
            number = plan.entries[e].block
            source = source_of(plan, routes, state, number, plan.entries[e].memory)
            if source < 0:
                return False
            new = transfer(plan, routes, state, e, source, plan.blocks[number].bytes, s)
            f = e
            while f >= 0:
                copy = state.at[number, plan.entries[f].memory]
                guard = state.guards[copy]
                state.copies[copy].came = new
                guard.ready, guard.until, guard.core = new, new, -1
                f = state.entries[f].next
    return True


@part()
def chain(plan: Tables, state: State, gang: int, held: bool) -> None:
    """Link the entries of a gang that want the same block from outside: the first of them leads, for a multicast."""
    entries = plan.entries
    first = plan.steps[plan.gangs[gang].first_step].entry_start
    last = plan.steps[plan.gangs[gang].last_step - 1].entry_end
    for e in range(first, last):
        state.blocks[entries[e].block].leader = -1
    for e in range(last - 1, first - 1, -1):
        entry, live, block = entries[e], state.entries[e], state.blocks[entries[e].block]
        live.next, live.source = -1, UNWANTED
        if held:  # a sum that has been evicted comes back before it is continued
            wanted = live.is_new == 1 and (live.kind == HOLD_READ or block.due < 0)
        else:
            wanted = live.kind == STREAM_READ and state.at[entry.block, entry.memory] < 0
        if not wanted:
            continue
        lead = block.leader if held or entry.share > 0 else -1
        while lead >= 0 and not held and entries[lead].share != entry.share:  # cores that read other parts come between
            lead = state.entries[lead].other
        live.source, live.other = LEADS, block.leader
        if lead >= 0:
            live.next, state.entries[lead].source = lead, FOLLOWS
        block.leader = e


@part()
def source_of(plan: Tables, routes: Routes, state: State, number: int, target: int) -> int:
    """The memory to get a block from: the on-chip copy with the shortest route, else DRAM; written there first if it
    can only be reached there. Negative if it is nowhere."""
    best, hops, memories = 0, NEVER, state.at.shape[1]
    if state.blocks[number].copies > 0 and not plan.blocks[number].from_dram:
        for source in range(1, memories):
            copy, pair = state.at[number, source], source * memories + target
            many = routes.pointer[pair + 1] - routes.pointer[pair] if routes.exists[pair] else NEVER
            if copy >= 0 and state.guards[copy].ready >= 0 and many < hops:
                best, hops = source, many
    if best == 0 and state.blocks[number].in_dram == 0 and not write_back(plan, routes, state, number, WRITE):
        return -1
    return best


@part()
def transfer(plan: Tables, routes: Routes, state: State, lead: int, source: int, size: int, step: int) -> int:
    """One transfer of a block to every entry of a chain, each link of the routes booked once."""
    first, from_dram, memories = plan.entries[lead], source == 0, state.at.shape[1]
    new = open_node(state, READ if from_dram else MOVE, step, size, source, first.memory)
    node, copy = state.events.nodes[new], state.at[first.block, source]
    depend(state, new, state.blocks[first.block].dram_ready if from_dram else state.guards[copy].ready, 0, DATA)
    bursts = in_rows(size, first.rows, routes.burst_bytes)
    e, targets = lead, 0
    while e >= 0:
        pair = source * memories + plan.entries[e].memory
        depend(state, new, state.entries[e].room, 0, SPACE)
        book_route(state, routes, new, pair, size, bursts)
        node.latency = max(node.latency, routes.latency[pair])
        e, targets = state.entries[e].next, targets + 1
    node.targets = targets
    if not from_dram:
        guard_with(state, copy, new, -1)
    return new


@part()
def stream(plan: Tables, routes: Routes, state: State, gang: int) -> bool:
    """Streams of a gang: what must be there before the array starts, then what passes while it runs. False if a block
    is nowhere."""
    chain(plan, state, gang, False)
    first, last = plan.gangs[gang].first_step, plan.gangs[gang].last_step
    for s in range(first, last):
        if not stream_first(plan, routes, state, s):
            return False
    for s in range(first, last):
        stream_rest(plan, routes, state, s)
        state.steps[s].out = leave(plan, routes, state, s, -1)
    return True


@part()
def stream_first(plan: Tables, routes: Routes, state: State, s: int) -> bool:
    """What a step streams before it starts; False if a block is nowhere."""
    private = bursts = 0
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        entry, live = plan.entries[e], state.entries[e]
        if live.source != LEADS:
            continue
        live.source = source_of(plan, routes, state, entry.block, entry.memory)
        if live.source < 0:
            return False
        if live.source == 0 and live.next < 0:
            private += entry.first
            bursts += in_rows(entry.first, entry.rows, routes.burst_bytes)
        elif entry.first > 0:
            shared(plan, routes, state, e, s, entry.first, False)
    state.steps[s].first_in = read_for_itself(plan, routes, state, s, private, bursts, True) if private else -1
    return True


@part()
def stream_rest(plan: Tables, routes: Routes, state: State, s: int) -> None:
    """What passes to a step while it runs."""
    private = 0
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        entry, live = plan.entries[e], state.entries[e]
        rest = entry.bytes - entry.first
        if live.kind == SPILL and state.entries[e - 1].kind == STREAM_WRITE:
            private += entry.bytes
        if live.source < 0:
            continue
        if live.source == 0 and live.next < 0:
            private += rest
        elif rest > 0:
            shared(plan, routes, state, e, s, rest, True)
    state.steps[s].through = read_for_itself(plan, routes, state, s, private, 0, False) if private else -1


@part()
def shared(plan: Tables, routes: Routes, state: State, lead: int, step: int, size: int, is_rest: bool) -> None:
    """A stream that several steps share, or that comes from another core's memory; its first part, or the rest."""
    new = transfer(plan, routes, state, lead, state.entries[lead].source, size, step)
    e = lead
    while e >= 0:
        live = state.entries[e]
        if not is_rest:
            live.first_in = new
        else:
            live.through = new
            if live.first_in >= 0:  # its latency was paid with its first part
                state.events.nodes[new].latency = 0
        e = live.next


@part()
def read_for_itself(plan: Tables, routes: Routes, state: State, s: int, size: int, bursts: int, is_first: bool) -> int:
    """All that one step streams from DRAM for itself, as one node."""
    step, doing, target = plan.steps[s], state.steps[s], 0
    for e in range(step.entry_start, step.entry_end):
        if state.entries[e].kind in (STREAM_READ, SPILL):
            target = plan.entries[e].memory
            break
    new = open_node(state, READ, s, size, 0, target)
    depend(state, new, doing.room, 0, SPACE)
    for e in range(step.entry_start, step.entry_end):
        if state.entries[e].source == 0 and state.entries[e].next < 0:
            depend(state, new, state.blocks[plan.entries[e].block].dram_ready, 0, DATA)
    if not is_first:
        depend(state, new, doing.first_in, -routes.latency[target], DATA)
    book_route(state, routes, new, target, size, bursts)
    if is_first or doing.first_in < 0:  # what follows the first part arrives behind it without a pause
        state.events.nodes[new].latency = routes.latency[target]
    return new


@part()
def leave(plan: Tables, routes: Routes, state: State, s: int, after: int) -> int:
    """Streamed results of a step: while it runs (``after`` negative), or the last of them once it is done."""
    doing, size, bursts, source = state.steps[s], 0, 0, -1
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        if state.entries[e].kind == STREAM_WRITE:
            entry = plan.entries[e]
            leaving = entry.first if after >= 0 else entry.bytes - entry.first
            size += leaving
            bursts += in_rows(leaving, entry.rows, routes.burst_bytes)
            source = entry.memory
    if size == 0:
        return -1
    pair = source * state.at.shape[1]
    new = open_node(state, WRITE, s, size, source, 0)
    if after >= 0:
        depend(state, new, after, routes.latency[pair], DATA)
        depend(state, new, doing.done, 0, DATA)
    else:
        depend(state, new, doing.room, 0, SPACE)
        depend(state, new, doing.first_in, -routes.latency[pair], DATA)
    book_route(state, routes, new, pair, size, bursts)
    return new
