"""What tensor ranks share: sets of axes that are cut together, found by following a cut of a weight through the graph.

A cut of one axis of a weight fixes the cut of every operator that has this axis, and of what these read and write. The
followed set is closed: outside of it every tensor is whole. Inside the MLP of a transformer it is the hidden width
(columns of the first weight, rows of the second), inside attention the heads, around the loss the vocabulary; nothing
here knows these names. A set that meets an operator which needs all of the axis (the width that a norm is taken over)
is none. Of sets that meet in an operator one is taken, so that most multiply-accumulates are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from monet.distributed.plan import check_divides
from monet.distributed.transform.cuts import Cut, Cuttable, OpCut
from monet.errors import OptionError
from monet.graph import Graph, Op, Role
from monet.graph.counts import call_of, macs_of

MOST_EXACT = 22  # sets that meet each other, of which the best are found by trying all


@dataclass(frozen=True)
class AxisSet:
    """Axes that are cut together: by tensor its cut, by operator how it is cut, and what is shared by that."""

    tensors: dict[str, Cut]
    ops: dict[str, OpCut]
    macs: int
    weight_bytes: int
    owed_bytes: int
    size: int  # of the axis where it is shortest (heads, not features): what the number of ranks has to divide

    @property
    def has_form(self) -> bool:
        """Whether a table of look-ups or the loss is cut."""
        return any(cut.form for cut in self.ops.values())

    def divides(self, ranks: int) -> bool:
        """Whether so many ranks have equal parts."""
        return all(length % ranks == 0 for cut in self.ops.values() for length in cut.lengths)

    def meets(self, other: AxisSet) -> bool:
        """Whether an operator or a tensor would be cut twice."""
        return not self.ops.keys().isdisjoint(other.ops) or not self.tensors.keys().isdisjoint(other.tensors)


@dataclass
class Follower:
    """Follows cuts through one graph."""

    graph: Graph
    cuttable: Cuttable = field(default_factory=Cuttable)

    def follow(self, name: str, axis: int) -> AxisSet | None:
        """Everything that is cut if one axis of a tensor is; None where some operator cannot be."""
        graph, tensors, ops, lengths = self.graph, dict[str, Cut](), dict[str, OpCut](), list[int]()
        waiting = [(name, Cut(axis, (graph.tensors[name].shape[axis],)))]
        while waiting:
            tensor, cut = waiting.pop()
            if tensor in tensors:
                if tensors[tensor] != cut:
                    return None
                continue
            tensors[tensor] = cut
            producer = graph.producer.get(tensor)
            for op in (*graph.consumers[tensor], *((producer,) if producer else ())):
                found = self._cut(op, tensor, cut, ops.get(op.name))
                if found is None:
                    return None
                if op.name not in ops:
                    ops[op.name] = found
                    lengths += found.lengths
                    names = (*op.inputs, *op.outputs)
                    waiting += [(names[slot], place) for slot, place in found.places.items()]
        return self._summed_up(tensors, ops, min(lengths, default=graph.tensors[name].shape[axis]))

    def _cut(self, op: Op, tensor: str, cut: Cut, known: OpCut | None) -> OpCut | None:
        """How an operator is cut that has a cut tensor; a tensor read twice is cut alike at both places."""
        slots = [slot for slot, name in enumerate((*op.inputs, *op.outputs)) if name == tensor]
        if known is not None:
            return known if all(known.places.get(slot) == cut for slot in slots) else None
        call = call_of(self.graph, op)
        for slot in slots:
            found = self.cuttable.cut(op, call, slot, cut)
            if found and all(found.places.get(other) == cut for other in slots):
                return found
        return None

    def _summed_up(self, tensors: dict[str, Cut], ops: dict[str, OpCut], size: int) -> AxisSet:
        graph, macs, owed = self.graph, 0, 0
        by_name = {op.name: op for name in tensors for op in (*graph.consumers[name], graph.producer.get(name)) if op}
        for name, cut in ops.items():
            op = by_name[name]
            macs += macs_of(graph, op)
            owed += sum(graph.tensors[op.outputs[number]].bytes for number in cut.owes)
        weights = sum(graph.tensors[name].bytes for name in tensors if graph.tensors[name].role is Role.PARAMETER)
        return AxisSet(tensors, ops, macs, weights, owed, size)


def shared_axes(graph: Graph, ranks: int, found: list[AxisSet]) -> tuple[AxisSet, ...]:
    """Of the candidates ``found``, the sets that so many tensor ranks share. Weights that most work would be shared by
    have to divide; a vocabulary or classes that do not stay whole."""
    chosen = tuple(axes for group in _meeting(found) for axes in _best(group))
    if not chosen:
        raise OptionError("tensor", ranks, f"{graph.name} has no axis of a weight that ranks could share")
    for axes in chosen:
        if not axes.has_form and not axes.divides(ranks):
            weight = next(name for name in axes.tensors if name not in graph.producer)
            check_divides("tensor", ranks, axes.size, f"the shared axis (of {weight})")
    return tuple(axes for axes in chosen if axes.divides(ranks))


def candidates(graph: Graph) -> list[AxisSet]:
    """All sets that ranks could share, whatever their number."""
    follower, found, seen = Follower(graph), list[AxisSet](), set[tuple[str, int]]()
    for parameter in graph.parameters:
        for axis, length in enumerate(parameter.shape):
            if length == 1 or (parameter.name, axis) in seen:
                continue
            axes = follower.follow(parameter.name, axis)
            if axes is not None and _worth_it(graph, axes):
                seen |= {(name, cut.axis) for name, cut in axes.tensors.items()}
                found.append(axes)
    return found


def _worth_it(graph: Graph, axes: AxisSet) -> bool:
    """Products are shared, or a table that is larger than what is looked up of it; inputs and labels stay whole. Of
    scores in parts only the loss can be made."""
    roots = [graph.tensors[name] for name in axes.tensors if name not in graph.producer]
    if any(root.role in (Role.INPUT, Role.LABEL) for root in roots):
        return False
    ops = {op.name: op for tensor in axes.tensors for op in graph.consumers[tensor]}
    for name, cut in axes.ops.items():
        if cut.form == "log_softmax":
            readers = [reader for out in ops[name].outputs for reader in graph.consumers[out]]
            if any(axes.ops[reader.name].form != "nll_loss" for reader in readers):
                return False
    return axes.macs > 0 or axes.weight_bytes > axes.owed_bytes


# --- choice ---------------------------------------------------------------------------------------------------------


def _meeting(sets: list[AxisSet]) -> list[list[AxisSet]]:
    """Sets in groups of those that meet, directly or through others."""
    at: dict[str, list[int]] = {}
    for number, axes in enumerate(sets):
        for name in (*axes.ops, *axes.tensors):
            at.setdefault(name, []).append(number)
    group = list(range(len(sets)))

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    for numbers in at.values():
        for other in numbers[1:]:
            group[root(other)] = root(numbers[0])
    found: dict[int, list[AxisSet]] = {}
    for number, axes in enumerate(sets):
        found.setdefault(root(number), []).append(axes)
    return list(found.values())


Worth = tuple[int, int, int]


def _worth(sets: Sequence[AxisSet]) -> Worth:
    """Work that is shared, then weights, then what need not be added up."""
    return (
        sum(axes.macs for axes in sets), sum(axes.weight_bytes for axes in sets), -sum(axes.owed_bytes for axes in sets)
    )  # fmt: skip


def _best(sets: list[AxisSet]) -> list[AxisSet]:
    """Of sets that meet, those that do not and together are worth most."""
    if len(sets) == 1:
        return sets
    by_work = sorted(sets, key=lambda axes: (-axes.macs, -axes.weight_bytes, axes.owed_bytes))
    by_sums = sorted(by_work, key=lambda axes: -axes.macs / (1 + axes.owed_bytes))
    best = max(_greedy(by_work), _greedy(by_sums), key=_worth)
    if len(sets) > MOST_EXACT:
        return best
    remaining = [sum(axes.macs for axes in by_work[number:]) for number in range(len(by_work) + 1)]

    def extend(number: int, taken: list[AxisSet], macs: int) -> None:
        nonlocal best
        if macs + remaining[number] < _worth(best)[0]:
            return
        if number == len(by_work):
            best = max(best, taken, key=_worth)
            return
        axes = by_work[number]
        if not any(axes.meets(other) for other in taken):
            extend(number + 1, [*taken, axes], macs + axes.macs)
        extend(number + 1, taken, macs)

    extend(0, [], 0)
    return best


def _greedy(order: list[AxisSet]) -> list[AxisSet]:
    taken: list[AxisSet] = []
    for axes in order:
        if not any(axes.meets(other) for other in taken):
            taken.append(axes)
    return taken
