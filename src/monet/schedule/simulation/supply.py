"""How operands come to a gang and how streamed results leave it. Compiled parts of ``decide``."""

from __future__ import annotations

from monet.compiled import part
from monet.schedule.simulation.levels import follow, is_above, put_up, stage
from monet.schedule.simulation.nodes import between, book_route, depend, in_rows, join, open_node, part_of
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
from monet.schedule.simulation.residency import guard_with, size_in, write_back


@part()
def fetch(plan: Tables, routes: Routes, state: State, gang: int) -> bool:
    """Bring the held blocks that are missing; False if one is nowhere."""
    chain(plan, routes, state, gang, True)
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
            if state.entries[e].source != LEADS:
                continue
            number = plan.entries[e].block
            source = source_of(plan, routes, state, e, plan.blocks[number].bytes, s)
            if source < 0:
                return False
            new = transfer(plan, routes, state, e, source, plan.blocks[number].bytes, s, False)
            f = e
            while f >= 0:
                copy = state.at[number, plan.entries[f].memory]
                guard = state.guards[copy]
                state.copies[copy].came = new
                guard.ready, guard.until, guard.core = new, new, -1
                f = state.entries[f].next
    return True


@part()
def chain(plan: Tables, routes: Routes, state: State, gang: int, held: bool) -> None:
    """Link the entries of a gang that want the same block from outside, by the same shared level if there is one: the
    first of them leads, for a multicast."""
    entries = plan.entries
    first = plan.steps[plan.gangs[gang].first_step].entry_start
    last = plan.steps[plan.gangs[gang].last_step - 1].entry_end
    for e in range(first, last):
        block = state.blocks[entries[e].block]
        block.leader, block.asked = -1, 0
    for e in range(last - 1, first - 1, -1):
        entry, live, block = entries[e], state.entries[e], state.blocks[entries[e].block]
        live.next, live.source = -1, UNWANTED
        if held:  # a sum that has been evicted comes back before it is continued
            wanted = live.is_new == 1 and (live.kind == HOLD_READ or block.due < 0)
        else:
            wanted = live.kind == STREAM_READ and (not is_here(state, entry.block, entry.memory) or entry.away > 0)
        if not wanted:
            continue
        ask(plan, routes, state, e, held)
        lead = block.leader if held or entry.share > 0 else -1
        while lead >= 0 and not (
            (held or entries[lead].share == entry.share)
            and routes.parent[entries[lead].memory] == routes.parent[entry.memory]
        ):  # cores that read other parts, or from another level, come between
            lead = state.entries[lead].other
        live.source, live.other = LEADS, block.leader
        block.asked += live.bytes
        if lead >= 0:
            live.next, state.entries[lead].source = lead, FOLLOWS
            block.asked -= state.entries[lead].bytes
        block.leader = e


@part()
def is_here(state: State, number: int, memory: int) -> bool:
    """Whether a memory has a block, and not only the place that this gang has taken there for its result: what is
    overwritten may lie elsewhere until then."""
    copy = state.at[number, memory]
    is_place = copy >= 0 and state.copies[copy].since == state.counters[0].gang and state.guards[copy].ready < 0
    return bool(copy >= 0 and not is_place)


@part()
def ask(plan: Tables, routes: Routes, state: State, e: int, held: bool) -> None:
    """What an entry takes of its block: of one that lies in the memories of cores that work together, only what they
    have to take of each other."""
    entry, live, block = plan.entries[e], state.entries[e], plan.blocks[plan.entries[e].block]
    if held:
        live.bytes, live.first, live.own = block.bytes, block.bytes, size_in(plan, routes, entry.block, entry.memory)
        live.every = entry.every if routes.members[entry.memory] > 1 else block.bytes
    elif not is_here(state, entry.block, entry.memory):
        live.bytes, live.first, live.own, live.every = entry.bytes, entry.first, entry.own, entry.every
    else:
        live.bytes, live.first = entry.away, part_of(entry.first, entry.away, entry.bytes)
        live.own, live.every = entry.own_away, part_of(entry.every, entry.away, entry.bytes)


