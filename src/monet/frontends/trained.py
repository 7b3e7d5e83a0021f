"""What a model that was read will train: a word where most of its work is by values that nothing trains."""

from __future__ import annotations

import warnings

from monet.errors import ModelWarning
from monet.graph import Graph, Role
from monet.graph.counts import macs_of

_LISTED = 3
_MOST = 0.5  # of the multiply-accumulates by stored values: beyond it the weights were taken for something else


def note_untrained(graph: Graph) -> Graph:
    """``graph`` itself. Warns if it has no parameters, or if most of what its layers multiply by is not trained."""
    parameters = graph.parameters
    fixed, stored = _stored_work(graph)
    work = sum(fixed.values())
    if parameters and (not work or work <= _MOST * stored):
        return graph
    if not parameters and not any(macs_of(graph, op) for op in graph.ops):
        return graph
    count = sum(tensor.elements for tensor in parameters)
    said = f"{graph.name}: {count:,} parameters{_names([tensor.name for tensor in parameters])} will be trained"
    if work:
        share = f"{100 * work / stored:.0f} % of its multiply-accumulates by stored values"
        said += f", and {share} are by constants and buffers{_names(sorted(fixed, key=lambda name: -fixed[name]))}"
    warnings.warn(f"{said}; if those are its weights, store them as parameters", ModelWarning, stacklevel=3)
    return graph


def _names(names: list[str]) -> str:
    more = f", and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f" ({', '.join(names[:_LISTED])}{more})" if names else ""


def _stored_work(graph: Graph) -> tuple[dict[str, int], int]:
    """Multiply-accumulates by each operand that follows from constants and buffers alone; by stored values in all."""
    moving: set[str] = {tensor.name for tensor in graph.role(Role.INPUT)}
    trained: set[str] = {tensor.name for tensor in graph.role(Role.PARAMETER)}
    fixed: dict[str, int] = {}
    total = 0
    for op in graph.ops:
        macs = macs_of(graph, op)
        if macs:
            operands = [name for name in op.inputs[:2] if name not in moving]
            total += macs if operands else 0
            for name in operands:
                if name not in trained:
                    fixed[name] = fixed.get(name, 0) + macs
        if moving & {*op.inputs}:
            moving.update(op.outputs)
        elif trained & {*op.inputs}:
            trained.update(op.outputs)
    return fixed, total
