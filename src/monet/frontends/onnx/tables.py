"""Tables among stored values: masks, progressions, sines and cosines, and what was looked up in a trained table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monet.frontends.onnx.folding import Array

_FILLED = -1e4
_REPEATED = 2  # times that rows must occur on average to have been looked up


@dataclass(frozen=True, slots=True)
class LookedUp:
    """An array that repeats the rows of a table: ``rows`` (distinct, width), and which of them stands at each of the
    ``positions``; ``axis`` is where the width lies in the array."""

    rows: Array
    positions: Array
    axis: int


def looked_up(array: Array) -> LookedUp | None:
    """The table that ``array`` was looked up in, if along some axis its vectors repeat; None if they do not.

    Rows that were never looked up are not in the array, and not in the table that is found.
    """
    found: LookedUp | None = None
    for axis, width in enumerate(array.shape):
        others = array.size // width
        if width < 2:
            continue
        vectors = np.moveaxis(array, axis, -1).reshape(others, width)
        mixed = np.asarray(vectors, np.float64) @ np.random.default_rng(0).random(width)  # a number for every vector
        _, first, positions = np.unique(mixed, return_index=True, return_inverse=True)
        rows = vectors[first]
        if len(rows) * _REPEATED > others or (found is not None and rows.size >= found.rows.size):
            continue
        shape = tuple(size for other, size in enumerate(array.shape) if other != axis)
        found = LookedUp(rows, positions.reshape(shape), axis)
    return found


def is_table(array: Array, looked_up: bool = False) -> bool:
    """Whether values are a mask, a progression, or sines and cosines, which no weight starts as."""
    values = np.asarray(array, np.float64)
    if not np.isfinite(values).all() or values.min() <= _FILLED:
        return True
    if (values == values.flat[0]).all():
        return False
    flat = values.ravel()
    if np.isin(flat, (0.0, 1.0)).all():
        return True
    if flat.size >= 3 and np.squeeze(values).ndim == 1 and _is_progression(flat):
        return True
    return _is_sinusoid(np.squeeze(values), looked_up)


def _is_progression(flat: Array) -> bool:
    steps = np.diff(flat)
    if np.allclose(steps, steps[0], rtol=1e-4, atol=0):
        return True
    return bool((flat > 0).all() and np.allclose(flat[1:] / flat[:-1], flat[1] / flat[0], rtol=1e-4, atol=0))


def _is_sinusoid(values: Array, looked_up: bool) -> bool:
    """Row 0 is position 0: sines 0, cosines 1; row 1 starts with sin 1 or cos 1."""
    if values.ndim != 2 or values.shape[0] < 2 or np.abs(values).max() > 1.0001:
        return False
    first = values[0]
    if not np.isin(first, (0.0, 1.0)).all():
        return False
    start = values[1, 0]
    return bool(np.isclose(start, np.sin(1.0), atol=1e-3) or np.isclose(start, np.cos(1.0), atol=1e-3)) or (
        not looked_up and bool((first == 1).all())
    )