@part()
def source_of(plan: Tables, routes: Routes, state: State, e: int, size: int, step: int) -> int:
    """The memory from which an entry gets ``size`` bytes of its block: the on-chip copy with the shortest route, else
    DRAM, with the shared levels on the way supplied. Negative if the block is nowhere."""
    number, target = plan.entries[e].block, plan.entries[e].memory
    best = nearest_copy(plan, routes, state, number, target)
    if best == 0 and state.blocks[number].in_dram == 0:
        if routes.parent[target] > 0 and put_where_shared(plan, routes, state, number):
            best = nearest_copy(plan, routes, state, number, target)
        if best == 0 and not write_back(plan, routes, state, number, WRITE):
            return -1
    live = state.entries[e]
    live.is_staged = 1 if best == 0 else 0
    if routes.parent[target] > 0 and (best == 0 or is_above(routes, target, best)):
        live.is_staged = 1
        staged = stage(plan, routes, state, e, size, step, False)
        if staged > 0:
            return staged
    return best


@part()
def put_where_shared(plan: Tables, routes: Routes, state: State, number: int) -> bool:
    """Write a block that only a core's memory has to a level that others share, if there is room."""
    for memory in range(1, state.at.shape[1]):
        copy = int(state.at[number, memory])
        if copy >= 0:
            return state.blocks[number].copies == 1 and put_up(plan, routes, state, copy, WRITE)
    return False


@part()
def nearest_copy(plan: Tables, routes: Routes, state: State, number: int, target: int) -> int:
    """The memory on chip with a whole copy of a block and the shortest route; 0 if there is none. Of equals one that
    data from DRAM passes anyway: it is not on its way back from another core."""
    best, hops, memories = 0, NEVER, state.at.shape[1]
    if state.blocks[number].copies == 0 and plan.blocks[number].resident == 0:
        return best
    level = routes.parent[target]
    while level > 0:
        if is_whole(plan, routes, state, number, level):
            pair = level * memories + target  # its port is one resource of the route
            best, hops = level, routes.pointer[pair + 1] - routes.pointer[pair] - 1
            if hops <= 1:
                return int(best)
            break
        level = routes.parent[level]
    if plan.blocks[number].from_outside:
        return int(best)
    for source in range(1, memories):
        pair = source * memories + target
        many = routes.pointer[pair + 1] - routes.pointer[pair] if routes.exists[pair] else NEVER
        if many < hops and is_whole(plan, routes, state, number, source):
            best, hops = source, many
    return int(best)


@part()
def is_whole(plan: Tables, routes: Routes, state: State, number: int, memory: int) -> bool:
    """Whether all of a block lies in a memory, or is on its way there."""
    copy = state.at[number, memory]
    if copy < 0 or (state.guards[copy].ready < 0 and plan.blocks[number].resident != memory):
        return False
    return bool(min(state.copies[copy].bytes, state.guards[copy].filled) >= size_in(plan, routes, number, memory))


@part()
def transfer(
    plan: Tables, routes: Routes, state: State, lead: int, source: int, size: int, step: int, is_rest: bool
) -> int:
    """One transfer of a block to every entry of a chain, each link of the routes booked once."""
    first, from_dram, memories = plan.entries[lead], source == 0, state.at.shape[1]
    new = open_node(state, READ if from_dram else MOVE, step, size, source, first.memory)
    node, copy = state.events.nodes[new], state.at[first.block, source]
    is_level = not from_dram and state.entries[lead].is_staged == 1
    if not is_level:
        depend(state, new, state.blocks[first.block].dram_ready if from_dram else state.guards[copy].ready, 0, DATA)
    place = plan.blocks[first.block].place
    bursts = in_rows(size, first.rows, routes.burst_bytes[place])
    e, targets = lead, 0
    while e >= 0:
        pair = between(source, plan.entries[e].memory, memories, place)
        depend(state, new, state.entries[e].room, 0, SPACE)
        if is_rest:
            begin_with(state, new, state.entries[e].run, routes.latency[pair])
        own, every = size, size
        if routes.members[plan.entries[e].memory] > 1:
            if is_rest:
                behind(state, new, state.entries[e].first_in, routes.latency[pair])
            own, every = own_bytes(state, e, is_rest), every_byte(state, e, is_rest)
        elif routes.members[source] > 1:  # each of the cores that have it sends its part
            own = part_of(plan.blocks[first.block].own, size, plan.blocks[first.block].bytes)
        book_route(state, routes, new, pair, size, own, every, bursts, place)
        node.latency = max(node.latency, routes.latency[pair])
        e, targets = state.entries[e].next, targets + 1
    node.targets = targets
    if is_level:
        follow(state, new, copy, size)
    if not from_dram:
        guard_with(state, copy, new, -1)
    return new


