"""Seconds that a program takes at least on a device, whatever its plan: what its operators take of the cores, what its
collectives take of a port, and the longest row of collectives that wait for each other with the work in between.

A collective begins when its input is there and is done as a whole. What follows from one and leads to the next runs
between them, so the time between is no less than what those operators take of all cores (``lower_bound/occupancy.py``).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from monet.arrays import F64, Bool
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import CostStore
from monet.schedule.lower_bound.occupancy import classes_of, least_seconds, occupancies
from monet.schedule.workload import Workload

ROUNDED = 1 - 1e-6  # collectives are booked in whole ticks


def least_pass_seconds(workload: Workload, device: Accelerator, store: CostStore) -> float:
    """What no schedule of a program whose collectives say their seconds is below."""
    counts = Counter(instance.core for instance in device.cores)
    classes = classes_of(workload)
    computes = np.array([not operator.is_transfer for operator in classes.operators])
    by_design = [np.where(computes, occupancies(classes, core, store), 0.0) for core in counts]
    work = float(least_seconds(classes.times, by_design, [np.array(float(count)) for count in counts.values()]))
    place = {operator.key: number for number, operator in enumerate(classes.operators)}
    least = np.min(by_design, axis=0) / sum(counts.values())
    own: F64 = np.array([least[place[operator.key]] for operator in workload.operators])
    row = _longest_row(workload, np.where(np.isfinite(own), own, 0.0))
    return ROUNDED * max(work, row, _busiest_port(workload))


def _busiest_port(workload: Workload) -> float:
    """Collectives over one port go one after the other."""
    busy: Counter[str] = Counter()
    for operator in workload.operators:
        if operator.is_transfer:
            busy[str(operator.op.attrs.get("endpoint"))] += operator.op.attrs.get("seconds", 0.0)
    return float(max(busy.values(), default=0.0))


def _longest_row(workload: Workload, own: F64) -> float:
    """Collectives one after the other, and between them what follows from one and leads to the next."""
    sent = [float(operator.op.attrs.get("seconds", 0.0)) for operator in workload.operators]
    before = _before(workload)
    done: dict[int, float] = {}
    longest = 0.0
    for number in [*(number for number, seconds in enumerate(sent) if seconds), -1]:  # and last the end of all
        leads = before[number] if number >= 0 else np.ones(len(sent), np.bool_)
        began = float(own[leads].sum()) if number >= 0 else 0.0
        for earlier, ended in done.items():
            if leads[earlier]:
                began = max(began, ended + float(own[leads & before[:, earlier]].sum()))
        if number >= 0:
            done[number] = began + sent[number]
        longest = max(longest, began)
    return longest


def _before(workload: Workload) -> Bool:
    """By operator: which ones it waits for, over any number of others."""
    count = len(workload.operators)
    found: Bool = np.zeros((count, count), np.bool_)
    for earlier, later in sorted(workload.dependencies, key=lambda pair: pair[1]):
        found[later] |= found[earlier]
        found[later, earlier] = True
    return found
