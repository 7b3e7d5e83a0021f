"""A network with many equal layers, and the same with fewer of them.

Layers in the middle are left out: what the layer behind them reads of the last of them it reads of the layer before
them, and backward the other way round. Each layer that was left out stands where the one before the cut stands, in
every pass over the layers (forward, backward, updates).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from monet.arrays import I64, I64x2
from monet.graph.graph import Graph
from monet.graph.op import Op
from monet.graph.tensor import Tensor
from monet.schedule.folding.layers import Layers, layers_of
from monet.schedule.plan import Group, Plan
from monet.schedule.workload import Workload, workload_of

KEPT = (12, 36)  # layers; of networks with at least twice as many
MOST_REFUSED = 8
BESIDE = 2  # layers on either side of the cut that have to be equal to those that are left out


class NotRepeating(Exception):
    """A schedule of fewer layers does not say what that of all is."""


class NeverRepeating(NotRepeating):
    """Nor does one of any other number of layers."""


class Lengthening(NamedTuple):
    """By operator of all layers: the number of the one that stands for it, and for each pass by how many layers it
    comes later than that one."""

    numbers: I64
    places: I64x2


@dataclass(frozen=True)
class Shortened:
    """A workload with fewer layers, ``before`` of them before the cut, and as many behind it. ``segment``: by operator,
    the number of the stretch of execution that it is in: those of one pass over one layer, or between passes.
    ``layer``: by segment (-1: none). ``passes``: the first segment of every pass. ``rising``: by pass, whether it goes
    from the first layer to the last. ``storage_layer``, ``storage_kind``: by storage, of what layer it is, and equal
    for the same storage of different layers. ``copies``: operators of the layer before the cut, and those of layers
    left out, in order, that they stand for. ``refused``: the last plans for all layers that could not be measured with
    those that are kept; asked for again, they are not tried again."""

    whole: Workload
    workload: Workload
    before: int
    removed: int
    segment: I64
    layer: I64
    passes: tuple[int, ...]
    rising: tuple[bool, ...]
    storage_layer: I64
    storage_kind: I64
    copies: Mapping[str, tuple[str, ...]]
    refused: deque[Plan] = field(default_factory=lambda: deque(maxlen=MOST_REFUSED))

    @property
    def times(self) -> I64:
        """By operator, how many it stands for."""
        return np.where(self.layer[self.segment] == self.before - 1, 1 + self.removed, 1)

    def cut(self, number: int) -> int:
        """Of a pass, the last segment before the cut."""
        return self.passes[number] + self.before - 1

    @cached_property
    def lengthening(self) -> Lengthening:
        """What stands for every operator of all layers, and how much later that one is."""
        whole, short, many = self.whole.by_name, self.workload.by_name, len(self.passes)
        numbers = np.full(len(whole), -1, np.int64)
        copy = np.full(len(whole), -1, np.int64)  # of a layer that was left out, counted from the first of these
        for name, operator in short.items():
            numbers[whole[name].number] = operator.number
            for number, other in enumerate(self.copies.get(name, ())):
                numbers[whole[other].number], copy[whole[other].number] = operator.number, number
        segment, left_out = self.segment[numbers], copy >= 0
        behind = segment[:, None] > np.array([self.cut(number) for number in range(many)])
        places = self.removed * behind
        along = np.searchsorted(self.passes, segment, side="right")[left_out] - 1
        rising = np.array(self.rising)[along]
        places[left_out, along] = np.where(rising, copy[left_out] + 1, self.removed - 1 - copy[left_out])
        return Lengthening(numbers, places)

    @cached_property
    def stood_for(self) -> tuple[I64, I64]:
        """By operator, where those that it stands for begin in a list of numbers, and that list."""
        return np.cumsum(self.times) - self.times, np.argsort(self.lengthening.numbers, kind="stable")

    def shortened(self, plan: Plan) -> Plan:
        """A plan for all layers, for those that are kept. Raises ``NotRepeating`` if those that are left out have
        another one than these."""
        names = self.workload.by_name
        kept = {name: plan.placements[name] for name in names if name in plan.placements}
        groups = tuple([group for group in plan.groups if not names.keys().isdisjoint(group.operators)])
        found = replace(plan, placements=kept, groups=groups)
        if (
            len(kept) < len(names)
            or any(plan.placements.get(copy) != kept[name] for copy, name in self.stands_for.items())
            or tuple(self._groups(groups)) != plan.groups
        ):
            raise NotRepeating("layers have different plans")
        return found

    @cached_property
    def stands_for(self) -> dict[str, str]:
        """Operators that are left out → those that stand for them."""
        return {copy: name for name, copies in self.copies.items() for copy in copies}

    def lengthened(self, plan: Plan) -> Plan:
        """A plan for all layers. Raises ``NotRepeating`` if groups reach from one layer to another at the cut."""
        stands_for = self.stands_for
        placements = {name: plan.placements[stands_for.get(name, name)] for name in self.whole.names}
        return replace(plan, placements=placements, groups=tuple(self._groups(plan.groups)))

    def _groups(self, groups: Sequence[Group]) -> list[Group]:
        segment = {operator.op.name: int(self.segment[operator.number]) for operator in self.workload.operators}
        found: list[Group] = []
        for of, some in groupby(groups, key=lambda group: self._home(group, segment)):
            here = list(some)
            if of < 0:
                found += here
                continue
            rising = self.rising[max(number for number, first in enumerate(self.passes) if first <= of)]
            copies = [
                group._replace(operators=tuple(self.copies[name][number] for name in group.operators))
                for number in range(self.removed)[:: 1 if rising else -1]
                for group in here
            ]
            found += [*here, *copies] if rising else [*copies, *here]
        return found

    def _home(self, group: Group, segment: Mapping[str, int]) -> int:
        """The segment of a group of the layer before the cut; -1 for others."""
        segments = {segment[name] for name in group.operators}
        if not any(self.layer[number] == self.before - 1 for number in segments):
            return -1
        if len(segments) > 1:
            raise NotRepeating("a group reaches from one layer to another")
        return segments.pop()


class _Known(dict[int, "Shortened | None"]):
    """Of a graph, what was found, by how many layers are kept."""


def shortened(workload: Workload, kept: int) -> Shortened | None:
    """The workload with ``kept`` layers, looked for once; None if it has not twice as many, or they are not equal."""
    known = workload.graph.analyses.setdefault(_Known, _Known())
    assert isinstance(known, _Known)
    if kept not in known:
        known[kept] = _shorten(workload, kept)
    return known[kept]


def _shorten(workload: Workload, kept: int) -> Shortened | None:
    layers = layers_of(workload.graph)
    if layers is None or layers.count < 2 * kept:
        return None
    before, removed = kept // 2, layers.count - kept
    passes = _passes(layers, workload)
    if not passes or not layers.are_equal(before - BESIDE, before + removed + BESIDE - 1):
        return None
    graph = _Cut(layers, before, removed).graph()
    return _analysed(layers, workload, workload_of(graph), before, removed) if graph else None


def _segments(layers: Layers, workload: Workload) -> list[tuple[int, int]]:
    """(layer, number of operators) of every stretch of execution."""
    layer_of = {op.name: layer for op, layer in zip(layers.graph.ops, layers.of_op, strict=True)}
    found = groupby(layer_of[operator.op.name] for operator in workload.operators)
    return [(layer, sum(1 for _ in some)) for layer, some in found]


def _passes(layers: Layers, workload: Workload) -> list[bool]:
    """Passes over the layers, and whether each goes from the first to the last; none if one does neither."""
    found = []
    for is_layer, some in groupby((layer for layer, _ in _segments(layers, workload)), key=lambda layer: layer >= 0):
        if not is_layer:
            continue
        order = list(some)
        if order not in ([*range(layers.count)], [*range(layers.count)][::-1]):
            return []
        found.append(order[0] == 0)
    return found


class _Cut:
    """Leaves out ``removed`` layers of a graph from number ``before`` on."""

    def __init__(self, layers: Layers, before: int, removed: int) -> None:
        self.layers, self.before, self.removed, self.tensors = layers, before, removed, layers.graph.tensors
        self.named = {owned: name for name, owned in layers.owner.items() if owned[0] >= 0}

    def graph(self) -> Graph | None:
        """The shortened graph; None if something other than a layer needs one that is left out."""
        whole, ops, tensors = self.layers.graph, list[Op](), dict[str, Tensor]()
        try:
            for op, layer in zip(whole.ops, self.layers.of_op, strict=True):
                if not self.is_kept(layer):
                    continue
                inputs = tuple([self.instead(name, layer) for name in op.inputs])
                ops.append(op if inputs == op.inputs else replace(op, inputs=inputs))
                for name in (*inputs, *op.outputs):
                    self.add(name, tensors)
        except NotRepeating:
            return None
        for name in whole.inputs:
            self.add(name, tensors)
        return replace(
            whole,
            tensors=tensors,
            ops=tuple(ops),
            outputs=tuple(name for name in whole.outputs if name in tensors),
            values={name: value for name, value in whole.values.items() if name in tensors},
            gradients={name: of for name, of in whole.gradients.items() if name in tensors and of in tensors},
        )

    def is_kept(self, layer: int) -> bool:
        """Whether a layer, or what is of none (-1), stays."""
        return not self.before <= layer < self.before + self.removed

    def instead(self, name: str, reader: int) -> str:
        """The tensor that stands for one that a layer reads."""
        home, which = self.layers.owner[name]
        if self.is_kept(home):
            return name
        if reader < 0 or abs(home - reader) > BESIDE:
            raise NotRepeating(f"{name} is read from afar")
        found = self.named.get((home - self.removed if reader > home else home + self.removed, which))
        if found is None or not self.is_kept(self.layers.owner[found][0]):
            raise NotRepeating(f"nothing stands for {name}")
        return found

    def add(self, name: str, tensors: dict[str, Tensor]) -> None:
        """Add a tensor and the one whose storage it lives in."""
        if name in tensors:
            return
        tensor = self.tensors[name]
        storage = self.instead(tensor.storage, self.layers.owner[name][0])
        tensors[name] = tensor if storage == tensor.storage else replace(tensor, storage=storage)
        self.add(storage, tensors)


def _analysed(layers: Layers, whole: Workload, workload: Workload, before: int, removed: int) -> Shortened | None:
    """The shortened workload, if its operators are those of the whole one."""
    known = whole.by_name
    if any(operator.alike != known[operator.op.name].alike for operator in workload.operators):
        return None
    layer_of = {op.name: layer for op, layer in zip(layers.graph.ops, layers.of_op, strict=True)}
    short = {layer: layer if layer < before else layer - removed for layer in range(layers.count)} | {-1: -1}
    runs = [
        (short[layer], list(some)) for layer, some in groupby(workload.operators, key=lambda o: layer_of[o.op.name])
    ]
    layer = np.array([number for number, _ in runs], np.int64)
    starts = [n for n in range(len(runs)) if layer[n] >= 0 and (n == 0 or layer[n - 1] < 0)]
    if any(whole.storages[name].alike != storage.alike for name, storage in workload.storages.items()):
        return None
    owners = [layers.owner[name] for name in workload.storages]
    kinds: dict[object, int] = {}
    executed: dict[int, list[str]] = {}
    for operator in whole.operators:
        executed.setdefault(layer_of[operator.op.name], []).append(operator.op.name)
    others = [executed[before + number] for number in range(removed)]
    return Shortened(
        whole,
        workload,
        before,
        removed,
        np.repeat(np.arange(len(runs)), [len(some) for _, some in runs]),
        layer,
        tuple(starts),
        tuple(layer[start] == 0 for start in starts),
        np.array([short.get(home, -1) for home, _ in owners], np.int64),
        np.array([kinds.setdefault(which, len(kinds)) for _, which in owners], np.int64),
        dict(zip(executed[before - 1], zip(*others, strict=True), strict=True)),
    )