@part()
def own_bytes(state: State, e: int, is_rest: bool) -> int:
    """Bytes over the wires of the core that takes most, of what an entry takes first, or of the rest."""
    live = state.entries[e]
    first = part_of(live.own, live.first, live.bytes)
    return int(live.own - first) if is_rest else first


@part()
def every_byte(state: State, e: int, is_rest: bool) -> int:
    """The same over the wires of all cores together."""
    live = state.entries[e]
    first = part_of(live.every, live.first, live.bytes)
    return int(live.every - first) if is_rest else first


@part()
def stream(plan: Tables, routes: Routes, state: State, gang: int) -> bool:
    """Streams of a gang: what must be there before the array starts. False if a block is nowhere."""
    chain(plan, routes, state, gang, False)
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        if not stream_first(plan, routes, state, s):
            return False
    return True


@part()
def pass_while_running(plan: Tables, routes: Routes, state: State, gang: int) -> None:
    """Streams of a gang: what comes and leaves while its steps run, through buffers that they fill and empty."""
    for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
        stream_rest(plan, routes, state, s)
        state.steps[s].out = leave(plan, routes, state, s, -1)


@part()
def begin_with(state: State, new: int, run: int, latency: int) -> None:
    """What the node opened last moves comes no earlier than a step starts."""
    depend(state, new, run, -state.events.nodes[run].duration - latency, DATA)


@part()
def stream_first(plan: Tables, routes: Routes, state: State, s: int) -> bool:
    """What a step streams before it starts; False if a block is nowhere."""
    doing, level, is_from_dram = state.steps[s], 0, False
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        entry, live = plan.entries[e], state.entries[e]
        if live.source != LEADS:
            continue
        live.source = source_of(plan, routes, state, e, live.first, s)
        if live.source < 0:
            return False
        if not is_private(state, e):
            if live.first > 0:
                shared(plan, routes, state, e, s, live.first, False)
        elif live.source == 0:
            is_from_dram = True
        else:
            level = routes.parent[entry.memory]
    doing.first_in = doing.first_read = -1
    if is_from_dram:
        for place in range(routes.places):
            first_from(plan, routes, state, s, 0, place)
    while level > 0:
        first_from(plan, routes, state, s, level, 0)
        level = routes.parent[level]
    return True


@part()
def first_from(plan: Tables, routes: Routes, state: State, s: int, source: int, place: int) -> None:
    """What a step streams for itself before it starts, from a place in DRAM or from a shared level."""
    doing, private, bursts = state.steps[s], 0, 0
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        entry, live = plan.entries[e], state.entries[e]
        if is_from(plan, state, e, source, place):
            private += live.first
            if source == 0:
                bursts += in_rows(live.first, entry.rows, routes.burst_bytes[place])
    if private > 0:
        new = read_for_itself(plan, routes, state, s, source, private, bursts, True, place)
        doing.first_read = doing.first_read if doing.first_read >= 0 else new
        doing.first_in = join(state, doing.first_in, new, DATA)


@part()
def is_from(plan: Tables, state: State, e: int, source: int, place: int) -> bool:
    """Whether an entry is streamed for its step alone from a place in DRAM, or from a shared level."""
    if state.entries[e].source != source or not is_private(state, e):
        return False
    return bool(source > 0 or plan.blocks[plan.entries[e].block].place == place)


@part()
def is_private(state: State, e: int) -> bool:
    """Whether an entry is streamed for its step alone, from DRAM or from a level on its way from there."""
    live = state.entries[e]
    return bool(live.next < 0 and live.source >= 0 and live.is_staged == 1)


