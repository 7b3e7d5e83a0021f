"""Paging out: a kept activation goes to the memory of a host after its last use in forward and is back for backward.

Both ways are operators, so that a schedule gives them the port, time and energy they take. A page goes out as soon as
it may, and comes back when the operator is done that stands so many before its first reader as the plan says. Values,
and so gradients, do not change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from monet.graph.graph import Graph
from monet.graph.kind import Family, kind_named
from monet.graph.op import Attributes, Op, Phase
from monet.graph.tensor import Tensor
from monet.transforms.checkpoint_plan import EARLY, CheckpointError

NONE = Attributes()
LEAD = 32  # bytes that operators move while one of a page comes, unless a plan says when: DRAM over link, 13 to 80


@dataclass(frozen=True, slots=True)
class Trip:
    """A storage on its way out and back: the tensor that holds its value, and the operators (by index) that touch it
    last in forward and first read it in backward."""

    storage: str
    value: Tensor
    last: int
    reader: int


def offload(graph: Graph, storages: Mapping[str, int | None]) -> Graph:
    """The training step with ``storages`` on a host between forward and backward; those that backward does not read
    stay as they are. Each is let in when the operator is done that stands so many before its first reader; None: early
    enough if operators take their bytes' time, at ``LEAD`` times the pace of pages."""
    trips = trips_of(graph, storages)
    if not trips:
        return graph
    usual = ahead_of(graph, trips, *_by_bytes(graph, trips)) if None in storages.values() else {}
    return _Paging(graph, trips, usual | {name: many for name, many in storages.items() if many is not None}).graph()


def ahead_of(graph: Graph, trips: Sequence[Trip], begins: Sequence[float], takes: Sequence[float]) -> dict[str, int]:
    """How many operators before its first reader every page is to be let in, if pages come back one after another and
    each as late as it may. ``begins``: by operator, when it begins; ``takes``: by page, how long it takes."""
    found, busy, late = dict[str, int](), float("inf"), late_operators(graph)
    for trip, seconds in sorted(zip(trips, takes, strict=True), key=lambda pair: -pair[0].reader):
        busy = min(busy, begins[trip.reader]) - seconds
        first, end = bisect_right(late, trip.last), bisect_left(late, trip.reader)
        many, after = 1, trip.reader  # an operator is taken to be done when the next one begins
        while many < end - first and begins[after] > busy:
            after, many = late[end - many], many + 1
        found[trip.storage] = many
    return found


def _by_bytes(graph: Graph, trips: Sequence[Trip]) -> tuple[list[float], list[float]]:
    """When operators begin, and how long pages take, in bytes that are moved meanwhile."""
    moved = [
        0 if is_view(graph, op) else sum(graph.tensors[name].bytes for name in {*op.inputs, *op.outputs})
        for op in graph.ops
    ]
    return [0.0, *accumulate(map(float, moved))][:-1], [float(LEAD * trip.value.bytes) for trip in trips]


def late_operators(graph: Graph) -> list[int]:
    """Operators after forward that are executed and make something."""
    ops = enumerate(graph.ops)
    return [i for i, op in ops if op.phase not in EARLY and op.outputs and not is_view(graph, op)]


def trips_of(graph: Graph, storages: Iterable[str]) -> tuple[Trip, ...]:
    """What of some storages is read after forward, by when it is. A storage whose last value is not all of it cannot
    go."""
    wanted, values, last, reader = frozenset(storages), dict[str, Tensor](), dict[str, int](), dict[str, int]()
    for index, op in enumerate(graph.ops):
        early = op.phase in EARLY
        for name in (*op.inputs, *op.outputs):
            tensor = graph.tensors[name]
            if tensor.storage not in wanted:
                continue
            if early:
                last[tensor.storage] = index
            elif tensor.storage in last:
                reader.setdefault(tensor.storage, index)
        if early and not is_view(graph, op):
            values |= {tensor.storage: tensor for name in op.outputs if (tensor := graph.tensors[name])}
    trips = list[Trip]()
    for storage in sorted(reader):
        value = values.get(storage)
        if value is None or value.bytes != graph.tensors[storage].bytes:
            raise CheckpointError(f"offload {storage!r}: it is worked on in parts, which cannot be paged out together")
        trips.append(Trip(storage, value, last[storage], reader[storage]))
    return tuple(sorted(trips, key=lambda trip: (trip.reader, trip.last)))


