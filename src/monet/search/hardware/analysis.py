"""What the points of an exploration say: which parameters matter, and how far the fronts of two objectives agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.search.hardware.exploration import objective_values, pareto
from monet.search.hardware.objectives import Objective, parse_objective
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space
from monet.search.pareto import hypervolume

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Importance:
    """Share of the variance of a figure's logarithm that a parameter explains: alone (``main``), and with everything it
    interacts with (``total``; only known where the whole space was evaluated)."""

    parameter: str
    main: float
    total: float | None


def importance(space: Space, records: Sequence[Record], objective: Objective) -> list[Importance]:
    """Importance of every parameter for an objective, in the order of the space.

    Main effects are ω², which corrects the share between levels for what chance puts there in a sample. On a full grid
    these are Sobol's first-order and total indices.
    """
    feasible = [record for record in records if record.ok]
    if len(feasible) < 2:
        return [Importance(parameter.name, 0.0, None) for parameter in space.parameters]
    values = np.log(np.maximum(objective_values(space, feasible, [objective])[:, 0], 1e-300))
    whole = space.size is not None and len(feasible) == space.size
    found = []
    for parameter in space.parameters:
        level = _levels([record.values[parameter.name] for record in feasible], parameter.is_continuous)
        total = None
        if whole:
            others = [other.name for other in space.parameters if other.name != parameter.name]
            rest = _levels([tuple(record.values[name] for name in others) for record in feasible], False)
            total = 1.0 - _between(values, rest) if values.var() > 0 else 0.0
        found.append(Importance(parameter.name, _omega_squared(values, level), total))
    return found


def _levels(values: Sequence[Any], continuous: bool) -> Array:
    """The level of every value: itself, or its decile where values are continuous."""
    if continuous:
        ranks = np.argsort(np.argsort(np.array(values, float), kind="stable"), kind="stable")
        return np.asarray(ranks * 10 // len(ranks))
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values])


def _between(values: Array, level: Array) -> float:
    """Share of the variance that lies between the means of levels."""
    counts = np.bincount(level)
    averages = np.bincount(level, values) / counts
    return float((counts * (averages - values.mean()) ** 2).sum() / (values.var() * len(values)))


def _omega_squared(values: Array, level: Array) -> float:
    levels, count, variance = int(level.max()) + 1, len(values), float(values.var())
    if variance == 0.0 or levels < 2 or count <= levels:
        return 0.0
    between = _between(values, level)
    within = (1.0 - between) / (count - levels)
    return max(0.0, (between - (levels - 1) * within) / (1.0 + within))


# --- inference against training ---------------------------------------------------------------------------------------


def scopes(space: Space) -> list[str]:
    """What fronts are drawn for: modes where there are several, else workloads."""
    modes: list[str] = list(dict.fromkeys(workload.mode for workload in space.workloads.values()))
    return modes if len(modes) > 1 else list(space.workloads)


def objectives_of(space: Space, scope: str, names: Sequence[str] = ("latency", "energy")) -> list[Objective]:
    """Objectives of one mode or workload."""
    modes = {name: workload.mode for name, workload in space.workloads.items()}
    return [parse_objective(f"{scope}.{name}", modes) for name in names]


@dataclass(frozen=True)
class Overlap:
    """Two fronts side by side. ``share`` is the part of their union that lies on both."""

    first: str
    second: str
    first_size: int
    second_size: int
    common: int
    hypervolume_ratio: float  # of the first front's designs, judged as the second is: 1 if nothing is lost

    @property
    def share(self) -> float:
        """Designs on both fronts over designs on either."""
        union = self.first_size + self.second_size - self.common
        return self.common / union if union else 0.0


def overlap(space: Space, records: Sequence[Record], first: str, second: str) -> Overlap:
    """How much the latency-energy fronts of two modes or workloads have in common."""
    feasible = [record for record in records if record.ok]
    fronts = {name: pareto(space, feasible, objectives_of(space, name)) for name in (first, second)}
    designs, others = ({space.key(record.values) for record in front} for front in fronts.values())
    goal = objectives_of(space, second)
    reference = reference_point(objective_values(space, feasible, goal)) if feasible else []
    volumes = [hypervolume(objective_values(space, fronts[name], goal), reference) for name in (first, second)]
    ratio = volumes[0] / volumes[1] if volumes[1] else 1.0
    return Overlap(first, second, len(designs), len(others), len(designs & others), ratio)


@dataclass(frozen=True)
class Choice:
    """The best design for one figure, and what it costs to use it where another one would be best."""

    figure: str
    best_for: str
    used_for: str
    design: Record
    best: Record
    penalty: float  # value with ``design`` over value with ``best``, for ``used_for``


def choices(space: Space, records: Sequence[Record], names: Sequence[str]) -> list[Choice]:
    """For every figure and pair of scopes: the best design of one, used for the other."""
    feasible = [record for record in records if record.ok]
    found = []
    for name in names:
        goals = {scope: objectives_of(space, scope, [name])[0] for scope in scopes(space)}
        values = {scope: objective_values(space, feasible, [goal])[:, 0] for scope, goal in goals.items()}
        best = {scope: int(np.argmin(each)) for scope, each in values.items()}
        for scope in goals:
            for other in goals:
                if scope != other:
                    ratio = float(values[other][best[scope]] / values[other][best[other]])
                    found.append(Choice(name, scope, other, feasible[best[scope]], feasible[best[other]], ratio))
    return found


def reference_point(values: Array) -> list[float]:
    """Where hypervolumes are measured from: just beyond the worst value of every objective."""
    return [float(worst) * 1.001 for worst in values.max(axis=0)]


def reasons(records: Sequence[Record]) -> list[tuple[str, int]]:
    """Why points have no figures: each kind of reason with how often it occurs, most frequent first."""
    kinds: Counter[str] = Counter()
    for record in records:
        if not record.ok:
            kinds[f"{record.status}: {record.reason.partition(' (')[0][:120]}"] += 1
    return kinds.most_common()