@part()
def stream_rest(plan: Tables, routes: Routes, state: State, s: int) -> None:
    """What passes to a step while it runs."""
    doing, level, is_from_dram = state.steps[s], 0, False
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        entry, live = plan.entries[e], state.entries[e]
        rest = live.bytes - live.first
        if live.kind == SPILL and state.entries[e - 1].kind == STREAM_WRITE:
            if state.blocks[entry.block].home == 0:
                is_from_dram = True
            else:
                level = routes.parent[entry.memory]
        if live.source < 0 or rest <= 0:
            continue
        if live.is_staged == 1 and live.source > 0:
            stage(plan, routes, state, e, rest, s, True)
        if not is_private(state, e):
            shared(plan, routes, state, e, s, rest, True)
        elif live.source == 0:
            is_from_dram = True
        else:
            level = routes.parent[entry.memory]
    doing.through = -1
    if is_from_dram:
        for place in range(routes.places):
            rest_from(plan, routes, state, s, 0, place)
    while level > 0:
        rest_from(plan, routes, state, s, level, 0)
        level = routes.parent[level]


@part()
def rest_from(plan: Tables, routes: Routes, state: State, s: int, source: int, place: int) -> None:
    """What passes to a step for itself while it runs, from a place in DRAM or from a shared level."""
    doing, private = state.steps[s], 0
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        if comes_back(plan, state, e, source, place):
            private += plan.entries[e].bytes
        elif is_from(plan, state, e, source, place):
            private += max(0, state.entries[e].bytes - state.entries[e].first)
    if private > 0:
        new = read_for_itself(plan, routes, state, s, source, private, 0, False, place)
        doing.through = join(state, doing.through, new, DATA)


@part()
def comes_back(plan: Tables, state: State, e: int, home: int, place: int) -> bool:
    """Whether an entry is of partial sums that come back from a place in DRAM, or from a shared level."""
    if state.entries[e].kind != SPILL or state.entries[e - 1].kind != STREAM_WRITE:
        return False
    number = plan.entries[e].block
    return bool(state.blocks[number].home == home and (home > 0 or plan.blocks[number].place == place))


@part()
def shared(plan: Tables, routes: Routes, state: State, lead: int, step: int, size: int, is_rest: bool) -> None:
    """A stream that several steps share, or that comes from another core's memory; its first part, or the rest."""
    new = transfer(plan, routes, state, lead, state.entries[lead].source, size, step, is_rest)
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
def read_for_itself(
    plan: Tables,
    routes: Routes,
    state: State,
    s: int,
    source: int,
    size: int,
    bursts: int,
    is_first: bool,
    place: int,
) -> int:
    """All that one step streams for itself from a place in DRAM, or from a shared level, as one node."""
    step, doing, target = plan.steps[s], state.steps[s], 0
    for e in range(step.entry_start, step.entry_end):
        if state.entries[e].kind in (STREAM_READ, SPILL):
            target = plan.entries[e].memory
            break
    pair = between(source, target, state.at.shape[1], place)
    new = open_node(state, READ if source == 0 else MOVE, s, size, source, target)
    own, every = size, size
    if routes.members[target] > 1:
        own, every = taken_by_each(plan, state, s, source, is_first, place)
    book_route(state, routes, new, pair, size, own, every, bursts, place)
    depend(state, new, doing.room, 0, SPACE)
    for e in range(step.entry_start, step.entry_end):
        entry, live = plan.entries[e], state.entries[e]
        if not is_from(plan, state, e, source, place):
            continue
        if source == 0:
            depend(state, new, state.blocks[entry.block].dram_ready, 0, DATA)
        else:
            follow(state, new, state.at[entry.block, source], live.first if is_first else live.bytes - live.first)
    if not is_first:
        begin_with(state, new, doing.run, routes.latency[pair])
        behind(state, new, doing.first_in, routes.latency[pair])
    if is_first or doing.first_in < 0:  # what follows the first part arrives behind it without a pause
        state.events.nodes[new].latency = routes.latency[pair]
    if source > 0:
        hold_in_level(plan, routes, state, s, source, new)
    return new


