"""A plain reading of the scheduler's rules: objects and lists, no kernels. Slow, and meant to be read. Cores that work
together each have their own wires and their own time here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from monet.schedule.expansion.expand import Expanded
from monet.schedule.machine import Machine
from monet.schedule.simulation import records as d
from tests.schedule.plain_dispatch import PlainDispatch

NEVER = d.NEVER


@dataclass(eq=False)
class Node:
    kind: str
    step: int = -1
    bytes: int = 0
    source: int = -1
    target: int = -1
    waits: list[tuple[Node, int]] = field(default_factory=list)
    books: dict[int, int] = field(default_factory=dict)
    latency: int = 0
    start: int = 0
    end: int = 0

    def wait(self, events, lag: int = 0) -> None:
        self.waits += [(event, lag) for event in events]


@dataclass(eq=False)
class Copy:
    block: int
    memory: int
    bytes: int
    ready: list[Node] = field(default_factory=list)
    guard: list[Node] = field(default_factory=list)
    came: Node | None = None
    gone: list[Node] | None = None
    filled: int = 0  # bytes of the block that have come, if this is a shared level
    since: int = -1  # the gang that took the space
    room: list[Node] = field(default_factory=list)  # when a result that is sent to a shared level may come there


class Reference:
    """Decide and time one expanded plan."""

    def __init__(self, expanded: Expanded, machine: Machine, buffers: Sequence[int], memory_share: float = 1.0) -> None:
        self.x, self.machine, self.m, self.buffers = expanded.tables, machine, len(machine.capacity), buffers
        self.nodes: list[Node] = []
        on_chip = range(1, 1 + len(machine.memories))
        used = [memory_share if number in on_chip else 1 for number in range(self.m)]
        self.free = [[(int(size * share), [])] for size, share in zip(machine.capacity, used, strict=True)]
        self.present: list[list[Copy]] = [[] for _ in machine.capacity]  # newest first
        self.at: dict[tuple[int, int], Copy] = {}
        self.copies: list[Copy] = []
        blocks = self.x.blocks
        self.in_dram = {b: bool(blocks.in_dram[b]) for b in range(len(blocks))}
        self.dram_ready: dict[int, list[Node]] = {b: [] for b in range(len(blocks))}
        self.writes_left = {b: int(blocks.writes[b]) for b in range(len(blocks))}
        self.partial: set[int] = set()
        self.uses = {
            b: [int(g) for g in self.x.uses[blocks.use_start[b] : blocks.use_end[b]]] for b in range(len(blocks))
        }
        self.pending: list[tuple[int, int]] = []  # (block, due)
        self.parent = [int(level) for level in machine.parents]
        self.is_cache = [False, *(memory.is_cache for memory in machine.memories)]
        self.now = -1  # the gang at hand

    # --- space --------------------------------------------------------------------------------------------------------

    def next_use(self, block: int) -> int:
        return self.uses[block][0] if self.uses[block] else NEVER

    def whole(self, block: int) -> int:
        return int(self.x.blocks.bytes[block])

    def size_in(self, block: int, memory: int) -> int:
        """Bytes of a block in a memory; of cores that work together, in the memory of each."""
        return int(self.x.blocks.own[block]) if self.machine.members[memory] > 1 else self.whole(block)

    def levels(self, memory: int) -> list[int]:
        """Shared levels between a memory and DRAM, the nearest first."""
        return [self.parent[memory], *self.levels(self.parent[memory])] if self.parent[memory] else []

    def farthest(self, memory: int, pinned: set[int], later: int) -> Copy | None:
        victim, use, clean = None, later, False
        for copy in self.present[memory]:
            if copy.block < 0 or copy.block in pinned:
                continue
            here = self.next_use(copy.block)
            cheap = self.in_dram[copy.block] or len(self.holders(copy.block)) > 1
            if here > use or (victim and here == use and cheap and not clean):
                victim, use, clean = copy, here, cheap
        return victim

    def free_bytes(self, memory: int) -> int:
        return sum(part for part, _ in self.free[memory])

    def take(self, memory: int, size: int, pinned: set[int], later: int = -1) -> list[Node] | None:
        while self.free_bytes(memory) < size:
            victim = self.farthest(memory, pinned, later)
            if victim is None:
                return None
            if self.is_only(victim) and not self.put_up(victim, pinned):
                self.write_back(victim.block, "evict")
            self.release(victim)
        return self.take_free(memory, size)

    def is_only(self, copy: Copy) -> bool:
        return not self.in_dram[copy.block] and len(self.holders(copy.block)) == 1

    def take_free(self, memory: int, size: int) -> list[Node]:
        events: list[Node] = []
        while size:
            part, event = self.free[memory][0]
            used = min(part, size)
            events += event
            size -= used
            if used == part:
                self.free[memory].pop(0)
            else:
                self.free[memory][0] = (part - used, event)
        return events

    # --- shared levels ------------------------------------------------------------------------------------------------

    def leaves_for_dram(self, block: int) -> bool:
        """What is still there after the step; and what another group reads, if nothing stays between groups."""
        blocks = self.x.blocks
        return bool(blocks.persistent[block] or (blocks.through[block] and not blocks.from_outside[block]))

    def put_where_shared(self, block: int, pinned: set[int]) -> bool:
        holders = self.holders(block)
        return len(holders) == 1 and self.put_up(holders[0], pinned, "write")

    def put_up(self, copy: Copy, pinned: set[int], kind: str = "evict") -> bool:
        """What is driven out of a core's memory stays in a shared level if it is used again, and there is room."""
        use, size = self.next_use(copy.block), self.whole(copy.block)
        if use == NEVER or self.leaves_for_dram(copy.block):
            return False
        for level in self.levels(copy.memory):
            room = self.take_of_level(level, size, pinned, use) if self.exists(copy.memory, level) else None
            if room is not None:
                node = self.add(Node(kind, -1, size, copy.memory, level))
                node.wait(room)
                node.wait(copy.ready, self.route(node, copy.memory, level, 0, self.size_in(copy.block, copy.memory), 0))
                copy.guard.append(node)
                there = self.place(copy.block, level, size)
                there.came, there.ready, there.guard = node, [node], [node]
                return True
        return False

    def spare(self, level: int, pinned: set[int], later: int) -> int:
        """Bytes that a shared level has free, or would drive something out for."""
        return self.free_bytes(level) + sum(
            copy.bytes
            for copy in self.present[level]
            if copy.block not in pinned and (self.is_cache[level] or self.next_use(copy.block) > later)
        )

    def take_of_level(
        self, level: int, size: int, pinned: set[int], later: int, part: bool = False
    ) -> list[Node] | None:
        if not part and self.spare(level, pinned, later) < size:
            return None
        while self.free_bytes(level) < size:
            if self.is_cache[level]:
                victim = next(copy for copy in reversed(self.present[level]) if copy.block not in pinned)
            else:
                victim = self.farthest(level, pinned, later)
            if self.is_only(victim):
                self.write_back(victim.block, "evict")
            self.release(victim)
        return self.take_free(level, size)

    def stage(self, one: dict, size: int, step: int, asked: int, pinned, rest: bool) -> int:
        """What a block misses in the levels on its way comes from above. The nearest level that has some of it."""
        block, target = one["block"], one["memory"]
        stops: list[tuple[Copy, int]] = []
        for level in self.levels(target):
            if stops and size == 0:
                break
            copy = self.at.get((block, level)) if rest else self.keep_at(block, level, asked, pinned)
            if copy:
                whole = self.whole(block)
                new = min(size, whole - copy.filled)
                copy.filled += new
                size = new + int((size - new) * ((whole - copy.bytes) / whole))
                stops.append((copy, size))
        above = 0
        for copy, missing in reversed(stops):
            if missing:
                self.bring(copy, above, missing, step, one)
            above = copy.memory
        return stops[0][0].memory if stops else 0

    def keep_at(self, block: int, level: int, asked: int, pinned: set[int]) -> Copy | None:
        copy = self.at.get((block, level))
        if copy is None:
            if not self.in_dram[block]:
                return None
            later = [use for use in self.uses[block] if use > self.now]
            until = self.now if asked > self.whole(block) else later[0] if later else NEVER
            if until == NEVER and not self.is_cache[level]:
                return None
            held = min(self.whole(block), self.spare(level, pinned, until))
            if held <= 0:
                return None
            room = self.take_of_level(level, held, pinned, until, part=True)
            copy = self.place(block, level, held)
            copy.filled, copy.guard = 0, room or []
        elif self.is_cache[level]:
            self.present[level].remove(copy)
            self.present[level].insert(0, copy)
        pinned.add(block)
        return copy

    def bring(self, copy: Copy, above: int, size: int, step: int, one: dict) -> None:
        node = self.add(Node("move" if above else "read", step, size, above, copy.memory))
        own = max(1, part_of(one["own"], size, one["bytes"]))
        at = self.dram_place(copy.block)
        node.latency = self.route(node, above, copy.memory, self.bursts(size, one["rows"], at), own, at)
        if self.is_cache[copy.memory]:
            node.wait(one["room"])
            onward = int(self.machine.routes.latency[self.pair(copy.memory, one["memory"], 0)])
            begin_with(node, one["ran"], node.latency + onward)
        if not copy.ready:
            node.wait(copy.guard)
            copy.guard = []
        if above:
            self.follow(node, self.at[copy.block, above], size)
            self.at[copy.block, above].guard.append(node)
        else:
            node.wait(self.dram_ready[copy.block])
        in_order = len(copy.ready) == 1 and copy.ready[0].source == above
        copy.ready = [node] if in_order else [*copy.ready, node]
        copy.came = copy.came or node
        copy.guard.append(node)

    def follow(self, node: Node, copy: Copy, needed: int) -> None:
        """Read from a shared level what is there, or as it comes."""
        before = copy.ready[0] if len(copy.ready) == 1 else None
        if before and before.kind in ("read", "move") and before.target == copy.memory:
            took = max(before.books.values())
            comes = took if needed >= before.bytes else int(took * (needed / before.bytes)) + 1
            node.wait(copy.ready, max(0, comes - max(node.books.values())) - took)
        else:
            node.wait(copy.ready)

    def place(self, block: int, memory: int, size: int) -> Copy:
        copy = Copy(block, memory, size, filled=size, since=self.now)
        self.present[memory].insert(0, copy)
        self.copies.append(copy)
        if block >= 0:
            self.at[block, memory] = copy
        return copy

    def release(self, copy: Copy) -> None:
        self.present[copy.memory].remove(copy)
        copy.gone = list(copy.guard or copy.room)
        self.free[copy.memory].append((copy.bytes, copy.gone))
        self.at.pop((copy.block, copy.memory), None)

    def holders(self, block: int) -> list[Copy]:
        return [self.at[block, m] for m in range(1, self.m) if (block, m) in self.at]

    # --- transfers ----------------------------------------------------------------------------------------------------

    def add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def dram_place(self, block: int) -> int:
        return int(self.x.blocks.place[block])

    def burst(self, place: int) -> int:
        """Of the DRAMs that data is spread over, the largest burst."""
        accelerator = self.machine.accelerator
        shares = zip(accelerator.drams, accelerator.dram_places[place], strict=True)
        return max(dram.burst_bytes for dram, share in shares if share)

    def bursts(self, size: int, rows: int, place: int) -> int:
        burst = self.burst(place)
        return rows * math.ceil(math.ceil(size / rows) / burst) * burst if rows > 1 else size

    def pair(self, source: int, target: int, place: int) -> int:
        """Where a route is found: after those of all pairs come those of further places in DRAM, there and back."""
        if place == 0 or 0 not in (source, target):
            return source * self.m + target
        return self.m**2 + (place - 1) * 2 * self.m + (target if source == 0 else self.m + source)

    def route(self, node: Node, source: int, target: int, bursts: int, own: int, place: int) -> int:
        """Book a route: for all bytes what is shared, for ``own`` of them what each core has for itself."""
        routes, pair = self.machine.routes, self.pair(source, target, place)
        for i in range(routes.pointer[pair], routes.pointer[pair + 1]):
            resource, moved = int(routes.resource[i]), node.bytes
            if resource >= self.machine.dram_resource:
                burst, parts = self.burst(place), max(1, (node.bytes + own // 2) // max(1, own))
                dram, whole = (
                    resource - self.machine.dram_resource,
                    math.ceil(math.ceil(max(moved, bursts) / parts) / burst),
                )
                share = self.machine.accelerator.dram_places[place][dram]
                moved = parts * self.at_peak(dram, whole * burst * share)
            elif self.machine.spread[resource] > 1:
                moved = own
            ticks = math.ceil(moved * routes.ticks_per_byte[i] - 1e-6)
            node.books[resource] = max(ticks, node.books.get(resource, 0))
        return int(routes.latency[pair])

    def at_peak(self, dram: int, size: float) -> float:
        """Bytes that a DRAM would move at its peak in the time of a transfer."""
        knots = [(known, known / share) for known, share in self.machine.accelerator.drams[dram].efficiency]
        if not knots or size >= knots[-1][0]:
            return size * (knots[-1][1] / knots[-1][0]) if knots else size
        return float(np.interp(size, *zip((0, 0.0), *knots, strict=True)))

    def exists(self, source: int, target: int) -> bool:
        return bool(self.machine.routes.exists[source * self.m + target])

    def write_back(self, block: int, kind: str) -> None:
        copy = next(one for one in self.holders(block) if self.exists(one.memory, 0))
        node = self.add(Node(kind, -1, int(self.x.blocks.bytes[block]), copy.memory, 0))
        own, at = self.size_in(block, copy.memory), self.dram_place(block)
        node.wait(copy.ready, self.route(node, copy.memory, 0, 0, own, at))
        copy.guard.append(node)
        self.in_dram[block], self.dram_ready[block] = True, [node]
        self.pending = [(b, due) for b, due in self.pending if b != block]

    def source_of(self, one: dict, size: int, asked: int, pinned: set[int]) -> int:
        """The memory that an entry gets bytes of its block from; levels on the way are supplied."""
        block, target = one["block"], one["memory"]
        best = self.nearest_copy(block, target)
        if best == 0 and not self.in_dram[block]:
            if self.levels(target) and self.put_where_shared(block, pinned):
                best = self.nearest_copy(block, target)
            if best == 0:
                self.write_back(block, "write")
        if best == 0 or best in self.levels(target):
            return self.stage(one, size, one["step"], asked, pinned, False) or best
        return best

    def nearest_copy(self, block: int, target: int) -> int:
        pointer, best, hops = self.machine.routes.pointer, 0, NEVER
        whole = {
            copy.memory: int(pointer[copy.memory * self.m + target + 1] - pointer[copy.memory * self.m + target])
            for copy in self.holders(block)
            if copy.ready
            and self.exists(copy.memory, target)
            and min(copy.bytes, copy.filled) >= self.size_in(block, copy.memory)
        }
        for level in self.levels(target):
            if level in whole:
                best, hops = level, whole[level] - 1  # one of them is its port
                break
        for memory, many in () if self.x.blocks.from_outside[block] else whole.items():
            if many < hops:
                best, hops = memory, many
        return best

    def move(self, chain: list[dict], source: int, size: int, step: int, own_of) -> Node:
        """One transfer to all entries of a chain; ``own_of``: what an entry's core takes over its own wires."""
        block, rows, targets = chain[0]["block"], chain[0]["rows"], [one["memory"] for one in chain]
        node = self.add(Node("move" if source else "read", step, size, source, targets[0]))
        staged = source in self.levels(targets[0])
        if not staged:
            node.wait(self.dram_ready[block] if source == 0 else self.at[block, source].ready)
        for one in chain:
            target = one["memory"]
            node.wait(one["room"])
            own = size
            if self.machine.members[target] > 1:
                own = own_of(one)
            elif self.machine.members[source] > 1:
                own = part_of(int(self.x.blocks.own[block]), size, self.whole(block))
            at = self.dram_place(block)
            latency = self.route(node, source, target, self.bursts(size, rows, at), own, at)
            node.latency = max(node.latency, latency)
            begin_with(node, one["ran"], latency)
            behind(node, one["in"] if self.machine.members[target] > 1 else [], latency)
        if staged:
            self.follow(node, self.at[block, source], size)
        if source:
            self.at[block, source].guard.append(node)
        return node

    # --- gangs --------------------------------------------------------------------------------------------------------

    def run(self) -> Reference:
        for number, gang in enumerate(self.x.gangs):
            Gang(self, number, gang).run()
        self.flush(NEVER)
        self.ask_when_free()
        self.merge_queues()
        return self

    def flush(self, upto: int, pinned: set[int] | None = None) -> None:
        while self.pending and self.pending[0][1] <= upto:
            block = self.pending[0][0]
            is_gone = not self.holders(block)  # nobody used it again
            if is_gone or (any(self.parent) and self.put_where_shared(block, pinned or set())):
                self.pending.pop(0)
            else:
                self.write_back(block, "write")
            self.retire(block)

    def retire(self, block: int) -> None:
        if self.uses[block] or (self.leaves_for_dram(block) and not self.in_dram[block]):
            return
        for copy in self.holders(block):
            self.release(copy)

    def clear_chip(self) -> None:
        self.flush(NEVER)
        for memory in range(1, self.m):
            for copy in list(self.present[memory]):
                if not self.in_dram[copy.block] and len(self.holders(copy.block)) == 1:
                    self.write_back(copy.block, "evict")
                self.release(copy)

    # --- time ---------------------------------------------------------------------------------------------------------

    def time(self, resources: int, books) -> None:
        spread, count = self.machine.spread, len(self.machine.resource_names)
        free = [[0] * int(spread[one % count]) for one in range(resources)]  # each core's own are its own
        for node in self.nodes:
            mine = books(node)
            ready = [event.end + lag for event, lag in node.waits] + [each for one in mine for each in free[one]]
            node.start = max([0, *ready])
            for one, ticks in mine.items():
                for core in range(len(free[one])):
                    free[one][core] = node.start + ticks
            node.end = node.start + max([0, *node.books.values()]) + node.latency

    def ask_when_free(self) -> None:
        """A core with n tile buffers fetches for a tile once it is done with the tile n before; 0 is no limit."""
        done: dict[int, dict[int, Node]] = {}  # core → tile → the last node of it
        for node in self.nodes:
            if node.kind in ("read", "move") and node.step >= 0:
                core = int(self.x.steps.core[node.step])
                before = {tile: last for tile, last in done.get(core, {}).items() if tile != node.step}
                tiles, buffers = list(before.values()), self.buffers[core]
                node.wait([tiles[-buffers]] if 0 < buffers <= len(tiles) else [])
            for resource in node.books:
                done.setdefault(resource, {})[node.step] = node

    def merge_queues(self) -> None:
        if any(self.buffers):
            self.serve_as_asked()
        else:
            self.serve_what_can_start()
        self.time(len(self.machine.resource_names), lambda node: node.books)

    def serve_as_asked(self) -> None:
        cores, count = len(self.machine.cores), len(self.machine.resource_names)

        def relaxed(node: Node) -> dict[int, int]:
            shift = count if node.kind in ("write", "evict") else 0
            if node.kind == "move" and any(self.parent):
                shift = 2 * count
            return {one + (shift if one >= cores else 0): t if one < cores else 0 for one, t in node.books.items()}

        self.time(3 * count, relaxed)
        came = [0] * 3 * count
        asked = {}
        for node in self.nodes:
            ends = [event.end + min(0, lag) for event, lag in node.waits]
            asked[id(node)] = max([0, *ends, *(came[one] for one in relaxed(node))])
            if any(self.parent):
                asked[id(node)] = min(asked[id(node)], node.start)
            asked[id(node)] = max([asked[id(node)], *(asked[id(event)] for event, _ in node.waits)])
            for one, ticks in relaxed(node).items():
                came[one] = node.start + ticks if one < cores else asked[id(node)]
        self.nodes = sorted(self.nodes, key=lambda node: asked[id(node)])

    def serve_what_can_start(self) -> None:
        number = {id(node): at for at, node in enumerate(self.nodes)}
        books = [node.books for node in self.nodes]
        waits = [[(number[id(event)], lag) for event, lag in node.waits] for node in self.nodes]
        lasts = [max([0, *node.books.values()]) + node.latency for node in self.nodes]
        order = PlainDispatch(books, waits, lasts, len(self.machine.cores)).order
        self.nodes = [self.nodes[at] for at in order]


class Gang:
    """One tile of one operator on all its cores."""

    def __init__(self, plan: Reference, number: int, row) -> None:
        self.plan, self.number = plan, number
        self.steps = range(row["first_step"], row["last_step"])
        self.leaves, self.ahead = bool(row["leaves_chip"]), int(row["ahead"])
        table, entries = plan.x.steps, plan.x.entries
        self.entries = {
            s: [{name: int(entries[name][e]) for name in d.Entries.row.names or ()}
                | {"step": s, "room": [], "new": False, "in": [], "through": [], "ran": None}
                for e in range(table.entry_start[s], table.entry_end[s])]
            for s in self.steps
        }  # fmt: skip
        self.every = [entry for s in self.steps for entry in self.entries[s]]

    def run(self) -> None:
        plan = self.plan
        plan.now = self.number
        if self.leaves:
            plan.clear_chip()
        self.reserve()
        self.admit()
        self.fetch()
        self.stream()
        plan.flush(self.number, self.pinned)
        self.start()
        self.pass_while_running()
        self.end()
        self.finish()
        plan.flush(self.number, self.pinned)

    def reserve(self) -> None:
        plan, held = self.plan, (d.HOLD_READ, d.HOLD_WRITE)
        self.pinned = {one["block"] for one in self.every if one["kind"] in held}
        self.room, self.buffers = {}, {}
        for s in self.steps:
            self.room[s], self.buffers[s] = [], []
            for w in range(plan.x.steps.buffer_start[s], plan.x.steps.buffer_end[s]):
                memory, size = int(plan.x.buffers.memory[w]), int(plan.x.buffers.bytes[w])
                self.room[s] += plan.take(memory, size, self.pinned)
                self.buffers[s].append(plan.place(-1, memory, size))
            for one in self.entries[s]:
                if one["kind"] == d.STREAM_READ:
                    one["room"] = self.room[s]
                if one["kind"] in held and (one["block"], one["memory"]) not in plan.at:
                    size = plan.size_in(one["block"], one["memory"])
                    one["room"], one["new"] = plan.take(one["memory"], size, self.pinned), True
                    plan.place(one["block"], one["memory"], size)

    def admit(self) -> None:
        written = [one for one in self.every if one["kind"] in (d.KEEP_WRITE, d.STREAM_WRITE)]
        self.home: dict[int, int] = {}  # block → where it goes when it leaves its core
        for one in written:
            if one["kind"] == d.KEEP_WRITE:
                self.admit_result(one)
            if one["kind"] == d.STREAM_WRITE and one["block"] not in self.home:
                self.settle(one["block"], [other["memory"] for other in written if other["block"] == one["block"]])

    def admit_result(self, one: dict) -> None:
        plan, block = self.plan, one["block"]
        self.pinned.add(block)
        if (block, one["memory"]) in plan.at:
            one["kind"] = d.HOLD_WRITE
            return
        later = [use for use in plan.uses[block] if use > self.number]
        size = plan.size_in(block, one["memory"])
        room = plan.take(one["memory"], size, self.pinned, later[0]) if later else None
        one["kind"] = d.STREAM_WRITE if room is None else d.HOLD_WRITE
        if room is not None:
            one["room"], one["new"] = room, True
            plan.place(block, one["memory"], size)

    def settle(self, block: int, writers: list[int]) -> None:
        """Results that leave go to a shared level of all who write them, if it has the block or room for it."""
        plan, size = self.plan, self.plan.whole(block)
        self.home[block] = 0
        spills = any(e["kind"] == d.SPILL and e["bytes"] and e["block"] == block for e in self.every)
        later = [self.number] if spills else [use for use in plan.uses[block] if use > self.number]
        is_continued = spills or plan.writes_left[block] > len(writers)
        if not later or (plan.leaves_for_dram(block) and not is_continued):
            return
        is_new = not plan.x.blocks.in_dram[block] and plan.writes_left[block] == plan.x.blocks.writes[block]
        for level in plan.levels(writers[0]):
            if not all(level in plan.levels(memory) and plan.exists(memory, level) for memory in writers):
                continue
            copy = plan.at.get((block, level))
            room: list[Node] | None = None
            if copy:
                room = copy.room if copy.bytes == copy.filled == size else None
            elif is_new:
                room = plan.take_of_level(level, size, self.pinned, later[0])
                if room is not None:
                    plan.place(block, level, size).room = room
            if room is not None:
                self.home[block] = level
                self.pinned.add(block)
                return

    def chains(self, wanted, part) -> list[list[dict]]:
        """Entries that one transfer serves, as they want the same part of a block, in the order of their leaders."""
        leader: dict[tuple[int, int, int], list[dict]] = {}
        found: list[list[dict]] = []
        for one in reversed(self.every):
            if not wanted(one):
                continue
            key = one["block"], self.plan.parent[one["memory"]], part(one)
            before = leader.get(key)
            if before and part(one):
                before.insert(0, one)
            else:
                leader[key] = [one]
                found.append(leader[key])
        position = {id(one): i for i, one in enumerate(self.every)}
        return sorted(found, key=lambda chain: position[id(chain[0])])

    def fetch(self) -> None:
        plan = self.plan
        chains = self.chains(
            lambda one: one["new"] and (one["kind"] == d.HOLD_READ or one["block"] in plan.partial),
            lambda one: -1,  # all of it
        )
        for chain in chains:
            block = chain[0]["block"]
            size = int(plan.x.blocks.bytes[block])
            asked = size * sum(other[0]["block"] == block for other in chains)
            for one in chain:
                one["bytes"], one["own"] = size, plan.size_in(block, one["memory"])
            source = plan.source_of(chain[0], size, asked, self.pinned)
            node = plan.move(chain, source, size, chain[0]["step"], lambda one: one["own"])
            for one in chain:
                copy = plan.at[block, one["memory"]]
                copy.ready, copy.guard, copy.came = [node], [node], node

    def stream(self) -> None:
        plan = self.plan
        chains = self.chains(
            lambda one: one["kind"] == d.STREAM_READ and (not self.is_here(one) or one["away"]),
            lambda one: one["share"],
        )
        for one in self.every:  # of what lies with the cores that want it, what they take of each other
            if one["kind"] == d.STREAM_READ and self.is_here(one):
                one["first"] = part_of(one["first"], one["away"], one["bytes"])
                one["bytes"], one["own"] = one["away"], one["own_away"]
        self.lead = lead = {id(chain[0]): chain for chain in chains}
        asked: dict[int, int] = {}
        for chain in chains:
            asked[chain[0]["block"]] = asked.get(chain[0]["block"], 0) + chain[0]["bytes"]
        self.private: dict[int, list[dict]] = {s: [] for s in self.steps}
        source: dict[int, int] = {}
        self.inward, self.through = {}, {}
        for s in self.steps:
            for one in self.entries[s]:
                if id(one) not in lead:
                    continue
                chain = lead[id(one)]
                source[id(one)] = plan.source_of(one, one["first"], asked[one["block"]], self.pinned)
                one["source"] = source[id(one)]
                if len(chain) == 1 and one["source"] in (0, *plan.levels(one["memory"])):
                    self.private[s].append(one)
                elif one["first"]:
                    self.share(chain, source[id(one)], s, one["first"], "in")
            self.inward[s] = []
            self.inward[s] = self.alone(s, True)

    def is_here(self, one: dict) -> bool:
        """Whether a core has a block, and not only a place for what this gang makes of it."""
        copy = self.plan.at.get((one["block"], one["memory"]))
        return copy is not None and (copy.since < self.number or bool(copy.ready))

    def pass_while_running(self) -> None:
        for s in self.steps:
            for one in self.entries[s]:
                rest = one["bytes"] - one["first"]
                if id(one) not in self.lead or not rest:
                    continue
                if one["source"] in self.plan.levels(one["memory"]):
                    self.plan.stage(one, rest, s, 0, self.pinned, True)
                if one not in self.private[s]:
                    self.share(self.lead[id(one)], one["source"], s, rest, "through")
            self.through[s] = self.alone(s, False)
            self.through[s] += self.leave(s, None)

    def share(self, chain, source: int, s: int, size: int, what: str) -> None:
        node = self.plan.move(chain, source, size, s, lambda one: own_bytes(one, what == "in"))
        for one in chain:
            one[what] = [node]
            if what == "through" and one["in"]:
                node.latency = 0

    def alone(self, s: int, first: bool) -> list[Node]:
        """What a step streams for itself, from each place in DRAM and from each level on the way."""
        found = []
        for source, at in self.stops(s, (d.STREAM_READ, d.SPILL)):
            mine = [one for one in self.private[s] if one["source"] == source and self.lies(one, source, at)]
            size = sum(one["first"] if first else one["bytes"] - one["first"] for one in mine)
            own = sum(own_bytes(one, first) for one in mine)
            for i, one in enumerate(self.entries[s]):
                if not first and one["kind"] == d.SPILL and self.entries[s][i - 1]["kind"] == d.STREAM_WRITE:
                    is_here = self.home[one["block"]] == source and self.lies(one, source, at)
                    size += one["bytes"] if is_here else 0
                    own += one["own"] if is_here else 0
            if size:
                found.append(self.read(s, source, mine, size, first, own, at))
        return found

    def stops(self, s: int, kinds: tuple[int, ...]) -> list[tuple[int, int]]:
        """Memories that a step's streams come from or go to: DRAM, place by place, then the levels on the way."""
        places = range(len(self.plan.machine.accelerator.dram_places))
        return [*((0, at) for at in places), *((level, 0) for level in self.ways(s, kinds))]

    def lies(self, one: dict, memory: int, at: int) -> bool:
        return memory > 0 or self.plan.dram_place(one["block"]) == at

    def ways(self, s: int, kinds: tuple[int, ...]) -> list[int]:
        """The shared levels above the memories that a step uses in some ways: they are the same for all of them."""
        return next((self.plan.levels(e["memory"]) for e in self.entries[s] if e["kind"] in kinds), [])

    def read(self, s: int, source: int, mine: list[dict], size: int, first: bool, own: int, at: int) -> Node:
        plan = self.plan
        target = next(e["memory"] for e in self.entries[s] if e["kind"] in (d.STREAM_READ, d.SPILL))
        node = plan.add(Node("move" if source else "read", s, size, source, target))
        node.wait(self.room[s])
        bursts = sum(plan.bursts(one["first"], one["rows"], at) for one in mine) if first else 0
        latency = plan.route(node, source, target, bursts, own if plan.machine.members[target] > 1 else size, at)
        for one in mine:
            if source:
                copy = plan.at[one["block"], source]
                plan.follow(node, copy, one["first"] if first else one["bytes"] - one["first"])
                copy.guard.append(node)
            else:
                node.wait(plan.dram_ready[one["block"]])
        if not first:
            begin_with(node, self.ran[s], latency)
            behind(node, self.inward[s], latency)
        if first or not self.inward[s]:
            node.latency = latency
        return node

    def leave(self, s: int, after: Node | None) -> list[Node]:
        """Results that leave: to DRAM, and to each level on the way."""
        every = [one for one in self.entries[s] if one["kind"] == d.STREAM_WRITE]
        found = []
        for target, at in self.stops(s, (d.STREAM_WRITE,)):
            here = [one for one in every if self.home[one["block"]] == target and self.lies(one, target, at)]
            found += self.leave_for(s, after, target, here, at)
        return found

    def leave_for(self, s: int, after: Node | None, target: int, mine: list[dict], at: int) -> list[Node]:
        plan = self.plan
        parts = [(one["first"] if after else one["bytes"] - one["first"], one["rows"]) for one in mine]
        size = sum(part for part, _ in parts)
        if not size:
            return []
        node = plan.add(Node("write", s, size, mine[-1]["memory"], target))
        own = sum(part_of(one["own"], part, one["bytes"]) for one, (part, _) in zip(mine, parts, strict=True))
        bursts = sum(plan.bursts(*part, at) for part in parts)
        latency = plan.route(node, mine[-1]["memory"], target, bursts, own, at)
        if after:
            node.wait([after], latency)
            node.wait([self.done[s]])
        else:
            node.wait(self.room[s])
            begin_with(node, self.ran[s], latency)
        for one in mine if target else []:
            copy = plan.at[one["block"], target]
            node.wait(copy.room)
            copy.came = copy.came or node
            copy.guard.append(node)
        return [node]

    def wait_for_block(self, node: Node, block: int) -> None:
        held = self.plan.holders(block)
        node.wait(self.plan.dram_ready[block] if self.plan.in_dram[block] else held[0].ready if held else [])

    def start(self) -> None:
        plan, self.ran, self.done = self.plan, {}, {}
        for s in self.steps:
            core = int(plan.x.steps.core[s])
            node = plan.add(Node("compute", s))
            node.wait(self.room[s] + self.inward[s])
            for one in self.entries[s]:
                copy = plan.at.get((one["block"], one["memory"]))
                node.wait(one["in"])
                if one["kind"] == d.WAIT:
                    self.wait_for_block(node, one["block"])
                elif one["kind"] == d.HOLD_WRITE:
                    node.wait(one["room"] + copy.ready + copy.guard)
                elif one["kind"] in (d.HOLD_READ, d.STREAM_READ) and copy:
                    node.wait(copy.ready)
                elif one["kind"] == d.STREAM_READ and not one["first"]:
                    self.wait_for_block(node, one["block"])
            node.books[core] = int(plan.x.steps.ticks[s])
            memory, ticks = int(plan.x.steps.port_memory[s]), int(plan.x.steps.port_ticks[s])
            if ticks and plan.machine.port_resources[memory] >= 0:
                node.books[int(plan.machine.port_resources[memory])] = min(ticks, node.books[core])
            self.ran[s] = self.done[s] = node
            for one in self.entries[s]:
                one["ran"] = node

    def end(self) -> None:
        plan = self.plan
        for s in self.steps:
            core, node = int(plan.x.steps.core[s]), self.ran[s]
            streams = self.through[s] + [n for one in self.entries[s] for n in one["through"]]
            if streams:
                self.done[s] = plan.add(Node("done", s, waits=[(node, 0)], books={core: 0}))
                reads = [one for one in self.through[s] if one.kind != "write"]
                for stream in streams:  # of several at once, no latency is forgiven
                    apart = stream in reads and len(reads) > 1
                    self.done[s].wait([stream], 0 if apart else -stream.latency)
            for one in self.entries[s]:
                copy = plan.at.get((one["block"], one["memory"]))
                if one["kind"] in (d.HOLD_READ, d.STREAM_READ) and copy:
                    copy.guard.append(self.done[s])

    def finish(self) -> None:
        plan = self.plan
        for s in self.steps:
            out = self.leave(s, self.ran[s])
            for one in self.entries[s]:
                if one["kind"] in (d.HOLD_WRITE, d.STREAM_WRITE):
                    self.written(s, one, out or [self.done[s]])
            for buffer in self.buffers[s]:
                buffer.came = self.inward[s][0] if self.inward[s] else self.ran[s]
                buffer.guard = [self.done[s], *out]
                plan.release(buffer)
        for one in self.every:
            block = one["block"]
            plan.uses[block] = [use for use in plan.uses[block] if use > self.number]
            plan.retire(block)

    def written(self, s: int, one: dict, out: list[Node]) -> None:
        plan, block, held = self.plan, one["block"], one["kind"] == d.HOLD_WRITE
        home = 0 if held else self.home[block]
        for copy in plan.holders(block):
            if copy.memory != (one["memory"] if held else home):
                plan.release(copy)
        plan.writes_left[block] -= 1
        if home:
            copy = plan.at[block, home]
            if one["bytes"]:  # cores without work send nothing
                copy.ready, copy.filled, copy.guard = copy.ready + out, plan.whole(block), copy.guard + out
            plan.in_dram[block] = False
            if not plan.writes_left[block] and plan.leaves_for_dram(block):
                plan.pending.append((block, self.number + self.ahead))
            return
        if not held:
            plan.in_dram[block] = True
            plan.dram_ready[block] = plan.dram_ready[block] + out
            return
        copy = plan.at[block, one["memory"]]
        copy.came = copy.came or self.ran[s]
        copy.ready, copy.guard = [self.done[s]], [self.done[s]]
        plan.in_dram[block] = False
        plan.partial.discard(block)
        if plan.writes_left[block] > 0:
            plan.partial.add(block)
        elif plan.x.blocks.through[block]:
            plan.pending.append((block, self.number + self.ahead))


def part_of(value: int, size: int, whole: int) -> int:
    """Of some bytes that go along with ``whole`` bytes, those that go with ``size`` of them."""
    if value == whole:
        return size
    return value if size >= whole else int(value * (size / whole))


def behind(node: Node, inward: list[Node], latency: int) -> None:
    """Follow a step's first part without a pause, not before it starts; if it is several, when all are there."""
    for first in inward:
        took = max(first.books.values()) + first.latency if len(inward) == 1 else 0
        node.wait([first], -min(latency, took))


def begin_with(node: Node, ran: Node | None, latency: int) -> None:
    """Come no earlier than a step that runs starts."""
    if ran:
        node.wait([ran], -max(ran.books.values()) - latency)


def own_bytes(one: dict, first: bool) -> int:
    """What the core that takes most takes of an entry first, or afterwards."""
    part = part_of(one["own"], one["first"], one["bytes"])
    return part if first else one["own"] - part
