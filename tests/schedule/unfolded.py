"""A schedule of cores that work together with every core on its own: its own clock, its own wires, its own piece and
what that takes by itself; only what all of them do together is one booking that ends for all. Plain Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monet.schedule.engine import Scheduler
from monet.schedule.expansion.expand import PlannedSteps
from monet.schedule.expansion.operator_arrays import tick_parts
from monet.schedule.schedule import Schedule
from monet.schedule.simulation import records as d

Bar = tuple[int, int, int]  # start, end, operator


@dataclass
class Unfolded:
    """The nodes of a folded schedule, in their order, replayed with all cores."""

    scheduler: Scheduler
    schedule: Schedule

    def __post_init__(self) -> None:
        self.machine = self.scheduler.machine
        self.free: dict[tuple[int, str], int] = {}  # by resource, and the core of a cluster that has one of its own
        self.start: list[int] = []
        self.end: list[int] = []
        self.bars: dict[str, list[Bar]] = {core.name: [] for core in self.machine.accelerator.cores}
        self.steps = {
            stepped.base + tile: (stepped, tile)
            for stepped in self.schedule.expanded.operators
            for tile in range(stepped.steps.tiles + self._additions(stepped))
        }

    @staticmethod
    def _additions(stepped: PlannedSteps) -> int:
        adding = stepped.addition_costs
        return len(adding) // max(1, len({piece for piece, _ in adding}))

    def run(self) -> Unfolded:
        """Time every node."""
        nodes, deps, bookings = self.schedule.decided.events
        for row in nodes:
            waits = deps[row["dep_start"] : row["dep_end"]]
            books = bookings[row["book_start"] : row["book_end"]]
            places = [(self._owned(int(one["resource"])), int(one["ticks"])) for one in books]
            ready = [self.end[one["node"]] + int(one["lag"]) for one in waits]
            ready += [self.free.get(one, 0) for mine, _ in places for one in mine]
            start = max([0, *ready])
            taken = self._pieces(row, start) if row["kind"] == d.COMPUTE else {}
            for mine, ticks in places:
                for one in mine:  # of a gang all are done when the last is
                    self.free[one] = start + (max(taken.values(), default=ticks) if one[1] in taken else ticks)
            lasts = [ticks for _, ticks in places]
            if taken:
                lasts = [
                    max(taken.values()),
                    *(ticks for mine, ticks in places if mine[0][0] >= len(self.machine.cores)),
                ]
            self.start.append(start)
            self.end.append(start + max([0, *lasts]) + int(row["latency"]))
        return self

    def _owned(self, resource: int) -> list[tuple[int, str]]:
        """What a booking takes: the only one there is, or that of every core."""
        if self.machine.spread[resource] == 1:
            return [(resource, "")]
        many = int(self.machine.spread[resource])
        (cluster,) = (each for each in self.machine.clusters if len(each.cores) == many and self._has(each, resource))
        return [(resource, core.name) for core in cluster.cores]

    def _has(self, cluster, resource: int) -> bool:
        if resource < len(self.machine.cores):
            return self.machine.cores[resource].name == cluster.first.name
        return True

    def _pieces(self, row, start: int) -> dict[str, int]:
        """Ticks that each core takes for its own piece, by itself; their bars are noted."""
        step = int(row["step"])
        core = self.machine.cores[int(self.schedule.expanded.tables.steps.core[step])]
        ticks = int(self.schedule.expanded.tables.steps.ticks[step])
        if core.name not in self.machine.cluster_of:
            if core.name in self.bars and ticks:
                self.bars[core.name].append((start, start + ticks, int(row["operator"])))
            return {}
        taken = self._alone(*self.steps[step], step, ticks)
        for name, own in taken.items():
            if own:
                self.bars[name].append((start, start + own, int(row["operator"])))
        return taken

    def _alone(self, stepped: PlannedSteps, tile: int, step: int, ticks: int) -> dict[str, int]:
        cores, pieces = stepped.placement.cores, stepped.steps.pieces
        if tile >= stepped.steps.tiles:  # sums are added up in equal parts
            many = len({piece for piece, _ in stepped.addition_costs})
            first = (tile - stepped.steps.tiles) * many
            return {cores[piece]: ticks for piece, _ in stepped.addition_costs[first : first + many]}
        each = [self._parts(stepped, tile * pieces + piece, cores[piece]) for piece in range(pieces)]
        longest = max(each, key=lambda parts: int(parts.sum()))
        more = int(self.schedule.expanded.parts.plain[step][3] - longest[3])  # what the gang pays to be set up
        return {
            core: int(parts[:3].sum()) + max(0, int(parts[3]) + more) if parts.sum() else 0
            for core, parts in zip(cores, each, strict=True)
        }

    def _parts(self, stepped: PlannedSteps, number: int, core: str) -> np.ndarray:
        """Ticks by use of a step, asked for this core alone; none if it has nothing to do."""
        ranges = stepped.steps.ranges.values()
        if any(high[number] <= low[number] for low, high in ranges):
            return np.zeros(4, np.int64)
        plan, table, instance = self.schedule.plan, self.scheduler.costs, self.machine.accelerator.instance(core)
        goal = table.goal_of(stepped.operator, plan, stepped.held)
        cost = table.cost(stepped.operator, stepped.steps, number, instance, stepped.held, plan.share, goal)
        return tick_parts([cost], instance, self.machine)[0]
