"""gradient_error: how far the gradients of a step in narrow formats are from those of the same step in fp32."""

from __future__ import annotations

import math

import numpy as np

from monet.errors import MonetError
from monet.graph import Graph, Role
from monet.graph.counts import macs_of
from monet.numerics.executor import execute, random_values
from monet.numerics.learning import initial_values

MOST_STEP_MACS = 20e9  # of a step: a minute or so in NumPy


def check_executable(step: Graph) -> None:
    """An error for a step that NumPy would take too long for."""
    macs = sum(macs_of(step, op) for op in step.ops)
    if macs > MOST_STEP_MACS:
        raise MonetError(
            f"{step.name}: a step takes {macs / 1e9:,.0f} G multiply-accumulates, too many to execute in NumPy (at "
            f"most {MOST_STEP_MACS / 1e9:.0f} G); give a smaller model, batch or image"
        )


def gradient_error(step: Graph, reference: Graph, seed: int = 0) -> float:
    """‖g − r‖ / ‖r‖ over all gradients g of ``step`` and r of ``reference``, one step executed from the same weights as
    learning begins with, on the same random inputs. Every tensor is rounded to its own format."""
    for graph in (step, reference):
        if not graph.gradients:
            raise MonetError(f"{graph.name}: inference has no gradients, so there is no gradient error")
        check_executable(graph)
    inputs = {
        name: value
        for name, value in random_values(reference, seed).items()
        if reference.tensors[name].role in (Role.INPUT, Role.LABEL)
    }
    found = execute(step, initial_values(step, seed) | inputs, want=step.gradients.values(), compute=None)
    exact = execute(
        reference, initial_values(reference, seed) | inputs, want=reference.gradients.values(), compute=None
    )
    apart = whole = 0.0
    for parameter, name in reference.gradients.items():
        right = np.asarray(exact[name], np.float64)
        ours = np.asarray(found[step.gradients[parameter]], np.float64)
        apart += float(np.sum((ours - right) ** 2))
        whole += float(np.sum(right**2))
    return math.sqrt(apart / whole) if whole else 0.0
