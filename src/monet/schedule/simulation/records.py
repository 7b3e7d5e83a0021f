"""What the scheduler's kernels read and write: tables with named columns, and what belongs together as named tuples.

Nodes are compute tiles and transfers, in the order in which resources serve them. A node has dependencies, bookings of
resources with the ticks that it occupies each, and a latency that passes after them. Memory 0 is DRAM, numbers below
zero stand for "none". Of several DRAMs, a *place* says which of them some data lies on, and in what shares
(``hardware.interleaving``); with one there is one place.

Like cores that work together (``schedule.clusters``) are one core here, with one memory: what the one with most has to
do and to hold. What passes wires that all of them share is counted for all.
"""

from __future__ import annotations

from typing import NamedTuple

from monet.arrays import F64, I64, U8, I32x2, Table

# kinds of nodes: a tile; data from DRAM; results, and what makes room, on the way to DRAM or to a memory before it;
# data between memories on chip
COMPUTE, READ, WRITE, MOVE, EVICT, JOIN = range(6)
# and what a transfer has to do with DRAM
FROM_DRAM, TO_DRAM, ON_CHIP = range(3)
# reasons of a dependency, the last: the host has issued it; of a start also: the resource was taken
DATA, SPACE, QUEUE, HOST = range(4)
# kinds of entries: what a step does with a block
HOLD_READ, STREAM_READ, HOLD_WRITE, STREAM_WRITE, WAIT, KEEP_WRITE, SPILL = range(7)
WRITES = (HOLD_WRITE, STREAM_WRITE, KEEP_WRITE)
# sources of an entry that are not a memory
LEADS, FOLLOWS, UNWANTED = -1, -2, -3

NEVER = 2**62
NOT_YET = -2  # what has not come, or not gone


class Nodes(Table):
    """Compute tiles, transfers, and joins that only wait. Each depends on earlier ones only."""

    kind: I64
    step: I64
    operator: I64
    bytes: I64
    bursts: I64  # bytes on the pins of DRAM: whole bursts
    source: I64  # memory
    target: I64
    targets: I64  # memories that a multicast writes
    place: I64  # in DRAM, if it comes from there or goes there
    own: I64  # bytes over the wires of each core alone, of cores that work together the one that moves most
    every: I64  # bytes over the wires of all of them: what several get counts for each
    latency: I64  # ticks, after the last resource is free
    duration: I64  # ticks of the longest booking
    dep_start: I64
    dep_end: I64
    book_start: I64
    book_end: I64


class Dependencies(Table):
    """A node starts no earlier than ``lag`` ticks after the end of another."""

    node: I64
    lag: I64
    reason: I64


class Bookings(Table):
    """A node occupies a resource for so many ticks."""

    resource: I64
    ticks: I64


class Events(NamedTuple):
    """Everything that takes time."""

    nodes: Nodes
    deps: Dependencies
    bookings: Bookings


class Copies(Table):
    """A block in a memory (or, block -1, the buffers of a step), and the nodes with which it comes and goes."""

    block: I64
    memory: I64
    bytes: I64
    came: I64
    went: I64  # NOT_YET: it is still there at the end
    since: I64  # the gang that takes the space (-1: it is there from the start) and the one that gives it back
    upto: I64  # NEVER: it is still there at the end


class DramStays(Table):
    """By block, the nodes with which it comes to DRAM (-1: it is there from the start, NOT_YET: never) and goes."""

    came: I64
    went: I64


# --- a plan, expanded -------------------------------------------------------------------------------------------------


class Gangs(Table):
    """One tile of one operator, with a step on each core that takes part in it; in execution order."""

    first_step: I64
    last_step: I64  # the one after it
    leaves_chip: I64  # 1: nothing stays on chip before it
    ahead: I64  # gangs whose reads go before its writes


class Steps(Table):
    """What one core does of a gang."""

    core: I64
    ticks: I64
    operator: I64
    entry_start: I64
    entry_end: I64
    buffer_start: I64
    buffer_end: I64
    port_memory: I64  # a memory that other cores share, and for how long the step takes its busiest port
    port_ticks: I64


class TickParts(Table):
    """The ticks of every step by use."""

    useful: I64
    under_used: I64
    stalled: I64
    switching: I64  # what a core does not pay when it goes on with the same operator, and changes of mode


class Buffers(Table):
    """Bytes that a step needs in a memory beside the blocks that it holds."""

    memory: I64
    bytes: I64


class Entries(Table):
    """One operand block of one step."""

    block: I64
    memory: I64
    kind: I64
    bytes: I64  # that pass, if it is streamed
    first: I64  # of them, before the array can start (of results: after it has ended)
    share: I64  # entries of a gang with the same block and number above zero read the same part: one multicast
    rows: I64  # if it is a part of a block, the rows in which it lies in DRAM
    own: I64  # bytes, of cores that work together those of the one with most
    every: I64  # bytes of all of them: what several read counts for each
    away: I64  # of ``bytes``, those that cores take of each other while the block lies in their memories
    own_away: I64  # of ``own``, likewise


class Blocks(Table):
    """Parts of storages that are held, moved and evicted as a whole."""

    bytes: I64
    own: I64  # bytes of it in the memory of each of the cores that work together on it
    in_dram: I64  # 1: from the start
    persistent: I64  # 1: it is still there after the step
    through: I64  # 1: what is written on chip must go to DRAM
    from_outside: I64  # 1: cores get it from DRAM or a shared level, never from another core's memory
    resident: I64  # the shared level in which it stays from step to step instead of DRAM; 0 for none
    place: I64  # where it lies in DRAM
    writes: I64  # entries that write it
    use_start: I64  # in ``uses``
    use_end: I64