@part()
def taken_by_each(plan: Tables, state: State, s: int, source: int, is_first: bool, place: int) -> tuple[int, int]:
    """Of what a step of cores that work together streams for itself from somewhere: bytes of the core that takes most,
    and of all together."""
    own, every = 0, 0
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        if is_from(plan, state, e, source, place):
            own += own_bytes(state, e, not is_first)
            every += every_byte(state, e, not is_first)
        elif not is_first and comes_back(plan, state, e, source, place):
            own += plan.entries[e].own
            every += plan.entries[e].every
    return own, every


@part()
def behind(state: State, new: int, first: int, latency: int) -> None:
    """The node opened last follows a step's first part without a pause, as its latency was paid with that; but not
    before that part starts. Of several transfers together, only their end is known."""
    if first >= 0:
        node = state.events.nodes[first]
        depend(state, new, first, -min(latency, node.duration + node.latency), DATA)


@part()
def hold_in_level(plan: Tables, routes: Routes, state: State, s: int, source: int, user: int) -> None:
    """What a step reads for itself from a shared level stays there until it has."""
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        entry, live = plan.entries[e], state.entries[e]
        if live.source == source and is_private(state, e):
            guard_with(state, state.at[entry.block, source], user, -1)


@part()
def leave(plan: Tables, routes: Routes, state: State, s: int, after: int) -> int:
    """Streamed results of a step, to DRAM or to shared levels: while it runs (``after`` negative), or the last of them
    once it is done. The node with which all are gone."""
    gone, level = -1, 0
    for place in range(routes.places):
        gone = join(state, gone, leave_for(plan, routes, state, s, after, 0, place), DATA)
    if routes.depth > 0:
        for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
            if state.entries[e].kind == STREAM_WRITE:
                level = routes.parent[plan.entries[e].memory]
    while level > 0:
        gone = join(state, gone, leave_for(plan, routes, state, s, after, level, 0), DATA)
        level = routes.parent[level]
    return gone


@part()
def goes_to(plan: Tables, state: State, e: int, target: int, place: int) -> bool:
    """Whether an entry is streamed out to a place in DRAM, or to a shared level."""
    number = plan.entries[e].block
    if state.entries[e].kind != STREAM_WRITE or state.blocks[number].home != target:
        return False
    return bool(target > 0 or plan.blocks[number].place == place)


@part()
def leave_for(plan: Tables, routes: Routes, state: State, s: int, after: int, target: int, place: int) -> int:
    """Streamed results of a step that go to a place in DRAM, or to a shared level."""
    doing, size, bursts, source = state.steps[s], 0, 0, -1
    own, every = 0, 0
    for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
        entry = plan.entries[e]
        if goes_to(plan, state, e, target, place):
            leaving = entry.first if after >= 0 else entry.bytes - entry.first
            size += leaving
            own += part_of(entry.own, leaving, entry.bytes)
            every += part_of(entry.every, leaving, entry.bytes)
            bursts += in_rows(leaving, entry.rows, routes.burst_bytes[place])
            source = entry.memory
    if size == 0:
        return -1
    pair = between(source, target, state.at.shape[1], place)
    new = open_node(state, WRITE, s, size, source, target)
    if after >= 0:
        depend(state, new, after, routes.latency[pair], DATA)
        depend(state, new, doing.done, 0, DATA)
    else:
        depend(state, new, doing.room, 0, SPACE)
        begin_with(state, new, doing.run, routes.latency[pair])
    if target > 0:
        for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
            number = plan.entries[e].block
            if state.entries[e].kind == STREAM_WRITE and state.blocks[number].home == target:
                depend(state, new, state.guards[state.at[number, target]].room, 0, SPACE)
    book_route(state, routes, new, pair, size, own, every, bursts, place)
    if target > 0:
        for e in range(plan.steps[s].entry_start, plan.steps[s].entry_end):
            number = plan.entries[e].block
            if state.entries[e].kind == STREAM_WRITE and state.blocks[number].home == target:
                copy = state.at[number, target]
                if state.copies[copy].came < 0 and plan.blocks[number].resident == 0:
                    state.copies[copy].came = new
                guard_with(state, copy, new, -1)
    return new
