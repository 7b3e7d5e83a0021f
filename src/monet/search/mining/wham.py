"""WHAM's method in its own model: core counts that grow where critical operators wait, dimensions as a pruned tree.

For fixed dimensions (``counts_for``) a design starts with the fewest cores; the step is list-scheduled, and the kind of
core for which ready operators waited longest, weighted by how critical they are, gets more, as long as the metric gets
better and limits allow. Dimensions start at the largest and are halved one at a time; a branch that has not got better
for a few levels is closed. What the paper's code does is not published in full: the loop order is a
reconstruction from its abstract and the fields of the released classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from monet.errors import MonetError
from monet.hardware.power import full_use_power_w
from monet.schedule.workload import Workload
from monet.search.hardware.space import Space, Values
from monet.search.mining.criticality import TICKS_PER_S, best_listed, criticality, tasks_on
from monet.search.mining.exact_counts import exact_numbers
from monet.search.mining.metrics import Metric
from monet.search.mining.templates import Limits

HYSTERESIS = 2  # levels of the tree that may pass without getting better
SMALL_GRAPH = 60  # operators up to which numbers of cores are found exactly
EXACT_EFFORT = 0.2  # deterministic seconds of the solver for one choice of numbers
AREA_UNIT = 1e-10  # square metres, of whole numbers for the solver


@dataclass(frozen=True, slots=True)
class Modelled:
    """A design in WHAM's model."""

    values: Values
    cost: float
    area_m2: float
    steps_s: Mapping[str, float]
    critical_s: Mapping[str, float]  # longest paths: no number of cores is faster


@dataclass
class Wham:
    """The method on a space. ``visited`` counts the designs that were scheduled in its model."""

    space: Space
    workloads: Mapping[str, Workload]
    metric: Metric
    limits: Limits
    found: dict[str, Modelled] = field(default_factory=dict)
    visited: int = 0

    def __post_init__(self) -> None:
        counted = {name for path, names in self.space.set_by.items() if _counts(path) for name in names}
        names = [parameter.name for parameter in self.space.parameters]
        self.counts = tuple(name for name in names if name in counted)
        self.sizes = tuple(name for name in names if name not in counted)
        self.values = {parameter.name: parameter.values for parameter in self.space.parameters}
        for parameter in self.space.parameters:
            if parameter.is_continuous:
                raise MonetError(f"--method wham: {parameter.name} can take any number; give a step or values")

    def search(self) -> list[Modelled]:
        """Designs found, best first."""
        top = {name: len(self.values[name]) - 1 for name in self.sizes}
        seen: set[tuple[int, ...]] = set()
        waiting = [(math.inf, 0, top)]  # best of the way here, levels since it got better, dimensions
        while waiting:
            before, stale, sizes = waiting.pop()
            key = tuple(sizes.values())
            if key in seen:
                continue
            seen.add(key)
            here = self.counts_for({name: self.values[name][place] for name, place in sizes.items()})
            cost = here.cost if here else math.inf
            stale = 0 if cost < before or math.isinf(before) else stale + 1
            if stale > HYSTERESIS:
                continue
            for name in reversed(self.sizes):
                if sizes[name]:
                    waiting.append((min(before, cost), stale, sizes | {name: sizes[name] - 1}))
        return sorted(self.found.values(), key=lambda design: (design.cost, design.area_m2))

    # --- numbers of cores for fixed dimensions ----------------------------------------------------------------------

    def counts_for(self, sizes: Values) -> Modelled | None:
        """The best numbers of cores found for some dimensions; None if not even the fewest are within limits."""
        at = dict.fromkeys(self.counts, 0)
        best = self._modelled(sizes, at)
        if best is None:
            return None
        design, waited = best
        if len(self.workloads) == 1 and self._operators() <= SMALL_GRAPH:
            exact = self._exact(sizes, design)
            if exact is not None:
                return self._kept(exact)
        while True:
            for name in sorted(at, key=lambda name: -waited.get(name, 0.0)):
                if at[name] + 1 == len(self.values[name]) or not waited.get(name):
                    continue
                grown = self._modelled(sizes, at | {name: at[name] + 1})
                if grown and grown[0].cost < design.cost:
                    at[name] += 1
                    design, waited = grown
                    break
            else:
                return self._kept(design)

    def _operators(self) -> int:
        return sum(len(workload.operators) for workload in self.workloads.values())

    def _kept(self, design: Modelled) -> Modelled:
        self.found.setdefault(self.space.key(design.values), design)
        return design

    def _modelled(self, sizes: Values, at: Mapping[str, int]) -> tuple[Modelled, dict[str, float]] | None:
        """A design in the model, and by parameter how long operators waited for what it gives; None if over a limit."""
        values = sizes | {name: self.values[name][place] for name, place in at.items()}
        values = {parameter.name: values[parameter.name] for parameter in self.space.parameters}
        try:
            accelerator = self.space.hardware(values)
        except MonetError:
            return None
        tdp = full_use_power_w(accelerator)
        if self.limits.over(accelerator.area_m2 * 1e6, tdp):
            return None
        self.visited += 1
        steps, paths, waits = {}, {}, dict[str, float]()
        for name, workload in self.workloads.items():
            tasks, kinds, counts = tasks_on(workload, accelerator)
            critical, after = criticality(tasks), tasks.after()
            listed = best_listed(tasks, counts, critical, after)
            steps[name], paths[name] = listed.makespan / TICKS_PER_S, critical.length / TICKS_PER_S
            for kind, waited in zip(kinds, listed.waited.tolist(), strict=True):
                for parameter in self._grows(kind):
                    waits[parameter] = waits.get(parameter, 0.0) + waited
        seconds = np.array(list(steps.values()))
        cost = float(self.metric.cost(seconds, np.array(tdp), seconds * tdp))
        return Modelled(values, cost, accelerator.area_m2, steps, paths), waits

    def _grows(self, template: str) -> list[str]:
        """Parameters that give more cores of a kind."""
        paths = self.space.set_by.items()
        return [
            name for path, names in paths if path.startswith(f"cores.{template}.") and _counts(path) for name in names
        ]

    def _exact(self, sizes: Values, fewest: Modelled) -> Modelled | None:
        """Numbers of cores by CP-SAT, within the area that the fewest leave; as far as the metric is throughput."""
        if self.metric.name != "throughput" or self.limits.area_mm2 is None:
            return None
        if not all(self._grows(template) for template in self.space.base["cores"]):
            return None
        accelerator = self.space.hardware(fewest.values)
        tasks, kinds, counts = tasks_on(next(iter(self.workloads.values())), accelerator)
        choices = [[int(v) for v in self.values[self._grows(kind)[0]]] for kind in kinds]
        room = self.limits.area_mm2 * 1e-6 - accelerator.area_m2
        areas = [math.ceil(accelerator.designs[kind].area_m2 / AREA_UNIT) for kind in kinds]
        used = sum(area * count for area, count in zip(areas, counts, strict=True))
        found = exact_numbers(tasks, choices, areas, used + math.floor(room / AREA_UNIT), EXACT_EFFORT)
        if found is None:
            return None
        at = {}
        for kind, count in zip(kinds, found.counts, strict=True):
            name = self._grows(kind)[0]
            at[name] = self.values[name].index(count)
        made = self._modelled(sizes, {**dict.fromkeys(self.counts, 0), **at})
        return made[0] if made else None


def _counts(path: str) -> bool:
    return path.startswith("cores.") and (path.endswith(".count") or ".mesh" in path)
