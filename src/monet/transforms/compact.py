"""The compact saving policy: what an accelerator would keep instead of what the framework keeps.

One bit per element instead of a ReLU's output where nothing else needs that output; the winning tap (one byte) instead
of a 64-bit position for max-pooling; one-bit dropout masks; nothing kept that is never read. ``narrow_saved`` does
so for chosen storages, ``compact_saved`` for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from monet.formats import FORMATS
from monet.graph import Attributes, Graph, Op, Phase, Role, Tensor
from monet.graph.counts import saved_for_backward
from monet.graph.kind import MaskForm, Narrow, kind_named
from monet.graph.tensor import contiguous


def compact_saved(graph: Graph) -> Graph:
    """A training step with the same gradients that keeps fewer bytes from forward to backward."""
    return narrow_saved(graph, {tensor.storage for tensor in graph.tensors.values()})


def narrow_saved(graph: Graph, storages: Collection[str]) -> Graph:
    """The same for the named storages only; a storage with nothing to narrow stays as it is."""
    return _masks(_narrow_indices(without_unread(graph, storages), storages), storages)


def narrowed_bytes(graph: Graph) -> dict[str, int]:
    """Saved storage → the bytes it has when narrowed, for those that become smaller (of the first pass)."""
    readers, masks = _readers(graph), {graph.tensors[name].storage for name in _mask_sources(graph)}
    narrow = _narrow_outputs(graph)
    found: dict[str, int] = {}
    for saved in saved_for_backward(graph):
        tensor, storage = saved.tensor, saved.tensor.storage
        if not readers[storage]:
            found[storage] = 0
        elif storage in narrow:
            found[storage] = FORMATS[narrow[storage].dtype].bytes_of(tensor.shape)
        elif storage in masks:
            found[storage] = FORMATS["bit"].bytes_of(tensor.shape)
    return {name: size for name, size in found.items() if size < graph.tensors[name].bytes}


def without_unread(graph: Graph, storages: Collection[str]) -> Graph:
    """References to ``storages`` that the framework holds without ever reading an element are let go."""

    def is_let_go(name: str) -> bool:
        return graph.tensors[name].storage in storages

    def trimmed(op: Op) -> Op:
        retained = kind_named(op.kind).retained
        if not any(i < len(op.inputs) and is_let_go(op.inputs[i]) for i in retained):
            return op
        read = [name for i, name in enumerate(op.inputs) if i not in retained or not is_let_go(name)]
        return replace(op, inputs=tuple(read))

    return replace(graph, ops=tuple(map(trimmed, graph.ops)))


def _readers(graph: Graph) -> dict[str, set[tuple[str, str]]]:
    """Storage → the backward reads of its elements, each as (kind of operator, tensor)."""
    readers: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for op in graph.ops:
        if op.phase is Phase.BACKWARD:
            retained = kind_named(op.kind).retained
            for i, name in enumerate(op.inputs):
                if i not in retained:
                    readers[graph.tensors[name].storage].add((op.kind, name))
    return readers


def _mask_sources(graph: Graph) -> dict[str, MaskForm]:
    """Outputs of which backward reads one bit an element (the sign of a ReLU's), and the form that keeps just that."""
    readers, found = _readers(graph), dict[str, MaskForm]()
    for op in graph.ops:
        form = kind_named(op.kind).mask
        if form is None or op.phase is Phase.BACKWARD:
            continue
        if readers[graph.tensors[op.outputs[0]].storage] == {(form.gradient, op.outputs[0])}:
            found[op.outputs[0]] = form
    return found


def _narrow_outputs(graph: Graph) -> dict[str, Narrow]:
    """Outputs with a narrower type that means the same to those that read them."""
    found: dict[str, Narrow] = {}
    for op in graph.ops:
        rule = kind_named(op.kind).narrow
        narrow = rule(op.attrs) if rule else None
        if narrow:
            found[op.outputs[narrow.output]] = narrow
    return found


def _narrow_indices(graph: Graph, storages: Collection[str]) -> Graph:
    """The chosen outputs in their narrow type; operators that make them are told, and readers that are to know."""
    found = {name: narrow for name, narrow in _narrow_outputs(graph).items() if name in storages}
    tensors = {
        name: replace(tensor, dtype=found[name].dtype) if name in found else tensor
        for name, tensor in graph.tensors.items()
    }

    def narrowed(op: Op) -> Op:
        made = {found[name].attribute: found[name].dtype for name in op.outputs if name in found}
        read = {found[name].attribute: found[name].dtype for name in op.inputs if name in found}
        told = {**{key: dtype for key, dtype in read.items() if key in op.attrs}, **made}
        return replace(op, attrs=Attributes({**op.attrs, **told})) if told else op

    return replace(graph, ops=tuple(map(narrowed, graph.ops)), tensors=tensors)


def _masks(graph: Graph, storages: Collection[str]) -> Graph:
    """Swap operators for their mask-producing form where the mask is all that backward would read of their output."""
    tensors, masked = dict(graph.tensors), dict[str, tuple[str, MaskForm]]()
    for source, form in _mask_sources(graph).items():
        if tensors[source].storage in storages:
            name, shape = f"{source}:mask", tensors[source].shape
            tensors[name] = Tensor(name, shape, "bit", Role.ACTIVATION, name, contiguous(shape))
            masked[source] = name, form

    def swapped(op: Op) -> Op:
        if op.outputs and op.outputs[0] in masked:
            name, form = masked[op.outputs[0]]
            return replace(op, kind=form.kind, outputs=(op.outputs[0], name))
        if len(op.inputs) > 1 and op.inputs[1] in masked and op.kind == masked[op.inputs[1]][1].gradient:
            name, form = masked[op.inputs[1]]
            return replace(op, kind=form.reader, inputs=(op.inputs[0], name), attrs=Attributes(form.attrs))
        return op

    return replace(graph, ops=tuple(map(swapped, graph.ops)), tensors=tensors)
