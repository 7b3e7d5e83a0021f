"""Which designs look promising: how far evaluated ones came out from a guess, carried over to designs like them.

A Gaussian process on the logarithm of (cost ÷ guess). A guess is off for a reason, and the reason is in what a step
waits for: arrays that pieces do not fill, lanes, DRAM. So the error of a design is the sum, over what binds it, of the
share of the guess that waits for that times an error of its own: one part that all designs have in common, and one
that depends on the parameters of what binds (``Designs``). Designs that wait for something else keep their guess. It
only orders what is evaluated next; what is never evaluated is cut by a bound, not by this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, I64, F64x2

LENGTH = 3.0  # positions of a parameter over which designs are alike
NOISE = 0.02  # spread of a cost beside what parameters explain: plans jump
SPREAD = 0.35  # of guesses before anything is known


@dataclass(frozen=True, slots=True)
class Spread:
    """How far off a guess may be, as the standard deviation of the logarithm of (cost ÷ guess)."""

    everywhere: float  # in common to all designs
    common: float  # to all that are bound by the same thing
    own: float  # by the parameters of what binds
    rest: float  # by all parameters together
    noise: float  # by nothing that is known: plans jump
    length: float  # positions of a parameter over which designs are alike


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


def _alike(one: F64x2, other: F64x2, length: float = LENGTH) -> F64x2:
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2 * one @ other.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / (2 * length**2)))


@dataclass(frozen=True)
class Designs:
    """Designs by row: positions of their parameters, the share of the guess that waits for each thing, and which
    parameters each of these depends on."""

    places: F64x2
    shares: F64x2  # by design and binder
    deciding: tuple[tuple[int, ...], ...]

    def some(self, rows: I64) -> Designs:
        """Some of them."""
        return Designs(self.places[rows], self.shares[rows], self.deciding)

    def covariance(self, other: Designs, spread: Spread) -> F64x2:
        """How much the errors of these and others have in common."""
        found = spread.everywhere**2 + spread.rest**2 * _alike(self.places, other.places, spread.length)
        for number, columns in enumerate(self.deciding):
            alike = _alike(self.places[:, columns], other.places[:, columns], spread.length) if columns else 0.0
            both = self.shares[:, number, None] * other.shares[None, :, number]
            found += both * (spread.common**2 + spread.own**2 * alike)
        return found

    def variance(self, spread: Spread) -> F64:
        """Of the error of each, before anything is known."""
        each = [spread.common**2 + (spread.own**2 if columns else 0.0) for columns in self.deciding]
        return np.asarray(spread.everywhere**2 + spread.rest**2 + self.shares**2 @ np.array(each))


class Errors:
    """Errors of the guess of designs, as far as those of known ones say."""

    def __init__(self, known: Designs, errors: F64, spread: Spread) -> None:
        self.known, self.errors, self.spread = known, errors, spread
        self.kernel = known.covariance(known, spread) + spread.noise**2 * np.eye(len(errors))

    def in_common(self) -> F64:
        """The error of each binder that all designs share."""
        weights = np.linalg.solve(self.kernel, self.errors) if len(self.errors) else self.errors
        return np.asarray(self.spread.common**2 * (weights @ self.known.shares))

    def predicted(self, asked: Designs) -> tuple[F64, F64]:
        """Mean and deviation of the error of each."""
        variance = asked.variance(self.spread)
        if not len(self.errors):
            return np.zeros(len(variance)), np.sqrt(variance)
        across = asked.covariance(self.known, self.spread)
        solved = np.linalg.solve(self.kernel, np.concatenate((self.errors[:, None], across.T), axis=1))
        variance -= np.einsum("ij,ji->i", across, solved[:, 1:])
        return across @ solved[:, 0], np.sqrt(np.maximum(variance, 0.0))
