"""``dispatch`` as one would write it first: lists that are looked through from end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Books = Mapping[int, int]  # resource → ticks
Waits = Sequence[tuple[int, int]]  # (node, lag)


class PlainDispatch:
    """Nodes by their number in the plan. ``order``: as they are served; ``start``: when."""

    def __init__(self, books: Sequence[Books], waits: Sequence[Waits], lasts: Sequence[int], cores: int) -> None:
        self.books, self.waits, self.lasts, self.cores = books, waits, lasts, cores
        self.order: list[int] = []
        self.start: dict[int, int] = {}
        self.ready: dict[int, int] = {}
        self.free: dict[int, int] = {}
        self.queues: dict[int, set[int]] = {}
        self.looks: dict[int, int] = {}  # resource → when its queue is looked at
        self.coming: dict[int, int] = {}  # node → when it is ready
        self.now = 0
        self.run()

    def run(self) -> None:
        chances = self.settled(range(len(self.books)))
        while chances or self.coming or self.looks:
            if not chances:
                self.now = min([*self.coming.values(), *self.looks.values()])
            came = [node for node, when in self.coming.items() if when <= self.now]
            looked = [one for one, when in self.looks.items() if when <= self.now]
            for node in came:
                del self.coming[node]
            for one in looked:
                del self.looks[one]
            chances |= {*came, *(first for one in looked for first in self.look(one))}
            if chances:
                node = min(chances)
                chances = self.give_chance(node) | (chances - {node})

    def settled(self, among: Sequence[int]) -> set[int]:
        """Of nodes that wait for none without a time, those that may start now; the others are known to come."""
        found, todo = set[int](), list(among)
        while todo:
            node = todo.pop()
            before = [other for other in range(node) if self.shared_cores(node, other)][-1:]
            if node in self.start or any(other not in self.start for other in [*before, *self.needs(node)]):
                continue
            ready = max([0, *(self.start[other] + self.lasts[other] + lag for other, lag in self.waits[node])])
            self.ready[node] = ready
            if not self.books[node]:
                todo += self.serve(node, ready)
            elif ready <= self.now:
                found.add(node)
            else:
                self.coming[node] = ready
        return found

    def needs(self, node: int) -> list[int]:
        return [other for other, _ in self.waits[node]]

    def shared_cores(self, node: int, other: int) -> set[int]:
        return {one for one in self.books[node] if one < self.cores and one in self.books[other]}

    def serve(self, node: int, start: int) -> list[int]:
        """What may be settled now that a node has its time."""
        self.start[node] = start
        self.order.append(node)
        return [later for later in range(node + 1, len(self.books))
                if node in self.needs(later) or self.shared_cores(node, later)]  # fmt: skip

    def give_chance(self, node: int) -> set[int]:
        queue = next((one for one, waiting in self.queues.items() if node in waiting), None)
        if queue is not None:
            if min(self.queues[queue]) != node:
                return set()
            if self.free.get(queue, 0) > self.now:
                self.looks.setdefault(queue, self.free[queue])
                return set()
            self.queues[queue].remove(node)
        taken = max((one for one in self.books[node] if self.free.get(one, 0) > self.now),
                    key=lambda one: self.free[one], default=None)  # fmt: skip
        wanted, found = None, set[int]()
        if taken is not None:
            self.queue(node, taken, self.free[taken])
        else:
            wanted = next((one for one in self.books[node] if self.is_wanted(node, one)), None)
            if wanted is not None:
                self.queue(node, wanted, self.when_wanted(wanted))
            else:
                self.free |= {one: self.now + ticks for one, ticks in self.books[node].items()}
                found = self.settled(self.serve(node, self.now))
        if queue is not None and queue != wanted:
            found |= set(self.look(queue))
        return found

    def queue(self, node: int, one: int, when: int) -> None:
        self.queues.setdefault(one, set()).add(node)
        self.looks.setdefault(one, when)

    def look(self, one: int) -> list[int]:
        """The first in the queue of a resource, if it has its chance now."""
        waiting = self.queues.get(one)
        if waiting and self.free.get(one, 0) > self.now:
            self.looks.setdefault(one, self.free[one])
        return [min(waiting)] if waiting and self.free.get(one, 0) <= self.now else []

    def first_expected(self, one: int) -> int:
        """The first node that queues for another of several resources."""
        queued = {node for waiting in self.queues.values() for node in waiting if len(self.books[node]) > 1}
        return min((node for node in queued if one in self.books[node]), default=len(self.books))

    def when_wanted(self, one: int) -> int:
        first = self.first_expected(one)
        return max([self.ready[first], *(self.free.get(other, 0) for other in self.books[first])])

    def is_wanted(self, node: int, one: int) -> bool:
        if one < self.cores or self.first_expected(one) >= node:
            return False
        return self.now < self.when_wanted(one) < self.now + self.books[node][one]
