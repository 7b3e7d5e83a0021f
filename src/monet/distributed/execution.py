"""All ranks of a plan run side by side in NumPy, with real collectives and messages: the proof that a plan computes
what one device does.

Every device is a coroutine that runs its chunks' micro-batches in the order of the pipeline schedule and stops where it
needs others. A collective goes ahead when all ranks of its group have come to it; a message waits for its receiver.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from monet.distributed.pipelines.pipeline import tasks_of
from monet.distributed.transform.stages import RankGraphs, Stage
from monet.errors import MonetError
from monet.graph import Graph, Op, Phase
from monet.graph.kind import Array, kind_named
from monet.graph.parts import Part
from monet.numerics.executor import Exchange, Run

FORWARD = (Phase.FORWARD, Phase.LOSS)


class Place(NamedTuple):
    """A chunk as one of its ranks has it."""

    chunk: int
    data: int
    tensor: int


@dataclass(frozen=True)
class Waiting:
    """A rank at an operator between ranks: for which chunk, in which pass."""

    place: Place
    micro_batch: int
    exchange: Exchange


Coroutine = Generator[Waiting, tuple[Array, ...], None]


@dataclass
class Outcome:
    """What all ranks came to, put together as one device would have it: losses by micro-batch, gradients and next
    values by name."""

    losses: list[float] = field(default_factory=list)
    gradients: dict[str, Array] = field(default_factory=dict)
    updated: dict[str, Array] = field(default_factory=dict)


def execute_plan(graphs: RankGraphs, values: Mapping[str, Array]) -> Outcome:
    """Run one step. ``values`` are those of one device: parameters, buffers and states, and the inputs and labels of
    every micro-batch over all replicas, called as ``training_step(…, micro_batches=…)`` does."""
    return _System(graphs, values).run()


class _System:
    def __init__(self, graphs: RankGraphs, values: Mapping[str, Array]) -> None:
        self.graphs, self.plan, self.values = graphs, graphs.plan, values
        self.messages: dict[object, deque[tuple[Array, ...]]] = {}
        plan = self.plan
        self.places = [
            Place(chunk, data, tensor)
            for chunk in range(plan.chunks)
            for data in range(plan.data)
            for tensor in range(plan.tensor)
        ]
        self.kept = {place: self._roots(place) for place in self.places}  # roots that last: parameters, states, sums
        self.losses: dict[tuple[Place, int], float] = {}
        self.next: dict[Place, dict[str, Array]] = {}

    def run(self) -> Outcome:
        plan = self.plan
        tasks = tasks_of(plan.pipeline_schedule, plan.pipeline, plan.chunks, self.graphs.micro_batches)
        devices = [
            self._device(stage, data, tensor, tasks[stage])
            for stage in range(plan.pipeline)
            for data in range(plan.data)
            for tensor in range(plan.tensor)
        ]
        self._drive(devices)
        self._drive([self._update(place) for place in self.places])
        return self._outcome()

    # --- what ranks hold ---------------------------------------------------------------------------------------------

    def _local(self, stage: Stage, name: str, whole: Array, place: Place) -> Array:
        """A rank's part of a value of one device."""
        for part in stage.parts.get(name, ()):
            whole = part.take(_filled_up(np.asarray(whole), part), getattr(place, part.group))
        if name not in stage.flat:
            return whole
        row, replicas = np.ravel(whole), self.plan.data
        length = -(-row.size // replicas)
        return np.asarray(np.pad(row, (0, length * replicas - row.size)).reshape(replicas, length)[place.data])

    def _roots(self, place: Place) -> dict[str, Array]:
        stage, found = self.graphs.stages[place.chunk], {}
        for graph in (stage.micro, stage.update):
            for name, tensor in graph.tensors.items():
                if name in graph.producer or name in graph.values or name in graph.inputs or name in found:
                    continue
                if tensor.gradient_of:
                    found[name] = np.zeros(tensor.shape)
                elif name not in self.values:
                    raise MonetError(f"no value given for {name!r}")
                else:
                    found[name] = self._local(stage, name, np.asarray(self.values[name]), place)
        return found

    def _inputs(self, place: Place, micro_batch: int) -> dict[str, Array]:
        stage, suffix = self.graphs.stages[place.chunk], f".{micro_batch}" if micro_batch else ""
        return {
            name: self._local(stage, name, np.asarray(self.values[name + suffix]), place) for name in stage.micro.inputs
        }

    def _ranks(self, place: Place) -> dict[str, int]:
        return {"data": place.data, "tensor": place.tensor, "pipeline": place.chunk}

    # --- coroutines --------------------------------------------------------------------------------------------------

    def _device(self, stage: int, data: int, tensor: int, tasks: Sequence[tuple[bool, int, int]]) -> Coroutine:
        """The micro-batches of one device, in the order of its schedule."""
        running: dict[tuple[int, int], Run] = {}
        for forward, chunk, micro_batch in tasks:
            place = Place(chunk, data, tensor)
            graph = self.graphs.stages[chunk].micro
            if forward:
                values = self.kept[place] | self._inputs(place, micro_batch)
                running[chunk, micro_batch] = Run(graph, values, ranks=self._ranks(place))
            run = running[chunk, micro_batch]
            if not forward:  # other micro-batches may have added to the gradients since
                run.live |= {name: value for name, value in self.kept[place].items() if _adds_up(graph, name)}
            ops = [op for op in graph.ops if (op.phase in FORWARD) == forward]
            yield from self._pass(run, ops, place, micro_batch)
            kept = self.kept[place]
            if forward:  # running statistics go on to the next micro-batch
                kept |= {root: run.live.get(now, run.results[now]) for root, now in graph.updated.items()}
                if graph.loss:
                    self.losses[place, micro_batch] = float(run.results[graph.loss])
            else:
                for parameter, gradient in graph.gradients.items():
                    kept[f"{parameter}.gradient"] = run.results[gradient]
                del running[chunk, micro_batch]

    def _update(self, place: Place) -> Coroutine:
        stage = self.graphs.stages[place.chunk]
        run = Run(stage.update, self.kept[place], want=stage.updated.values(), ranks=self._ranks(place))
        yield from self._pass(run, stage.update.ops, place, -1)
        self.next[place] = {root: run.results[name] for root, name in stage.updated.items()}

    def _pass(self, run: Run, ops: Sequence[Op], place: Place, micro_batch: int) -> Coroutine:
        """Run operators, handing exchanges on with where they come from."""
        steps = run.over(ops)
        try:
            exchange = next(steps)
            while True:
                answer = yield Waiting(place, micro_batch, exchange)
                exchange = steps.send(answer)
        except StopIteration:
            return

    # --- exchanges ---------------------------------------------------------------------------------------------------

    def _drive(self, coroutines: Sequence[Coroutine]) -> None:
        """Run all coroutines until each is done. A round in which nobody gets on is a deadlock."""
        waiting: dict[int, Waiting] = {}
        for number, coroutine in enumerate(coroutines):
            self._resume(waiting, number, coroutine, None)
        while waiting:
            ready = self._answers(waiting)
            if not ready:
                stuck = sorted({f"chunk {one.place.chunk} at {one.exchange.op.name!r}" for one in waiting.values()})
                raise MonetError(f"ranks wait for each other: {', '.join(stuck)}")
            for number, answer in ready.items():
                del waiting[number]
                self._resume(waiting, number, coroutines[number], answer)

    def _resume(self, waiting: dict[int, Waiting], number: int, coroutine: Coroutine, answer: Any) -> None:
        try:
            waiting[number] = coroutine.send(answer)
        except StopIteration:
            return

    def _answers(self, waiting: Mapping[int, Waiting]) -> dict[int, tuple[Array, ...]]:
        """What those get that can go on."""
        found: dict[int, tuple[Array, ...]] = {}
        groups: dict[object, dict[int, int]] = {}
        for number, one in waiting.items():
            op = one.exchange.op
            if op.kind == "send":
                self._mail(one, True).append(one.exchange.arrays)
                found[number] = (np.zeros(()),)
            elif op.kind == "receive":
                if box := self._mail(one, False):
                    found[number] = box.popleft()
            else:
                key, rank = self._group(one)
                groups.setdefault(key, {})[rank] = number
        for members in groups.values():
            one = waiting[next(iter(members.values()))]
            if len(members) == one.exchange.op.attrs["size"]:
                order = [members[rank] for rank in sorted(members)]
                found.update(zip(order, self._exchanged([waiting[number].exchange for number in order]), strict=True))
        return found

    def _exchanged(self, exchanges: Sequence[Exchange]) -> list[tuple[Array, ...]]:
        ops = [exchange.op for exchange in exchanges]
        rule = kind_named(ops[0].kind).exchange
        if rule is None or len({(op.kind, op.attrs) for op in ops}) > 1:
            raise MonetError(f"ranks meet at different operators: {', '.join(op.name for op in ops)}")
        return rule(ops[0].attrs, [exchange.arrays for exchange in exchanges])

    def _mail(self, one: Waiting, outgoing: bool) -> deque[tuple[Array, ...]]:
        """The box of messages of one direction between two chunks, of one pass and one pair of ranks."""
        place, peer = one.place, one.exchange.op.attrs["peer"]
        ends = (place.chunk, peer) if outgoing else (peer, place.chunk)
        key = ends, one.micro_batch, place.data, place.tensor
        return self.messages.setdefault(key, deque())

    def _group(self, one: Waiting) -> tuple[object, int]:
        """Which ranks meet, and which of them this is."""
        place, op = one.place, one.exchange.op
        group = op.attrs["group"]
        if group in ("pipeline", "tied"):  # by number of the meeting, as every chunk has operators of its own
            members = op.attrs["members"]
            return (group, members, op.inputs if group == "tied" else "", place.data, place.tensor), members.index(
                place.chunk
            )
        others = place._replace(**{group: -1})
        return (group, others, one.micro_batch, op.name), getattr(place, group)

    # --- put together ------------------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        found = Outcome()
        last = [place for place in self.places if place.chunk == self.plan.chunks - 1]
        for micro_batch in range(self.graphs.micro_batches):
            mean = float(np.mean([self.losses[place, micro_batch] for place in last]))
            found.losses.append(mean * self.plan.data if self.graphs.summed_loss else mean)
        for stage in self.graphs.stages:
            for parameter in stage.micro.gradients:
                root = f"{parameter}.gradient"
                # before the update replicas and tied chunks have shares that add up to the whole
                shares = {place: self.kept[place][root] for place in self.places if place.chunk == stage.number}
                whole = self._whole_gradient(stage, parameter, shares)
                earlier = found.gradients.get(parameter)
                found.gradients[parameter] = whole if earlier is None else earlier + whole
            for root in stage.updated:
                found.updated[root] = self._agreed(stage, root)
        return found

    def _whole_gradient(self, stage: Stage, parameter: str, shares: Mapping[Place, Array]) -> Array:
        plan, root = self.plan, f"{parameter}.gradient"
        by_tensor = []
        for tensor in range(plan.tensor):
            own = [shares[Place(stage.number, data, tensor)] for data in range(plan.data)]
            flat = plan.data > 1 and plan.shard in ("gradients", "parameters")
            shape = stage.flat.get(root, stage.flat.get(parameter, ()))
            by_tensor.append(_unflattened(own, shape) if flat else np.sum(own, axis=0))
        parts = [part for part in stage.parts.get(parameter, ()) if part.group == "tensor"]
        if parts:
            return self._cropped(parameter, parts[0].join(by_tensor))
        return np.sum(by_tensor, axis=0) if parameter in stage.partial else by_tensor[0]

    def _agreed(self, stage: Stage, root: str) -> Array:
        """The next value of a root: parts put together, of what several ranks hold alike checked that they do."""
        plan, by_tensor = self.plan, []
        for tensor in range(plan.tensor):
            own = [self.next[Place(stage.number, data, tensor)][root] for data in range(plan.data)]
            by_tensor.append(_unflattened(own, stage.flat[root]) if root in stage.flat else _alike(own, root))
        parts = [part for part in stage.parts.get(root, ()) if part.group == "tensor"]
        return self._cropped(root, parts[0].join(by_tensor)) if parts else _alike(by_tensor, root)

    def _cropped(self, name: str, whole: Array) -> Array:
        """Without what was filled up."""
        return whole[tuple(slice(size) for size in np.shape(self.values[name]))]


def _filled_up(whole: Array, part: Part) -> Array:
    widths = [(0, 0)] * whole.ndim
    widths[part.axis] = (0, sum(part.segments) - whole.shape[part.axis])
    return np.pad(whole, widths)


def _adds_up(graph: Graph, name: str) -> bool:
    """Whether a tensor of the graph holds gradients of earlier micro-batches."""
    return name in graph.tensors and bool(graph.tensors[name].gradient_of) and name not in graph.producer


def _unflattened(parts: Sequence[Array], shape: tuple[int, ...]) -> Array:
    return np.concatenate(parts)[: math.prod(shape)].reshape(shape)


def _alike(copies: Sequence[Array], name: str) -> Array:
    for other in copies[1:]:
        if not np.allclose(copies[0], other, rtol=1e-9, atol=1e-12):
            raise MonetError(f"ranks that hold {name!r} alike have come to different values")
    return copies[0]
