"""Copies that the framework makes on its own before a batched product whose batch axes it cannot merge in place.

They matter for what is kept: of a joint projection only the copied parts stay alive instead of the whole. Where the
copies would amount to the whole anyway they are left out, and the products read the views.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from monet.graph import Graph
from monet.graph.rewrite import replay_op, with_roots


def copy_partial_operands(graph: Graph, copied: Mapping[str, set[int]]) -> Graph:
    """``graph`` with copies before its products; ``copied`` maps an operator to the operands that are written out."""
    parts: dict[str, set[str]] = defaultdict(set)
    for op in graph.ops:
        for slot in copied.get(op.name, ()):
            name = op.inputs[slot]
            parts[graph.tensors[name].storage].add(name)
    partial = {
        name
        for storage, names in parts.items()
        if sum(graph.tensors[name].elements for name in names) < graph.tensors[storage].elements
        for name in names
    }
    return _with_copies(graph, partial, copied) if partial else graph


def _with_copies(graph: Graph, partial: set[str], copied: Mapping[str, set[int]]) -> Graph:
    builder, renamed = with_roots(graph)
    written: dict[str, str] = {}
    for op in graph.ops:
        operands = dict(renamed)
        for slot in copied.get(op.name, ()):
            name = op.inputs[slot]
            if name in partial:
                if name not in written:
                    written[name] = builder.emit("copy", renamed[name], name=f"{name}.copy")
                operands[name] = written[name]
        replay_op(builder, graph, op, operands)
        renamed.update({name: operands[name] for name in op.outputs})
    return builder.build([renamed[name] for name in graph.outputs])