class Tables(NamedTuple):
    """A plan as ``decide`` walks it. ``uses``: gangs that use a block, block by block."""

    gangs: Gangs
    steps: Steps
    buffers: Buffers
    entries: Entries
    blocks: Blocks
    uses: I64


class Routes(NamedTuple):
    """Routes between all pairs of memories, by ``source · memories + target`` (``nodes.between`` for places in DRAM but
    the first), and their resources."""

    pointer: I64  # into resource, ticks_per_byte and share
    resource: I64
    ticks_per_byte: F64  # of all that is moved; of DRAMs, of their share
    share: F64  # of the bytes that pass
    latency: I64  # ticks
    exists: U8
    port: I64  # by memory: the resource of its ports; -1 if nobody has to queue for them
    parent: I64  # by memory: the shared level that data from DRAM passes last on its way here; 0 if there is none
    spread: I64  # by resource: of how many cores that work together each has one like it; 1: there is only this one
    members: I64  # by memory, likewise
    lru: U8  # by memory: 1 for a shared level that evicts what was not used for longest, not what is used last
    depth: int  # most shared levels on the way to a memory
    outside: int  # the first memory that is not on chip, behind a port; what is there stays until it is used
    places: int  # in DRAM
    dram: int  # the first resource that is a DRAM; all further ones are
    burst_bytes: I64  # by place
    known: I64  # by DRAM: its first row of the next two
    transfer_bytes: I64  # sizes of transfers, and the bytes in whose time a DRAM at its peak would move as many
    transfer_time: F64


# --- what ``decide`` changes as it goes -------------------------------------------------------------------------------


class Counters(Table):
    """Rows in use, and where ``decide`` is: one row."""

    nodes: I64
    deps: I64
    bookings: I64
    copies: I64
    chunks: I64
    pending: I64
    flushed: I64  # of those pending
    gang: I64
    turn: I64  # goes up whenever what may be evicted, or in what order, may have changed
    operator: I64
    failed_memory: I64
    failed_bytes: I64


class Memories(Table):
    """Free bytes, the queue of chunks that they are in, and the copies that lie in a memory, newest first. Of a shared
    level also what it does in the transfer at hand."""

    free: I64
    head: I64
    tail: I64
    newest: I64
    oldest: I64
    turn: I64  # in which it was last looked for what is used last
    last_use: I64  # the gang that uses it; negative: nothing may go
    used_last: I64  # the first of these copies
    missing: I64  # bytes that have to come from above
    below: I64  # the level that they go on to; 0 for none


class Chunks(Table):
    """Freed bytes, which may be taken once a node has ended."""

    bytes: I64
    event: I64
    next: I64


class StepState(Table):
    """Nodes of a step."""

    room: I64  # what its buffers wait for
    first_read: I64  # the first transfer of what it streams for itself before it starts
    first_in: I64  # all of that is there; then, what it streams while it runs
    through: I64
    out: I64
    run: I64
    done: I64


class EntryState(Table):
    """What becomes of an entry in its gang."""

    kind: I64  # once it is known whether a result stays
    run: I64  # the node of its step
    room: I64  # the node that its space waits for
    is_new: I64  # 1: the block was not there before
    source: I64  # memory, or LEADS, FOLLOWS, UNWANTED
    is_staged: I64  # 1: it comes from DRAM, or from a shared level on the way from there
    bytes: I64  # that pass, as far as the block is not in the memory of the core that wants them; see ``Entries``
    first: I64
    own: I64
    every: I64
    first_in: I64
    through: I64
    next: I64  # the next entry that the same transfer serves
    other: I64  # the next entry that wants the same block, or another part of it


class BlockState(Table):
    """Where a block is at the moment."""

    in_dram: I64  # or in the level in which it is resident
    dram_ready: I64  # the node with which it is there
    writes_left: I64
    use: I64  # the next one
    pinned: I64  # by this gang
    due: I64  # the gang after which it is to be written; negative: still accumulating
    copies: I64
    leader: I64  # the entry that leads its transfer
    asked: I64  # bytes that transfers of this gang take of it
    home: I64  # where results that leave the cores of this gang go: a shared level, or DRAM
    homed: I64  # the gang that looked for the level above all that write it
    writing: I64  # entries of that gang that stream it out
    spilled: I64  # the gang that reads back what it streams out of it
    settled: I64  # the gang that decided on it


class Guards(Table):
    """When a copy is there and when it may go, as nodes, and its neighbours in its memory."""

    room: I64  # the node that its space waits for, if results come here from several cores
    ready: I64
    until: I64  # it may not go before this one has ended
    core: I64  # of all nodes that it waits for, if they are on one
    filled: I64  # bytes of the block that have come here; a shared level may have room for a part of them only
    previous: I64
    next: I64
    used_with: I64  # the next of the copies that are used last, in the order in which they go


class State(NamedTuple):
    """All of it. ``at``: by block and memory, the copy there."""

    counters: Counters
    events: Events
    copies: Copies
    dram: DramStays
    memories: Memories
    chunks: Chunks
    steps: StepState
    buffer_copy: I64
    entries: EntryState
    blocks: BlockState
    guards: Guards
    at: I32x2
    pending: I64  # blocks to be written, in the order in which they were made
