"""A vocabulary that ranks cannot share equally is filled up: rows of the table and of the head that no token has, and
whose scores count for nothing in the loss."""

from __future__ import annotations

from dataclasses import replace

from monet.distributed.transform.choice import AxisSet, candidates
from monet.graph import Graph, Role
from monet.graph.rewrite import replay_op, with_roots
from monet.graph.tensor import Tensor, contiguous


def filled_up(graph: Graph, ranks: int) -> tuple[Graph, list[AxisSet]]:
    """``graph`` with tables and classes a multiple of the number of ranks long, and what ranks could share of it."""
    found = candidates(graph)
    sets = [axes for axes in found if axes.has_form and not axes.divides(ranks) and _fillable(graph, axes)]
    axis = {name: cut.axis for axes in sets for name, cut in axes.tensors.items() if name not in graph.producer}
    classes = {
        name: sum(cut.places[0].segments) for axes in sets for name, cut in axes.ops.items() if cut.form == "nll_loss"
    }
    if not axis:
        return graph, found

    def longer(tensor: Tensor) -> Tensor:
        if tensor.name not in axis:
            return tensor
        shape = list(tensor.shape)
        shape[axis[tensor.name]] = -(-shape[axis[tensor.name]] // ranks) * ranks
        return replace(tensor, shape=tuple(shape), strides=contiguous(tuple(shape)))

    builder, renamed = with_roots(graph, longer)
    for op in graph.ops:
        attrs = {**op.attrs, "classes": classes[op.name]} if op.name in classes else None
        replay_op(builder, graph, op, renamed, attrs)
    longer_graph = builder.build([renamed[name] for name in graph.outputs], renamed[graph.loss])
    return longer_graph, candidates(longer_graph)


def _fillable(graph: Graph, axes: AxisSet) -> bool:
    """Rows are added to parameters alone, every operator takes its sizes from them, and ranks have a few each."""
    roots = (graph.tensors[name] for name in axes.tensors if name not in graph.producer)
    made = {op.name: op for name in axes.tensors for op in graph.consumers[name]}
    plain = all(not {"shape", "sizes", "rows"} & made[name].attrs.keys() for name in axes.ops if name in made)
    tables = any(cut.form in ("embedding", "nll_loss") for cut in axes.ops.values())
    return plain and tables and all(root.role is Role.PARAMETER for root in roots) and axes.size >= FEWEST


FEWEST = 128  # rows of a table that is filled up; the two classes of a classifier stay with everyone
