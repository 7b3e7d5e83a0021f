"""All designs of a template at once: area, power and latency that each takes at least, as arrays.

A part of a design (a kind of core, a shared memory) depends on few parameters, so each distinct part is resolved once
(``parts``); sums over parts are then arrays over all designs. A design that is over a limit by them is out for certain.
What is not out is looked at alone, exactly, when its turn comes (``bounds``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, F64x2, F64x3, I64x2
from monet.errors import MonetError
from monet.schedule.lower_bound.in_order import in_order_traffic
from monet.schedule.lower_bound.occupancy import classes_of, dearest, occupancies, priced
from monet.schedule.lower_bound.traffic import least_traffic
from monet.schedule.workload import Workload
from monet.search.hardware.space import Space, Values
from monet.search.mining.parts import CorePart, Group, Split

MOST_DESIGNS = 2_000_000


@dataclass(frozen=True)
class Candidates:
    """Designs within limits, a row each: their position in the space, and lower bounds of what they take."""

    space: Space
    total: int  # designs of the space
    choice: I64x2  # position of each parameter's value, by design and parameter
    area_m2: F64
    watts: F64
    latency_s: F64  # by workload and design: least
    by_dram: F64  # by workload and design: whether DRAM says so, not the cores
    energy_j: F64  # by workload and design: least, arithmetic left out
    estimate_s: F64  # by workload and design: every operator alone at its roofline, one after another; a guess
    shares: F64x3  # by workload, binder and design: what of that guess waits for each kind of core, last for DRAM;
    # an operator that waits for both counts for both, by their times
    deciding: tuple[tuple[int, ...], ...]  # by binder: places of the parameters that it depends on
    arrays: tuple[bool, ...]  # by kind of core: whether it has one

    def __len__(self) -> int:
        return len(self.area_m2)

    def values(self, row: int) -> Values:
        """The parameters of a design."""
        return {
            parameter.name: parameter.values[position]
            for parameter, position in zip(self.space.parameters, self.choice[row].tolist(), strict=True)
        }


def candidates(
    space: Space, workloads: Mapping[str, Workload], area_m2: float, watts: float, *, in_order: bool = True
) -> Candidates:
    """Every design of a finite space that may be within limits, with its bounds for the workloads: over their default
    plans, or over all plans if not ``in_order``."""
    space.require_finite()
    total = math.prod(len(parameter.values) for parameter in space.parameters)
    if total > MOST_DESIGNS:
        raise MonetError(
            f"{space.name}: {total:,} designs, more than the {MOST_DESIGNS:,} that are mined at once; give fewer values"
        )
    split = Split(space)
    rows: list[I64x2] = []
    priced: list[tuple[F64, F64]] = []
    times: list[tuple[F64, ...]] = []
    least = [_Least(workload, in_order) for workload in workloads.values()]
    for group in split.groups():
        area, power = group.area_m2, group.watts
        inside = np.flatnonzero((area <= area_m2 * (1 + 1e-12)) & (power <= watts * (1 + 1e-12)))
        if len(inside):
            kept = group.some(inside)
            rows.append(kept.choice)
            priced.append((area[inside], power[inside]))
            each = [found.times(kept) for found in least]
            times.append(tuple(np.array(found) for found in zip(*each, strict=True)))
    if not rows:
        empty = np.zeros(0)
        none = np.zeros((len(workloads), 0))
        choice = np.zeros((0, len(space.parameters)), np.int64)
        no_shares = np.zeros((len(workloads), len(split.binders), 0))
        return Candidates(
            space, total, choice, empty, empty, none, none, none, none, no_shares, split.binders, split.arrays
        )  # fmt: skip
    areas, powers = (np.concatenate(each) for each in zip(*priced, strict=True))
    lows, by_dram, joules, guesses, shares = (np.concatenate(each, axis=-1) for each in zip(*times, strict=True))
    return Candidates(
        space,
        total,
        np.concatenate(rows),
        areas,
        powers,
        lows,
        by_dram,
        joules,
        guesses,
        shares,
        split.binders,
        split.arrays,
    )


class _Least:
    """What a step of a workload takes at least on the designs of one group after another. What depends on the kinds of
    cores alone, or on what memories hold, is worked out once."""

    def __init__(self, workload: Workload, in_order: bool) -> None:
        self.workload, self.in_order = workload, in_order
        self.classes = classes_of(workload)
        self.by_core: dict[int, F64] = {}  # by part of a space
        self.by_cores: dict[tuple[int, ...], tuple[F64, F64]] = {}
        self.bytes: dict[tuple[frozenset[str], float], float] = {}

    def times(self, group: Group) -> tuple[F64, F64, F64, F64, F64x2]:
        """Least seconds of a step on every design of a group, whether it waits for DRAM in these, least joules, and a
        guess of its seconds: operators one after another, each over all cores of the kind that is done first, or as
        fast as DRAM gives what it reads and takes what it writes. Last, what share of the guess waits for each kind
        of core, and for DRAM."""
        counts = [count for count, _ in group.cores]
        seconds = [self._occupancies(part) for _, part in group.cores]
        kinds = tuple(id(part) for _, part in group.cores)
        if kinds not in self.by_cores:
            self.by_cores[kinds] = priced(self.classes.times, seconds)
        low = dearest(self.by_cores[kinds], counts)
        kept = group.chip.shared_bytes + sum(count * part.private_bytes for count, part in group.cores)
        rate = group.chip.dram_bytes_per_s
        moved = self._least_bytes(np.asarray(kept), group.chip.resident)
        guess, shares = self._guess(
            [each[None, :] / count[:, None] for each, count in zip(seconds, counts, strict=True)], rate
        )
        by_dram = moved / rate > low
        low = np.maximum(low, moved / rate)
        static = group.chip.static_w + sum(count * part.static_w for count, part in group.cores)
        return low, by_dram.astype(float), static * low + group.chip.moving_j_per_byte * moved, guess, shares

    def _guess(self, split: list[F64x2], rate: float) -> tuple[F64, F64x2]:
        """From seconds of every class over all cores of each kind, by design."""
        fastest, kind = np.min(split, axis=0), np.argmin(split, axis=0)
        fastest = np.where(np.isfinite(fastest), fastest, 0.0)
        waiting = np.broadcast_to(self.classes.moved_bytes[None, :] / rate, fastest.shape)
        taken = np.maximum(fastest, waiting) * self.classes.times
        guess = taken.sum(axis=1)
        on_cores = taken * fastest / np.maximum(fastest + waiting, 1e-300)
        shares = [(on_cores * (kind == each)).sum(axis=1) for each in range(len(split))]
        return guess, np.array([*shares, (taken - on_cores).sum(axis=1)]) / guess

    def _occupancies(self, part: CorePart) -> F64:
        if id(part) not in self.by_core:
            self.by_core[id(part)] = occupancies(self.classes, part.core)
        return self.by_core[id(part)]

    def _least_bytes(self, kept: F64, resident: frozenset[str]) -> F64:
        """Bytes between DRAM and memories of some sizes, at least."""
        sizes = kept.tolist()
        new = np.array([size for size in dict.fromkeys(sizes) if (resident, size) not in self.bytes])
        if len(new):
            traffic = least_traffic(self.workload, resident)
            moved = np.array([sum(traffic.over(int(size))) for size in new.tolist()], float)
            if self.in_order and not resident:
                moved = np.maximum(moved, in_order_traffic(self.workload).over(new))
            self.bytes |= {(resident, size): most for size, most in zip(new.tolist(), moved.tolist(), strict=True)}
        return np.array([self.bytes[resident, size] for size in sizes])
