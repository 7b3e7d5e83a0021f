"""Fronts and hypervolumes of points whose figures are all better when smaller; pymoo does the work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def front(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions of the points (a row each) that no other point beats in everything, in order; of equals the first."""
    from pymoo.util.nds.non_dominated_sorting import find_non_dominated

    first = np.sort(np.unique(values, axis=0, return_index=True)[1])
    kept: NDArray[np.int64] = first[find_non_dominated(values[first])]
    return kept


def hypervolume(values: NDArray[np.float64], reference: Sequence[float]) -> float:
    """Volume that points dominate below a reference point."""
    from pymoo.indicators.hv import Hypervolume

    corner = np.asarray(reference, float)
    inside = values[(values < corner).all(axis=1)]
    return float(Hypervolume(ref_point=corner)(inside)) if len(inside) else 0.0
