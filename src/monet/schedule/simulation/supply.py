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
    steps, entries, next_of = plan.steps, plan.entries, state.entries.next
    for s in range(plan.gangs.first_step[gang], plan.gangs.last_step[gang]):
        for e in range(steps.entry_start[s], steps.entry_end[s]):
            if state.entries.source[e] != LEADS:
                continue
            block = entries.block[e]
            source = source_of(plan, routes, state, block, entries.memory[e])
            if source < 0:
                return False
            new = transfer(plan, routes, state, e, source, plan.blocks.bytes[block], s)
            f = e
            while f >= 0:
                copy = state.at[block, entries.memory[f]]
                state.copies.came[copy] = new
                state.guards.ready[copy], state.guards.until[copy], state.guards.core[copy] = new, new, -1
                f = next_of[f]
    return True


@part()
def chain(plan: Tables, state: State, gang: int, held: bool) -> None:
    """Link the entries of a gang that want the same block from outside: the first of them leads, for a multicast."""
    entries, live, blocks = plan.entries, state.entries, state.blocks
    first = plan.steps.entry_start[plan.gangs.first_step[gang]]
    last = plan.steps.entry_end[plan.gangs.last_step[gang] - 1]
    for e in range(first, last):
        blocks.leader[entries.block[e]] = -1
    for e in range(last - 1, first - 1, -1):
        block, kind = entries.block[e], live.kind[e]
        live.next[e], live.source[e] = -1, UNWANTED
        if held:  # a sum that has been evicted comes back before it is continued
            wanted = live.is_new[e] == 1 and (kind == HOLD_READ or blocks.due[block] < 0)
        else:
            wanted = kind == STREAM_READ and state.at[block, entries.memory[e]] < 0
        if not wanted:
            continue
        live.source[e], lead = LEADS, blocks.leader[block]
        if lead >= 0 and (held or (entries.share[e] > 0 and entries.share[lead] == entries.share[e])):
            live.next[e], live.source[lead] = lead, FOLLOWS
        blocks.leader[block] = e


@part()
def source_of(plan: Tables, routes: Routes, state: State, block: int, target: int) -> int:
    """The memory to get a block from: the on-chip copy with the shortest route, else DRAM; written there first if it
    can only be reached there. Negative if it is nowhere."""
    best, hops, memories = 0, NEVER, state.at.shape[1]
    if state.blocks.copies[block] > 0:
        for source in range(1, memories):
            copy, pair = state.at[block, source], source * memories + target
            many = routes.pointer[pair + 1] - routes.pointer[pair] if routes.exists[pair] else NEVER
            if copy >= 0 and state.guards.ready[copy] >= 0 and many < hops:
                best, hops = source, many
    if best == 0 and state.blocks.in_dram[block] == 0 and not write_back(plan, routes, state, block, WRITE):
        return -1
    return best


@part()
def transfer(plan: Tables, routes: Routes, state: State, lead: int, source: int, size: int, step: int) -> int:
    """One transfer of a block to every entry of a chain, each link of the routes booked once."""
    nodes, entries, memories = state.events.nodes, plan.entries, state.at.shape[1]
    block, from_dram = entries.block[lead], source == 0
    new = open_node(state, READ if from_dram else MOVE, step, size, source, entries.memory[lead])
    copy = state.at[block, source]
    depend(state, new, state.blocks.dram_ready[block] if from_dram else state.guards.ready[copy], 0, DATA)
    bursts = in_rows(size, entries.rows[lead], routes.burst_bytes)
    e, targets = lead, 0
    while e >= 0:
        pair = source * memories + entries.memory[e]
        depend(state, new, state.entries.room[e], 0, SPACE)
        book_route(state, routes, new, pair, size, bursts)
        nodes.latency[new] = max(nodes.latency[new], routes.latency[pair])
        e, targets = state.entries.next[e], targets + 1
    nodes.targets[new] = targets
    if not from_dram:
        guard_with(state, copy, new, -1)
    return new


@part()
def stream(plan: Tables, routes: Routes, state: State, gang: int) -> bool:
    """Streams of a gang: what must be there before the array starts, then what passes while it runs. False if a block
    is nowhere."""
    chain(plan, state, gang, False)
    first, last = plan.gangs.first_step[gang], plan.gangs.last_step[gang]
    for s in range(first, last):
        if not stream_first(plan, routes, state, s):
            return False
    for s in range(first, last):
        stream_rest(plan, routes, state, s)
        state.steps.out[s] = leave(plan, routes, state, s, -1)
    return True


