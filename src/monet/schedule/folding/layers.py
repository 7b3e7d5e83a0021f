"""Which operators and tensors of a graph belong to which of its numbered layers, and which layers are equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from monet.graph.graph import Graph
from monet.graph.op import Op

BLOCK = re.compile(r"(.*?\b)(\d+)(\.|$)")
Owned = tuple[int, object]  # the layer of a tensor (-1: of none, or of several), and which of its layer's it is


@dataclass(frozen=True)
class Layers:
    """Layers of a graph, counted from 0: of every operator (-1: of none), and of every tensor. A tensor is of the layer
    that makes it or, if nothing does, of the only one that reads it."""

    graph: Graph
    count: int
    of_op: tuple[int, ...]
    owner: dict[str, Owned]

    @cached_property
    def ops(self) -> tuple[tuple[Op, ...], ...]:
        """By layer."""
        found: list[list[Op]] = [[] for _ in range(self.count)]
        for op, layer in zip(self.graph.ops, self.of_op, strict=True):
            if layer >= 0:
                found[layer].append(op)
        return tuple(map(tuple, found))

    def are_equal(self, first: int, last: int) -> bool:
        """Whether some layers next to each other do the same with the same kinds of tensors, each with those of its
        neighbours as the next one with those of its own."""
        like = self._signature(first)
        return all(self._signature(layer) == like for layer in range(first + 1, last + 1))

    def _signature(self, layer: int) -> list[tuple[Any, ...]]:
        tensors, owner = self.graph.tensors, self.owner
        found = []
        for op in self.ops[layer]:
            touched: list[Any] = []
            for name in (*op.inputs, *op.outputs):
                tensor, (home, which) = tensors[name], owner[name]
                touched += (home - layer if home >= 0 else "", which, tensor.shape, tensor.dtype, tensor.role)
                touched += (tensor.strides, tensor.offset)
                if tensor.storage != name:
                    home, which = owner[tensor.storage]
                    touched += (home - layer if home >= 0 else "", which)
            found.append((op.kind, op.attrs, op.phase, op.recompute, op.micro_batch, len(op.inputs), touched))
        return found


def layers_of(graph: Graph) -> Layers | None:
    """The layers that a model numbers, of several kinds of them the most; None if it numbers none."""
    known: dict[str, tuple[str, int]] = {}
    for op in graph.ops:
        if op.layer not in known:
            match = BLOCK.match(op.layer)
            known[op.layer] = (match[1], int(match[2])) if match else ("", -1)
    kinds: dict[str, set[int]] = {}
    for kind, number in known.values():
        if number >= 0:
            kinds.setdefault(kind, set()).add(number)
    if not kinds:
        return None
    most = max(kinds, key=lambda kind: len(kinds[kind]))
    place = {number: position for position, number in enumerate(sorted(kinds[most]))}
    layer_of = {name: place[number] if number >= 0 and kind == most else -1 for name, (kind, number) in known.items()}
    of_op = tuple([layer_of[op.layer] for op in graph.ops])
    return Layers(graph, len(place), of_op, _owners(graph.ops, of_op, len(place)))


def _owners(ops: Sequence[Op], of_op: Sequence[int], count: int) -> dict[str, Owned]:
    owner: dict[str, Owned] = {}
    made, position = set[str](), [0] * count
    for op, layer in zip(ops, of_op, strict=True):
        here = position[layer]
        for slot, name in enumerate(op.inputs):
            known = owner.get(name)
            if known is None:
                owner[name] = (layer, (here, slot)) if layer >= 0 else (-1, name)
            elif known[0] not in (-1, layer) and name not in made:
                owner[name] = -1, name  # several layers read it
        for slot, name in enumerate(op.outputs):
            owner[name] = (layer, (here, -1 - slot)) if layer >= 0 else (-1, name)
            made.add(name)
        if layer >= 0:
            position[layer] += 1
    return owner
