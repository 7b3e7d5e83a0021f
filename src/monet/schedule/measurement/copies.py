"""Narrow copies of a step: what ``quantize`` makes for products, and what of it only pads groups."""

from __future__ import annotations

import math

from monet.formats import FORMATS
from monet.graph import Graph, Op, Phase, Role
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.schedule.result_rows import CopyRow

NAMED = 4  # layers that a note names; of more it says how many


def narrow_copies(graph: Graph) -> tuple[CopyRow, ...]:
    """A row for every copy, in the order in which they are made."""
    return tuple(_row(graph, op) for op in graph.ops if op.kind == "quantize")


class _Notes(tuple[str, ...]):
    """On a graph."""


def wide_products(graph: Graph) -> tuple[str, ...]:
    """Notes on layers whose products no policy made narrow, in a graph where it did others; looked for once."""
    found = graph.analyses.get(_Notes)
    if found is None:
        found = graph.analyses[_Notes] = _Notes(_wide_products(graph))
    assert isinstance(found, _Notes)
    return found


def _wide_products(graph: Graph) -> tuple[str, ...]:
    if not any(op.kind == "quantize" or "formats" in op.attrs for op in graph.ops):
        return ()
    products = [op for op in graph.ops if op.phase is Phase.FORWARD and kind_named(op.kind).family in MAC_FAMILIES]
    wide = [op for op in products if not is_narrow(graph, op)]
    in_groups = [op.layer for op in wide if op.attrs.get("groups", 1) > 1]
    others = [op.layer for op in wide if op.attrs.get("groups", 1) == 1]
    reasons = (
        (in_groups, "channels of a convolution's groups do not fill groups that share a scale"),
        (others, "exempt, or wide in the policy"),
    )
    return tuple(f"products stay wide in {_listed(layers)}: {why}" for layers, why in reasons if layers)


def is_narrow(graph: Graph, op: Op) -> bool:
    """Whether some operand of a product is held in a format whose elements share scales."""
    return "formats" in op.attrs or any(FORMATS[graph.tensors[name].dtype].element for name in op.inputs[:2])


def _listed(layers: list[str]) -> str:
    names = list(dict.fromkeys(layers))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


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