def is_view(graph: Graph, op: Op) -> bool:
    """Whether nothing is executed. A reshape that its input's strides do not allow is a copy in its own storage."""
    read, written = ({graph.tensors[name].storage for name in names} for names in (op.inputs, op.outputs))
    return kind_named(op.kind).family is Family.VIEW and written <= read


class _Paging:
    """A graph with pages, put together. ``ahead``: by storage, how many operators before its reader it is let in."""

    def __init__(self, graph: Graph, trips: Sequence[Trip], ahead: Mapping[str, int]) -> None:
        self.plain, self.trips, self.ahead = graph, trips, ahead
        self.late = late_operators(graph)
        self.tensors = dict(graph.tensors)
        self.now: dict[str, str] = {}  # what backward reads → what it is called once it is back
        self.after: dict[int, list[Op]] = {}
        self.before: dict[int, list[Op]] = {}

    def graph(self) -> Graph:
        """All of it."""
        for trip in self.trips:
            away = self._declare(trip, "page_out")
            back = self._declare(trip, "page_in")
            phase, layer = self.plain.ops[trip.last].phase, self.plain.producer[trip.value.name].layer
            self._insert(self.after, trip.last, Op(away, "page_out", (trip.value.name,), (away,), NONE, phase, layer))
            self.now[trip.value.name] = back
            trigger = self._trigger(trip)
            waits = (away,) if trigger is None else (away, self.plain.ops[trigger].outputs[0])
            places, index = (self.before, trip.reader) if trigger is None else (self.after, trigger)
            self._insert(places, index, Op(back, "page_in", waits, (back,), NONE, Phase.BACKWARD, layer))
            self._move(trip, back)
        ops = list[Op]()
        for index, op in enumerate(self.plain.ops):
            renamed = op if op.phase in EARLY else replace(op, inputs=tuple(self._back(index, n) for n in op.inputs))
            ops += self.before.get(index, ())
            ops.append(renamed)
            ops += self.after.get(index, ())
        return replace(self.plain, tensors=self.tensors, ops=tuple(ops))

    def _declare(self, trip: Trip, what: str) -> str:
        name = f"{trip.storage}/{what}"
        self.tensors[name] = replace(trip.value, name=name, storage=name, offset=0)
        return name

    def _insert(self, places: dict[int, list[Op]], index: int, op: Op) -> None:
        beside = self.plain.ops[index]
        places.setdefault(index, []).append(replace(op, micro_batch=beside.micro_batch))

    def _trigger(self, trip: Trip) -> int | None:
        """The operator whose end lets a page in; None if none is executed before its reader."""
        first, end = bisect_right(self.late, trip.last), bisect_left(self.late, trip.reader)
        return self.late[max(first, end - self.ahead[trip.storage])] if first < end else None

    def _move(self, trip: Trip, back: str) -> None:
        """What backward makes in place of what has come back lies there."""
        for op in self.plain.ops[trip.reader :]:
            for name in op.outputs:
                if op.phase not in EARLY and self.tensors[name].storage == trip.storage:
                    self.tensors[name] = replace(self.tensors[name], storage=back)

    @cached_property
    def away(self) -> frozenset[str]:
        """Storages that go."""
        return frozenset(trip.storage for trip in self.trips)

    def _back(self, index: int, name: str) -> str:
        """What an operator of backward reads in place of ``name``: itself, what has come back, or a view of that."""
        known = self.now.get(name)
        if known is not None:
            return known
        tensor, op = self.plain.tensors[name], self.plain.producer.get(name)
        if tensor.storage not in self.away or op is None or op.phase not in EARLY:
            return name
        inputs = tuple(self._back(index, each) for each in op.inputs)
        outputs = tuple(f"{each}/back" for each in op.outputs)
        for old, new in zip(op.outputs, outputs, strict=True):
            original = self.plain.tensors[old]
            storage = f"{original.storage}/page_in" if original.storage in self.away else original.storage
            self.tensors[new], self.now[old] = replace(original, name=new, storage=storage), new
        phase, part = Phase.BACKWARD, self.plain.ops[index].micro_batch
        again = replace(op, name=f"{op.name}/back", inputs=inputs, outputs=outputs, phase=phase, micro_batch=part)
        self.before.setdefault(index, []).append(again)
        return self.now[name]
