"""Reverse-mode differentiation: a driver over the gradient rules of the operator table, with explicit accumulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.graph.backward import Backward
from monet.graph.builder import GraphBuilder
from monet.graph.kind import kind_named
from monet.graph.op import Op, Phase


def requires_gradient(builder: GraphBuilder, ops: Iterable[Op], targets: Iterable[str]) -> set[str]:
    """Tensors through which a gradient has to flow to reach ``targets``: whatever is computed from them, in floats."""
    needed = set(targets)
    for op in ops:
        if kind_named(op.kind).gradient and any(name in needed for name in op.inputs):
            needed.update(name for name in op.outputs if FORMATS[builder.tensors[name].dtype].may_train)
    return needed


def differentiate(
    builder: GraphBuilder, ops: Sequence[Op], loss: str, targets: Sequence[str], seed: str, micro_batch: int = 0
) -> dict[str, str]:
    """Append the backward operators of ``ops`` and return target → its gradient.

    ``seed`` is the gradient of the loss itself. Only what leads to a target is computed: inputs that need no gradient
    get none, and a target that the loss does not depend on is absent from the result.
    """
    needed = requires_gradient(builder, ops, targets)
    if loss not in needed:
        raise ModelError("the loss does not depend on any trainable parameter")
    pending: dict[str, str] = {loss: seed}
    for op in reversed(ops):
        gradients = tuple(pending.pop(name, None) for name in op.outputs)
        needs = tuple(name in needed for name in op.inputs)
        if not any(gradients) or not any(needs):
            continue
        rule = kind_named(op.kind).gradient
        if rule is None:
            continue
        with builder.at(Phase.BACKWARD, op.layer, op.name, micro_batch):
            results = rule(Backward(builder, op, gradients, needs))
            for name, gradient, need in zip(op.inputs, results, needs, strict=True):
                if gradient is None or not need:
                    continue
                _check_shape(builder, op, name, gradient)
                builder.mark_gradient(gradient, name)
                pending[name] = _accumulate(builder, pending.get(name), gradient, name)
    return {name: pending[name] for name in targets if name in pending}


def _accumulate(builder: GraphBuilder, earlier: str | None, gradient: str, of: str) -> str:
    if earlier is None:
        return gradient
    total = builder.emit("add", earlier, gradient, name="accumulate")
    builder.mark_gradient(total, of)
    return total


def _check_shape(builder: GraphBuilder, op: Op, name: str, gradient: str) -> None:
    expected, given = builder.tensors[name].shape, builder.tensors[gradient].shape
    if expected != given:
        raise ModelError(f"gradient rule of {op.kind!r} gave {list(given)} for {name!r} of {list(expected)}")
