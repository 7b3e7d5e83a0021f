"""Which designs look promising: how far evaluated ones came out from a guess, carried over to designs like them.

A Gaussian process on the logarithm of (cost ÷ guess) over the positions of a design's parameters. It only orders what
is evaluated next; what is never evaluated is cut by a bound, not by this.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from monet.arrays import F64, F64x2

LENGTH = 3.0  # positions of a parameter over which designs are alike
NOISE = 0.02  # spread of a cost beside what parameters explain: plans jump
SPREAD = 0.35  # of guesses before anything is known
Features = Annotated[NDArray[np.float64], 2]


def predicted(known: F64x2, residuals: F64, asked: F64x2) -> tuple[F64, F64]:
    """Mean and deviation of the residual of designs, given those of evaluated ones; features by row."""
    if not len(residuals):
        return np.zeros(len(asked)), np.full(len(asked), SPREAD)
    mean = float(residuals.mean())
    spread = max(SPREAD / 3, float(residuals.std()))
    kernel = spread**2 * _alike(known, known) + (NOISE**2 + 1e-9) * np.eye(len(known))
    across = spread**2 * _alike(asked, known)
    solved = np.linalg.solve(kernel, np.concatenate(((residuals - mean)[:, None], across.T), axis=1))
    variance = spread**2 - np.einsum("ij,ji->i", across, solved[:, 1:])
    return mean + across @ solved[:, 0], np.sqrt(np.maximum(variance, 0.0))


def _alike(one: F64x2, other: F64x2) -> F64x2:
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2 * one @ other.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / (2 * LENGTH**2)))
