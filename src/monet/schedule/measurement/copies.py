"""Narrow copies of a step: what ``quantize`` makes for products, and what of it only pads groups."""

from __future__ import annotations

import math

from monet.formats import FORMATS
from monet.graph import Graph, Op, Role
from monet.schedule.result_rows import CopyRow


def narrow_copies(graph: Graph) -> tuple[CopyRow, ...]:
    """A row for every copy, in the order in which they are made."""
    return tuple(_row(graph, op) for op in graph.ops if op.kind == "quantize")


def _row(graph: Graph, op: Op) -> CopyRow:
    source, copy = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    held = FORMATS[copy.dtype]
    if held.group is None:
        raise ValueError(f"{op.name} makes {copy.dtype}, which has no groups")
    role = graph.storage_of(source.name).role
    of = {Role.PARAMETER: "weight", Role.GRADIENT: "gradient"}.get(role, "input")
    shared = held.group.shared_bits / math.prod(held.group.shape)
    whole = copy.elements * (held.bits + shared) + held.group.tensor_bits
    return CopyRow(op.name, source.name, of, op.layer, copy.dtype, copy.bytes, copy.bytes - math.ceil(whole / 8))
