"""What a step takes on a design by the clock of the planner: a far better guess than rooflines, without a schedule.

The planner chooses for every operator the kind of core that is done first with it, and the split over cores like it, by
what the longest piece takes with its best mapping and over the wires (``planning.designs``). The sum of that, operators
one after another, is within a tenth of what default plans take where rooflines are off by a factor of two and more:
pieces leave arrays empty, wait for weights, and drain sums.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from monet.errors import MonetError
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import default_store
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.engine import NoSchedule
from monet.schedule.lower_bound.occupancy import classes_of, occupancies
from monet.schedule.machine import Machine
from monet.schedule.planning.designs import seconds_alone
from monet.schedule.workload import Workload

CLOCKED = 0.9  # share of the roofline time whose operators are looked at, longest first; the rest is taken as it is


def clocked(workload: Workload, accelerator: Accelerator) -> tuple[float, dict[str, float]]:
    """Seconds of a step: operators one after another, each as the planner expects it to run; and the seconds in which
    each kind of core works."""
    classes = classes_of(workload)
    counts = Counter(instance.core for instance in accelerator.cores)
    seconds = np.min([occupancies(classes, core) / count for core, count in counts.items()], axis=0)
    seconds = np.where(np.isfinite(seconds), seconds, 0.0)
    taken = np.maximum(seconds, classes.moved_bytes / accelerator.dram.bandwidth_bytes_per_s) * classes.times
    table, total, left = CostTable(Machine(accelerator, default_store())), 0.0, float(taken.sum())
    working: dict[str, float] = dict.fromkeys((core.template for core in accelerator.cores), 0.0)
    for number in np.argsort(-taken, kind="stable").tolist():
        if left <= (1 - CLOCKED) * taken.sum():
            break
        left -= float(taken[number])
        try:
            alone, (first, *_) = seconds_alone(classes.operators[number], table)
        except (MonetError, NoSchedule):  # a schedule will say why
            total += float(taken[number])
            continue
        total += alone * float(classes.times[number])
        working[first.template] += alone * float(classes.times[number])
    return total + left, working
