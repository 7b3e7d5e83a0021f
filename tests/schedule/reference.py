"""A plain reading of the scheduler's rules: objects and lists, no kernels. Slow, and meant to be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from monet.schedule.expansion.expand import Expanded
from monet.schedule.machine import Machine
from monet.schedule.simulation import records as d

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


class Reference:
    """Decide and time one expanded plan."""

    def __init__(self, expanded: Expanded, machine: Machine, buffers: Sequence[int]) -> None:
        self.x, self.machine, self.m, self.buffers = expanded.tables, machine, len(machine.capacity), buffers
        self.nodes: list[Node] = []
        self.free = [[(int(size), [])] for size in machine.capacity]
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

    # --- space --------------------------------------------------------------------------------------------------------

    def next_use(self, block: int) -> int:
        return self.uses[block][0] if self.uses[block] else NEVER

    def take(self, memory: int, size: int, pinned: set[int], later: int = -1) -> list[Node] | None:
        while sum(part for part, _ in self.free[memory]) < size:
            victim, use, clean = None, later, False
            for copy in self.present[memory]:
                if copy.block < 0 or copy.block in pinned:
                    continue
                here = self.next_use(copy.block)
                cheap = self.in_dram[copy.block] or len(self.holders(copy.block)) > 1
                if here > use or (victim and here == use and cheap and not clean):
                    victim, use, clean = copy, here, cheap
            if victim is None:
                return None
            if not self.in_dram[victim.block] and len(self.holders(victim.block)) == 1:
                self.write_back(victim.block, "evict")
            self.release(victim)
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

    def place(self, block: int, memory: int, size: int) -> Copy:
        copy = Copy(block, memory, size)
        self.present[memory].insert(0, copy)
        self.copies.append(copy)
        if block >= 0:
            self.at[block, memory] = copy
        return copy

    def release(self, copy: Copy) -> None:
        self.present[copy.memory].remove(copy)
        self.free[copy.memory].append((copy.bytes, list(copy.guard)))
        copy.gone = list(copy.guard)
        self.at.pop((copy.block, copy.memory), None)

    def holders(self, block: int) -> list[Copy]:
        return [self.at[block, m] for m in range(1, self.m) if (block, m) in self.at]

    # --- transfers ----------------------------------------------------------------------------------------------------

    def add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def bursts(self, size: int, rows: int) -> int:
        burst = self.machine.accelerator.dram.burst_bytes
        return rows * math.ceil(math.ceil(size / rows) / burst) * burst if rows > 1 else size

    def route(self, node: Node, source: int, target: int, bursts: int = 0) -> int:
        routes, pair = self.machine.routes, source * self.m + target
        for i in range(routes.pointer[pair], routes.pointer[pair + 1]):
            resource, moved = int(routes.resource[i]), node.bytes
            if resource == self.machine.dram_resource:
                burst = self.machine.accelerator.dram.burst_bytes
                moved = math.ceil(max(moved, bursts) / burst) * burst
            ticks = math.ceil(moved * routes.ticks_per_byte[i] - 1e-6)
            node.books[resource] = max(ticks, node.books.get(resource, 0))
        return int(routes.latency[pair])

    def exists(self, source: int, target: int) -> bool:
        return bool(self.machine.routes.exists[source * self.m + target])

    def write_back(self, block: int, kind: str) -> None:
        copy = next(one for one in self.holders(block) if self.exists(one.memory, 0))
        node = self.add(Node(kind, -1, int(self.x.blocks.bytes[block]), copy.memory, 0))
        node.wait(copy.ready, self.route(node, copy.memory, 0))
        copy.guard.append(node)
        self.in_dram[block], self.dram_ready[block] = True, [node]
        self.pending = [(b, due) for b, due in self.pending if b != block]

    def source_of(self, block: int, target: int) -> int:
        pointer, best, hops = self.machine.routes.pointer, 0, NEVER
        for copy in () if self.x.blocks.from_dram[block] else self.holders(block):
            pair = copy.memory * self.m + target
            if copy.ready and self.exists(copy.memory, target) and pointer[pair + 1] - pointer[pair] < hops:
                best, hops = copy.memory, pointer[pair + 1] - pointer[pair]
        if best == 0 and not self.in_dram[block]:
            self.write_back(block, "write")
        return best

    def move(self, block: int, source: int, targets: list[int], size: int, step: int, rooms, rows: int = 1) -> Node:
        node = self.add(Node("move" if source else "read", step, size, source, targets[0]))
        node.wait(self.dram_ready[block] if source == 0 else self.at[block, source].ready)
        for target, room in zip(targets, rooms, strict=True):
            node.wait(room)
            node.latency = max(node.latency, self.route(node, source, target, self.bursts(size, rows)))
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
        self.time(len(self.machine.resource_names), lambda node: node.books)
        return self

    def flush(self, upto: int) -> None:
        while self.pending and self.pending[0][1] <= upto:
            block = self.pending[0][0]
            self.write_back(block, "write")
            self.retire(block)

    def retire(self, block: int) -> None:
        if self.uses[block] or (self.x.blocks.through[block] and not self.in_dram[block]):
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
        free = [0] * resources
        for node in self.nodes:
            mine = books(node)
            ready = [event.end + lag for event, lag in node.waits] + [free[one] for one in mine]
            node.start = max([0, *ready])
            for one, ticks in mine.items():
                free[one] = node.start + ticks
            node.end = node.start + max([0, *node.books.values()]) + node.latency

    def ask_when_free(self) -> None:
        """A core with n tile buffers fetches for a tile once it is done with the tile n before; 0 is no limit."""
        done: dict[int, dict[int, Node]] = {}  # core → tile → the last node of it
        for node in self.nodes:
            if node.kind in ("read", "move") and node.step >= 0:
                core = int(self.x.steps.core[node.step])
                tiles, buffers = list(done.get(core, {}).values()), self.buffers[core]
                node.wait([tiles[-buffers]] if 0 < buffers <= len(tiles) else [])
            for resource in node.books:
                done.setdefault(resource, {})[node.step] = node

    def merge_queues(self) -> None:
        cores, count = len(self.machine.accelerator.cores), len(self.machine.resource_names)

        def relaxed(node: Node) -> dict[int, int]:
            shift = count if node.kind in ("write", "evict") else 0
            return {one + (shift if one >= cores else 0): t if one < cores else 0 for one, t in node.books.items()}

        self.time(2 * count, relaxed)
        came = [0] * 2 * count
        asked = {}
        for node in self.nodes:
            lags = [event.end + (0 if any(self.buffers) else lag) for event, lag in node.waits]
            asked[id(node)] = max([0, *lags, *(came[one] for one in relaxed(node))])
            for one, ticks in relaxed(node).items():
                came[one] = node.start + ticks if one < cores else asked[id(node)]
        self.nodes.sort(key=lambda node: asked[id(node)])


class Gang:
    """One tile of one operator on all its cores."""

    def __init__(self, plan: Reference, number: int, row) -> None:
        self.plan, self.number = plan, number
        self.steps = range(row["first_step"], row["last_step"])
        self.leaves, self.ahead = bool(row["leaves_chip"]), int(row["ahead"])
        table, entries = plan.x.steps, plan.x.entries
        self.entries = {
            s: [{name: int(entries[name][e]) for name in ("block", "memory", "kind", "bytes", "first", "share", "rows")}
                | {"step": s, "room": [], "new": False, "in": [], "through": []}
                for e in range(table.entry_start[s], table.entry_end[s])]
            for s in self.steps
        }  # fmt: skip
        self.every = [entry for s in self.steps for entry in self.entries[s]]

    def run(self) -> None:
        plan = self.plan
        if self.leaves:
            plan.clear_chip()
        self.reserve()
        self.admit()
        self.fetch()
        self.stream()
        plan.flush(self.number)
        self.compute()
        self.finish()
        plan.flush(self.number)

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
                    size = int(plan.x.blocks.bytes[one["block"]])
                    one["room"], one["new"] = plan.take(one["memory"], size, self.pinned), True
                    plan.place(one["block"], one["memory"], size)

    def admit(self) -> None:
        plan = self.plan
        for one in self.every:
            if one["kind"] != d.KEEP_WRITE:
                continue
            block = one["block"]
            self.pinned.add(block)
            if (block, one["memory"]) in plan.at:
                one["kind"] = d.HOLD_WRITE
                continue
            later = [use for use in plan.uses[block] if use > self.number]
            size = int(plan.x.blocks.bytes[block])
            room = plan.take(one["memory"], size, self.pinned, later[0]) if later else None
            one["kind"] = d.STREAM_WRITE if room is None else d.HOLD_WRITE
            if room is not None:
                one["room"], one["new"] = room, True
                plan.place(block, one["memory"], size)

    def chains(self, wanted, part) -> list[list[dict]]:
        """Entries that one transfer serves, as they want the same part of a block, in the order of their leaders."""
        leader: dict[tuple[int, int], list[dict]] = {}
        found: list[list[dict]] = []
        for one in reversed(self.every):
            if not wanted(one):
                continue
            before = leader.get((one["block"], part(one)))
            if before and part(one):
                before.insert(0, one)
            else:
                leader[one["block"], part(one)] = [one]
                found.append(leader[one["block"], part(one)])
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
            source = plan.source_of(block, chain[0]["memory"])
            size = int(plan.x.blocks.bytes[block])
            targets, rooms = [e["memory"] for e in chain], [e["room"] for e in chain]
            node = plan.move(block, source, targets, size, chain[0]["step"], rooms, chain[0]["rows"])
            for one in chain:
                copy = plan.at[block, one["memory"]]
                copy.ready, copy.guard, copy.came = [node], [node], node

    def stream(self) -> None:
        plan = self.plan
        chains = self.chains(
            lambda one: one["kind"] == d.STREAM_READ and (one["block"], one["memory"]) not in plan.at,
            lambda one: one["share"],
        )
        lead = {id(chain[0]): chain for chain in chains}
        private: dict[int, list[dict]] = {s: [] for s in self.steps}
        source: dict[int, int] = {}
        self.inward, self.through = {}, {}
        for s in self.steps:
            for one in self.entries[s]:
                if id(one) not in lead:
                    continue
                chain = lead[id(one)]
                source[id(one)] = plan.source_of(one["block"], one["memory"])
                if source[id(one)] == 0 and len(chain) == 1:
                    private[s].append(one)
                elif one["first"]:
                    self.share(chain, source[id(one)], s, one["first"], "in")
            size = sum(one["first"] for one in private[s])
            self.inward[s] = [self.alone(s, private[s], size, True)] if size else []
        for s in self.steps:
            spilled = 0
            for i, one in enumerate(self.entries[s]):
                if one["kind"] == d.SPILL and self.entries[s][i - 1]["kind"] == d.STREAM_WRITE:
                    spilled += one["bytes"]
                if id(one) in lead and not (source[id(one)] == 0 and len(lead[id(one)]) == 1):
                    rest = one["bytes"] - one["first"]
                    if rest:
                        self.share(lead[id(one)], source[id(one)], s, rest, "through")
            size = spilled + sum(one["bytes"] - one["first"] for one in private[s])
            self.through[s] = [self.alone(s, private[s], size, False)] if size else []
            self.through[s] += self.leave(s, None)

    def share(self, chain, source: int, s: int, size: int, what: str) -> None:
        targets, rooms = [e["memory"] for e in chain], [e["room"] for e in chain]
        node = self.plan.move(chain[0]["block"], source, targets, size, s, rooms, chain[0]["rows"])
        for one in chain:
            one[what] = [node]
            if what == "through" and one["in"]:
                node.latency = 0

    def alone(self, s: int, mine, size: int, first: bool) -> Node:
        plan = self.plan
        target = next(e["memory"] for e in self.entries[s] if e["kind"] in (d.STREAM_READ, d.SPILL))
        node = plan.add(Node("read", s, size, 0, target))
        node.wait(self.room[s])
        for one in mine:
            node.wait(plan.dram_ready[one["block"]])
        latency = plan.route(
            node, 0, target, sum(plan.bursts(one["first"], one["rows"]) for one in mine) if first else 0
        )
        if not first:
            node.wait(self.inward[s], -latency)
        if first or not self.inward[s]:
            node.latency = latency
        return node

    def leave(self, s: int, after: Node | None) -> list[Node]:
        plan, mine = self.plan, [one for one in self.entries[s] if one["kind"] == d.STREAM_WRITE]
        parts = [(one["first"] if after else one["bytes"] - one["first"], one["rows"]) for one in mine]
        size = sum(part for part, _ in parts)
        if not size:
            return []
        node = plan.add(Node("write", s, size, mine[-1]["memory"], 0))
        latency = plan.route(node, mine[-1]["memory"], 0, sum(plan.bursts(*part) for part in parts))
        if after:
            node.wait([after], latency)
            node.wait([self.done[s]])
        else:
            node.wait(self.room[s])
            node.wait(self.inward[s], -latency)
        return [node]

    def compute(self) -> None:
        plan, self.ran, self.done = self.plan, {}, {}
        for s in self.steps:
            core = int(plan.x.steps.core[s])
            node = plan.add(Node("compute", s))
            node.wait(self.room[s] + self.inward[s])
            for one in self.entries[s]:
                copy = plan.at.get((one["block"], one["memory"]))
                node.wait(one["in"])
                if one["kind"] == d.WAIT:
                    block, held = one["block"], plan.holders(one["block"])
                    node.wait(plan.dram_ready[block] if plan.in_dram[block] else held[0].ready if held else [])
                elif one["kind"] == d.HOLD_WRITE:
                    node.wait(one["room"] + copy.ready + copy.guard)
                elif one["kind"] in (d.HOLD_READ, d.STREAM_READ) and copy:
                    node.wait(copy.ready)
            node.books[core] = int(plan.x.steps.ticks[s])
            memory, ticks = int(plan.x.steps.port_memory[s]), int(plan.x.steps.port_ticks[s])
            if ticks and plan.machine.port_resources[memory] >= 0:
                node.books[int(plan.machine.port_resources[memory])] = min(ticks, node.books[core])
            self.ran[s] = self.done[s] = node
            streams = self.through[s] + [n for one in self.entries[s] for n in one["through"]]
            if streams:
                self.done[s] = plan.add(Node("done", s, waits=[(node, 0)], books={core: 0}))
                for stream in streams:
                    self.done[s].wait([stream], -stream.latency)
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
        for copy in plan.holders(block):
            if not (held and copy.memory == one["memory"]):
                plan.release(copy)
        plan.writes_left[block] -= 1
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
