"""How good designs look before they are scheduled: a guess, the planner's clock, and what others came out as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from monet.arrays import F64, I64, Bool
from monet.search.mining.surrogate import Designs, Errors, Spread

MOST_RANKED = 5_000  # designs that are ranked anew after every batch
IDLE = 0.01  # a kind of core that works for a smaller share of a step has no say in what it takes
OPTIMISM = 1.0  # deviations below its mean by which a design is ranked
# How far the guess is off, and the clock: chosen for the likelihood of 224 designs of `wham`, drawn at random and best
# guesses of all kinds, with BERT-base (batch 4 and 1), ResNet-18 and gpt2-mini. It is arrays that rooflines know little
# of: pieces leave them empty, wait for weights, drain sums. Lanes do what they can, and DRAM gives what it has.
OF_GUESS = Spread(everywhere=0.1, common=0.8, own=1.2, rest=0.1, noise=0.02, length=2.0)
OF_CLOCK = Spread(everywhere=0.1, common=0.1, own=0.1, rest=0.1, noise=0.04, length=2.0)
OF_ARRAY, OF_LANES, OF_DRAM = 1.0, 0.25, 0.1  # shares of these spreads


@dataclass
class Looks:
    """Costs of designs, by row: guessed for all, by the planner's clock for some, and evaluated.

    Designs that differ only in cores that get no work are alike (``kind``): one evaluated tells all about the others,
    and of those not evaluated the smallest stands for all. The clock is the same for all that have the same cores and
    the same guess (``cores``), whatever their memories hold.
    """

    designs: Designs
    doubt: F64  # by binder, share of the spreads
    guess: F64
    area_m2: F64
    clocked: list[int] = field(default_factory=list)  # designs that the clock was asked of
    evaluated: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_area = np.argsort(self.area_m2, kind="stable")
        self.delay = np.full(len(self.guess), np.nan)  # logarithm of (clock ÷ guess), where it is known
        working = self.designs.shares > IDLE
        self.kind, self.cores = self._kinds(slice(None), working), self._kinds(slice(None), working[:, :-1])
        self.designs = replace(self.designs, shares=self.designs.shares * self.doubt)

    def _kinds(self, rows: I64 | slice, working: Bool) -> I64:
        """A number for what of designs matters. ``working``: by design and binder, which of these do."""
        places, deciding = self.designs.places[rows].astype(np.int64), self.designs.deciding[: working.shape[1]]
        found = np.zeros(len(places), np.int64)
        for place, values in enumerate(self.designs.places.max(axis=0, initial=0).astype(int).tolist()):
            on = [number for number, columns in enumerate(deciding) if place in columns]
            found = found * (values + 2) + np.where(working[:, on].any(axis=1), places[:, place] + 1, 0)
        return found

    def clock(self, row: int, cost: float, working: Sequence[bool]) -> None:
        """Take in what the planner's clock says of a design, and which kinds of cores get work."""
        self.clocked.append(row)
        same = np.flatnonzero((self.cores == self.cores[row]) & (self.guess == self.guess[row]))
        self.delay[same] = np.log(cost / self.guess[row])
        at_work = np.broadcast_to(np.array([*working, True]), (len(same), len(working) + 1))
        self.kind[same], self.cores[same] = self._kinds(same, at_work), self._kinds(same, at_work[:, :-1])

    def ranked(self, rows: I64, expected: Sequence[int] = ()) -> I64:
        """The best looking of some designs, best first. ``expected``: taken as evaluated and as good as they look."""
        errors = self._errors()
        rows = self._different(rows, expected)
        if len(rows) > MOST_RANKED:
            roughly = np.log(self.guess[rows]) + self.designs.shares[rows] @ errors.in_common()
            near = rows[np.argsort(roughly, kind="stable")[:MOST_RANKED]]
            rows = np.union1d(near, rows[np.isfinite(self.delay[rows])])
        mean, deviation = errors.predicted(self.designs.some(rows))
        known = np.isfinite(self.delay[rows])
        mean, deviation = np.where(known, self.delay[rows], mean), np.where(known, 0.0, deviation)
        late, doubt = self._late(rows, expected)
        looks = np.log(self.guess[rows]) + mean + late - OPTIMISM * np.sqrt(deviation**2 + doubt**2)
        return rows[np.lexsort((rows, self.area_m2[rows], np.round(looks, 9)))]

    def _different(self, rows: I64, expected: Sequence[int]) -> I64:
        """Designs without those like one that was evaluated, or is about to be, or a smaller one of them; all, if no
        other is left."""
        some = np.zeros(len(self.guess), bool)
        some[rows] = True
        ordered = self.by_area[some[self.by_area]]
        _, first = np.unique(self.kind[ordered], return_index=True)
        found = ordered[first]
        known = self.kind[[*(row for row, cost in self.evaluated.items() if np.isfinite(cost)), *expected]]
        found = found[~np.isin(self.kind[found], known)]
        return np.sort(found) if len(found) else rows

    def _errors(self) -> Errors:
        """What the clock says of the guess, and evaluated designs whose clock is not known."""
        others = [row for row, cost in self.evaluated.items() if np.isfinite(cost) and np.isnan(self.delay[row])]
        delays = np.log([self.evaluated[row] / self.guess[row] for row in others]) if others else np.zeros(0)
        rows = np.array([*self.clocked, *others], np.int64)
        return Errors(self.designs.some(rows), np.append(self.delay[self.clocked], delays), OF_GUESS)

    def _late(self, rows: I64, expected: Sequence[int]) -> tuple[F64, F64]:
        """How much longer schedules of designs take than the clock says, and how sure that is."""
        both = [row for row, cost in self.evaluated.items() if np.isfinite(cost) and np.isfinite(self.delay[row])]
        known, costs = np.array(both, np.int64), np.array([self.evaluated[row] for row in both])
        errors = np.log(costs / self.guess[known]) - self.delay[known]
        if expected:
            more = np.array(expected, np.int64)
            so_far = Errors(self.designs.some(known), errors, OF_CLOCK)
            errors = np.append(errors, so_far.predicted(self.designs.some(more))[0])
            known = np.append(known, more)
        return Errors(self.designs.some(known), errors, OF_CLOCK).predicted(self.designs.some(rows))
