"""Optimizers: which state a parameter carries, and the one fused operator that updates it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from monet.errors import OptionError, nearest
from monet.graph.builder import GraphBuilder
from monet.graph.op import Phase


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer and its settings, unused ones ignored; ``moments`` counts state tensors of the weight's shape."""

    name: str
    kind: str
    moments: int
    rate: float
    decay: float = 0.0
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    decoupled: bool = False
    counts_steps: bool = False  # in four bytes per tensor, as torch.optim does


OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("sgd", "sgd_update", 0, rate=0.01),
        Optimizer("momentum", "momentum_update", 1, rate=0.01),
        Optimizer("adam", "adam_update", 2, rate=0.001, counts_steps=True),
        Optimizer("adamw", "adam_update", 2, rate=0.001, decay=0.01, decoupled=True, counts_steps=True),
    )
}


def optimizer_named(name: str, *, rate: float | None = None, decay: float | None = None) -> Optimizer:
    """The optimizer called ``name``, with its defaults overridden where given."""
    if name not in OPTIMIZERS:
        raise OptionError("optimizer", name, nearest(name, OPTIMIZERS))
    optimizer = OPTIMIZERS[name]
    if rate is not None:
        optimizer = replace(optimizer, rate=rate)
    return optimizer if decay is None else replace(optimizer, decay=decay)


def emit_update(
    builder: GraphBuilder,
    optimizer: Optimizer,
    parameter: str,
    gradient: str,
    master: str,
    clip: str | None,
    weight: str = "",
) -> tuple[str, ...]:
    """Append the update of one parameter; ``master`` is the dtype of its master copy, or empty. ``weight``: what is
    updated, if it is a part of the parameter."""
    tensor = builder.tensors[weight or parameter]
    state = [builder.state(f"{parameter}.master", tensor.shape, master)] if master else []
    dtype = "fp64" if tensor.dtype == "fp64" else "fp32"
    names = {1: ("momentum",), 2: ("first_moment", "second_moment")}.get(optimizer.moments, ())
    state += [builder.state(f"{parameter}.{name}", tensor.shape, dtype) for name in names]
    if optimizer.counts_steps:
        state.append(builder.state(f"{parameter}.step", (), "fp32"))
    settings = ("rate", "decay", "momentum", "betas", "epsilon", "decoupled")
    attrs = {name: getattr(optimizer, name) for name in settings}
    operands = (weight or parameter, gradient, *state, *((clip,) if clip else ()))
    layer = parameter.rpartition(".")[0] or parameter
    with builder.at(Phase.UPDATE, layer, parameter):
        return builder.emit_all(optimizer.kind, *operands, **attrs, master=bool(master), clipped=clip is not None)


def emit_clip(builder: GraphBuilder, gradients: list[str], max_norm: float) -> str:
    """Append the global norm of all gradients and the coefficient that scales them; return the coefficient."""
    if not 0 < max_norm < math.inf:
        raise OptionError("clip_norm", max_norm, "the largest norm must be finite and above 0")
    with builder.at(Phase.UPDATE, "clip"):
        squares = [builder.emit("square_sum", gradient) for gradient in gradients]
        return builder.emit("clip_coefficient", *squares, max_norm=max_norm)
