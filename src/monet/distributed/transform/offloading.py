"""What a device leaves with its host: activations between forward and backward, states of the optimizer between steps.

Both ways are operators on the port to the host (``transforms/offload.py``), so a schedule says what they hide behind.
States come in while the update before theirs runs, and go out behind their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monet.graph import Graph, Op, Phase
from monet.graph.op import Attributes
from monet.graph.tensor import Role, Tensor
from monet.transforms.checkpoint_plan import CheckpointError, saved_tensors
from monet.transforms.compact import without_unread
from monet.transforms.offload import offload, trips_of

PAGED_SHARE = 1 / 64  # of the largest: what is smaller is not worth a page


def with_activations_away(graph: Graph) -> Graph:
    """A chunk's micro-batch with what it keeps for backward at the host in between."""
    saved = saved_tensors(graph)
    least = PAGED_SHARE * max((each.bytes for each in saved), default=0)
    away = {each.storage: None for each in saved if each.bytes >= least and _in_one_piece(graph, each.storage)}
    return offload(without_unread(graph, away), away) if away else graph


def _in_one_piece(graph: Graph, storage: str) -> bool:
    try:
        return bool(trips_of(graph, [storage]))
    except CheckpointError:
        return False


def with_states_away(graph: Graph, updated: Mapping[str, str]) -> tuple[Graph, dict[str, str]]:
    """A program whose optimizer works on copies of its states, the host has those that last. ``updated``: root → the
    tensor with its next value; returned as it is then."""
    states = {name for name in updated if graph.tensors[name].role is Role.STATE and name not in graph.producer}
    least = PAGED_SHARE * max((graph.tensors[name].bytes for name in states), default=0)
    away = {name for name in states if graph.tensors[name].bytes >= least}
    updates = [op for op in graph.ops if op.phase is Phase.UPDATE and not away.isdisjoint(op.inputs)]
    return _States(graph, updates, away, {now: root for root, now in updated.items()}).paged(updated)


@dataclass
class _States:
    """A graph with the states of ``updates`` on their way. ``roots``: by next value, what it is the next value of."""

    graph: Graph
    updates: Sequence[Op]
    away: set[str]
    roots: Mapping[str, str]

    def paged(self, updated: Mapping[str, str]) -> tuple[Graph, dict[str, str]]:
        """The graph, and the next values."""
        self.tensors, self.now = dict(self.graph.tensors), dict[str, str]()
        numbers = {op.name: number for number, op in enumerate(self.updates)}
        ops = list[Op]()
        for op in self.graph.ops:
            number = numbers.get(op.name)
            if number is None:
                ops.append(op)
                continue
            ahead = (0, 1) if number == 0 else (number + 1,)
            ops += [page for each in ahead if each < len(self.updates) for page in self._in(each)]
            ops.append(replace(op, inputs=tuple(self._copy(name) if name in self.away else name for name in op.inputs)))
            ops += self._out(op)
        outputs = tuple(self.now.get(name, name) for name in self.graph.outputs)
        made = replace(self.graph, tensors=self.tensors, ops=tuple(ops), outputs=outputs)
        return made, {root: self.now.get(name, name) for root, name in updated.items()}

    def _copy(self, root: str) -> str:
        return f"{root}/page_in"

    def _in(self, number: int) -> list[Op]:
        """The states of an update come when the one before the last is done: those of two are there at a time."""
        op = self.updates[number]
        waits = self.updates[number - 2].outputs[0] if number > 1 else op.inputs[1]
        return [self._page("page_in", root, (root, waits), op) for root in op.inputs if root in self.away]

    def _out(self, op: Op) -> list[Op]:
        """States that an update has written go to the host."""
        pages = list[Op]()
        for name in op.outputs:
            root = self.roots.get(name, "")
            if root in self.away:
                self.tensors[name] = replace(self.tensors[name], storage=self._copy(root))
                pages.append(self._page("page_out", root, (name,), op))
                self.now[name] = pages[-1].outputs[0]
        return pages

    def _page(self, kind: str, root: str, reads: tuple[str, ...], beside: Op) -> Op:
        name, lasting = f"{root}/{kind}", self.tensors[root]
        self.tensors[name] = Tensor(name, lasting.shape, lasting.dtype, Role.STATE, name, lasting.strides)
        return Op(name, kind, reads, (name,), Attributes(), Phase.UPDATE, beside.layer, micro_batch=beside.micro_batch)


def at_the_host(graph: Graph) -> frozenset[str]:
    """Storages that the host has: what was paged out, and roots that are only ever paged in."""
    away = {graph.tensors[name].storage for op in graph.ops if op.kind == "page_out" for name in op.outputs}
    come = {op.inputs[0] for op in graph.ops if op.kind == "page_in" and op.inputs[0] not in graph.producer}
    return frozenset(away | {name for name in come if all(op.kind == "page_in" for op in graph.consumers[name])})