@part()
def stream_first(plan: Tables, routes: Routes, state: State, s: int) -> bool:
    """What a step streams before it starts; False if a block is nowhere."""
    entries, live = plan.entries, state.entries
    private = bursts = 0
    for e in range(plan.steps.entry_start[s], plan.steps.entry_end[s]):
        if live.source[e] != LEADS:
            continue
        live.source[e] = source = source_of(plan, routes, state, entries.block[e], entries.memory[e])
        if source < 0:
            return False
        if source == 0 and live.next[e] < 0:
            private += entries.first[e]
            bursts += in_rows(entries.first[e], entries.rows[e], routes.burst_bytes)
        elif entries.first[e] > 0:
            shared(plan, routes, state, e, s, entries.first[e], False)
    state.steps.first_in[s] = read_for_itself(plan, routes, state, s, private, bursts, True) if private else -1
    return True


@part()
def stream_rest(plan: Tables, routes: Routes, state: State, s: int) -> None:
    """What passes to a step while it runs."""
    entries, live = plan.entries, state.entries
    private = 0
    for e in range(plan.steps.entry_start[s], plan.steps.entry_end[s]):
        rest = entries.bytes[e] - entries.first[e]
        if live.kind[e] == SPILL and live.kind[e - 1] == STREAM_WRITE:
            private += entries.bytes[e]
        if live.source[e] < 0:
            continue
        if live.source[e] == 0 and live.next[e] < 0:
            private += rest
        elif rest > 0:
            shared(plan, routes, state, e, s, rest, True)
    state.steps.through[s] = read_for_itself(plan, routes, state, s, private, 0, False) if private else -1


@part()
def shared(plan: Tables, routes: Routes, state: State, lead: int, step: int, size: int, rest: bool) -> None:
    """A stream that several steps share, or that comes from another core's memory; its first part, or the rest."""
    live = state.entries
    new = transfer(plan, routes, state, lead, live.source[lead], size, step)
    e = lead
    while e >= 0:
        if not rest:
            live.first_in[e] = new
        else:
            live.through[e] = new
            if live.first_in[e] >= 0:  # its latency was paid with its first part
                state.events.nodes.latency[new] = 0
        e = live.next[e]


@part()
def read_for_itself(
    plan: Tables, routes: Routes, state: State, step: int, size: int, bursts: int, is_first: bool
) -> int:
    """All that one step streams from DRAM for itself, as one node."""
    live, first, last, target = state.entries, plan.steps.entry_start[step], plan.steps.entry_end[step], 0
    for e in range(first, last):
        if live.kind[e] == STREAM_READ or live.kind[e] == SPILL:
            target = plan.entries.memory[e]
            break
    new = open_node(state, READ, step, size, 0, target)
    depend(state, new, state.steps.room[step], 0, SPACE)
    for e in range(first, last):
        if live.source[e] == 0 and live.next[e] < 0:
            depend(state, new, state.blocks.dram_ready[plan.entries.block[e]], 0, DATA)
    if not is_first:
        depend(state, new, state.steps.first_in[step], -routes.latency[target], DATA)
    book_route(state, routes, new, target, size, bursts)
    if is_first or state.steps.first_in[step] < 0:  # what follows the first part arrives behind it without a pause
        state.events.nodes.latency[new] = routes.latency[target]
    return new


@part()
def leave(plan: Tables, routes: Routes, state: State, step: int, after: int) -> int:
    """Streamed results of a step: while it runs (``after`` negative), or the last of them once it is done."""
    entries, size, bursts, source = plan.entries, 0, 0, -1
    for e in range(plan.steps.entry_start[step], plan.steps.entry_end[step]):
        if state.entries.kind[e] == STREAM_WRITE:
            leaving = entries.first[e] if after >= 0 else entries.bytes[e] - entries.first[e]
            size += leaving
            bursts += in_rows(leaving, entries.rows[e], routes.burst_bytes)
            source = entries.memory[e]
    if size == 0:
        return -1
    pair = source * state.at.shape[1]
    new = open_node(state, WRITE, step, size, source, 0)
    if after >= 0:
        depend(state, new, after, routes.latency[pair], DATA)
        depend(state, new, state.steps.done[step], 0, DATA)
    else:
        depend(state, new, state.steps.room[step], 0, SPACE)
        depend(state, new, state.steps.first_in[step], -routes.latency[pair], DATA)
    book_route(state, routes, new, pair, size, bursts)
    return new
