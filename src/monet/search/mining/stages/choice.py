"""The global choice: one design for all stages of a pipeline, or one for each, among the best designs of every stage.

A choice is costed by the pipeline in time, messages included (``Pipeline.step``). For one design per stage, the fastest
design of each stage is tried, and for every period that a stage can have the design that keeps it with least power.
Layers are cut anew for the designs chosen. Every choice with one design is also one with a design for each stage, and
what fewer designs a stage allow is tried too, so neither is ever worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from monet.arrays import F64, F64x2
from monet.search.hardware.pipeline_stages import Pipeline, StageFigures, grown_to
from monet.search.hardware.record import Point, Record
from monet.search.mining.stages.cuts import best_cuts, by_length
from monet.search.mining.stages.problem import stage_bytes

MOST_RECUT = 6  # choices, best first, for which layers are cut anew
THRIFT = 0.01  # of throughput that a choice with less power may lose
ROUNDS = 3  # of cutting anew for the designs and choosing designs for the cuts

Cuts = tuple[int, ...]
Profile = Callable[[Record, Cuts], Sequence[StageFigures] | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """Designs by stage, where layers are cut, and what comes of it."""

    designs: tuple[Record, ...]
    cuts: Cuts
    seconds: float
    energy_j: float
    throughput: float  # samples per second
    area_mm2: float  # of all devices
    tdp_w: float  # of all devices
    cost: float  # what is made small
    stages: tuple[StageFigures, ...]
    bubble: tuple[float, ...]  # by stage, the share of the step in which it waits

    @property
    def perf_per_tdp(self) -> float:
        """Samples per second and watt at full use: samples per joule of that."""
        return self.throughput / self.tdp_w

    @property
    def homogeneous(self) -> bool:
        """Whether all stages have one design."""
        return all(each is self.designs[0] for each in self.designs)

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better: cost, then area."""
        return self.cost, self.area_mm2


@dataclass
class Chooser:
    """Costs choices of designs for the stages of a pipeline."""

    pipeline: Pipeline
    profile: Profile  # figures of all stages on a design at some cuts
    metric: str
    capacity: float  # bytes of a device's DRAM
    floor: float = 0.0
    known: dict[tuple[tuple[Point, ...], Cuts], Choice | None] = field(default_factory=dict)
    fits: dict[Cuts, bool] = field(default_factory=dict)
    tables: dict[tuple[Point, int], F64x2] = field(default_factory=dict)
    tried: int = 0

    def choice(self, designs: Sequence[Record], cuts: Cuts) -> Choice | None:
        """A choice costed; None if a stage does not fit memory, or throughput is below the floor."""
        key = tuple(record.point for record in designs), cuts
        if key not in self.known:
            self.known[key] = self._choice(tuple(designs), cuts) if self._fits(cuts) else None
        return self.known[key]

    def _fits(self, cuts: Cuts) -> bool:
        if cuts not in self.fits:
            self.fits[cuts] = max(stage_bytes(self.pipeline, self.pipeline.spans(cuts))) <= self.capacity
        return self.fits[cuts]

    def _choice(self, designs: tuple[Record, ...], cuts: Cuts) -> Choice | None:
        profiles = [self.profile(record, cuts) for record in designs]
        if any(each is None for each in profiles):
            return None
        self.tried += 1
        stages = tuple(each[number] for number, each in enumerate(profiles) if each is not None)
        step = self.pipeline.step(stages, [record.metrics["static_power_w"] for record in designs])
        per_stage = self.pipeline.per_stage
        area = per_stage * sum(record.metrics["area_mm2"] for record in designs)
        tdp = per_stage * sum(record.metrics["full_use_power_w"] for record in designs)
        rate = self.pipeline.batch / step.seconds
        if rate < self.floor:
            return None
        factor = {"throughput": 1.0, "throughput-per-tdp": tdp, "edp": step.energy_j}[self.metric]
        bubble = tuple((step.times.bubble / step.seconds).tolist())
        return Choice(
            designs, cuts, step.seconds, step.energy_j, rate, area, tdp, step.seconds * factor, stages, bubble
        )

    # --- choosing ---------------------------------------------------------------------------------------------------

    def homogeneous(self, records: Sequence[Record], cuts: Cuts) -> list[Choice]:
        """Every design in all stages; the best of them also with layers cut anew."""
        return self._costed(((record,) * self.pipeline.plan.pipeline for record in records), cuts)

    def heterogeneous(self, records: Sequence[Record], cuts: Cuts) -> list[Choice]:
        """Designs by stage: fastest ones, and those that keep a period with least power; then for the cuts that are
        best for them."""
        found: list[Choice] = []
        for _ in range(ROUNDS if self.pipeline.coster.repeats else 1):
            found += self._costed(self._assignments(records, cuts), cuts)
            if not found:
                break
            found.append(self._improved(min(found, key=_rank), records))
            if found[-1].cuts == cuts:
                break
            cuts = found[-1].cuts
        return found

    def _improved(self, best: Choice, records: Sequence[Record]) -> Choice:
        """A choice with other designs for all stages of a kind, as long as it gets better."""
        kinds = self.pipeline.kinds
        while True:
            moves = (
                tuple(record if own == kind else design for own, design in zip(kinds, best.designs, strict=True))
                for kind in sorted(set(kinds))
                for record in records
            )
            found = [choice for designs in moves if (choice := self.choice(designs, best.cuts))]
            better = min(found, key=_rank, default=best)
            if better.rank >= best.rank:
                return best
            best = better

    def _costed(self, assignments: Iterable[tuple[Record, ...]], cuts: Cuts) -> list[Choice]:
        """Choices at the given cuts; of the best also at the cuts that are best for them."""
        found = [choice for designs in assignments if (choice := self.choice(designs, cuts))]
        found.sort(key=_rank)
        again = []
        for choice in found[:MOST_RECUT]:
            other = best_cuts(self._tables(choice.designs, cuts))
            if other is not None and other != cuts and (moved := self.choice(choice.designs, other)):
                again.append(moved)
        return found + again

    def _assignments(self, records: Sequence[Record], cuts: Cuts) -> Iterable[tuple[Record, ...]]:
        """Designs by stage worth costing at some cuts."""
        usable = [record for record in records if self.profile(record, cuts) is not None]
        if not usable:
            return
        seconds = np.array([self._seconds(record, cuts) for record in usable])  # by design and stage
        power = np.array([record.metrics["full_use_power_w"] for record in usable])
        area = np.array([record.metrics["area_mm2"] for record in usable])
        fastest = seconds.min(axis=0)
        thrifty = np.lexsort((area, power))
        for period in [*sorted({float(value) for value in seconds.ravel() if value >= fastest.max()}), 0.0]:
            chosen = []
            for stage in range(seconds.shape[1]):
                able = [number for number in thrifty.tolist() if seconds[number, stage] <= period]
                quick = np.lexsort((area, seconds[:, stage]))[0]
                chosen.append(usable[able[0] if able else int(quick)])
            yield tuple(chosen)

    def _seconds(self, record: Record, cuts: Cuts) -> F64:
        profile = self.profile(record, cuts)
        assert profile is not None
        return np.array([stage.seconds(self.pipeline.micro_batches) for stage in profile])

    def thrifty(self, best: Choice) -> Choice:
        """Of all choices costed that are as fast as the best but for a share, the one with least power at full use."""
        found = [each for each in self.known.values() if each and each.throughput >= (1 - THRIFT) * best.throughput]
        return min(found, key=lambda choice: (choice.tdp_w, choice.seconds))

    # --- cutting anew -----------------------------------------------------------------------------------------------

    def _tables(self, designs: tuple[Record, ...], cuts: Cuts) -> list[F64x2]:
        """By stage, seconds of a micro-batch for any layers on its design; infinite where memory is short."""
        found = []
        for stage, record in enumerate(designs):
            table = self._table(record, stage, cuts)
            found.append(np.where(self._room[stage][: len(table), : len(table)], table, np.inf))
        return found

    def _table(self, record: Record, stage: int, cuts: Cuts) -> F64x2:
        pipeline = self.pipeline
        if not pipeline.coster.repeats:
            return self._estimated(record, cuts)
        kind = pipeline.kinds[stage]
        key = record.point, kind
        if key not in self.tables:
            costed, passes = costed_stages(record.metrics, kind), pipeline.micro_batches
            lengths = [grown_to(costed, count).seconds(passes) for count in range(1, pipeline.layers + 1)]
            self.tables[key] = by_length(lengths)
        return self.tables[key]

    def _estimated(self, record: Record, cuts: Cuts) -> F64x2:
        """Seconds of any layers on a design: of each stage its time, shared among its layers by their work."""
        each = np.zeros(self.pipeline.layers)
        for seconds, span in zip(self._seconds(record, cuts), self.pipeline.spans(cuts), strict=True):
            work = np.array(self._work[span.start : span.stop])
            each[span.start : span.stop] = seconds * work / work.sum()
        sums = np.concatenate(([0.0], np.cumsum(each)))
        return np.asarray(sums[None, :] - sums[:, None])

    @cached_property
    def _work(self) -> tuple[float, ...]:
        """Multiply-accumulates of each layer, one at least."""
        return self.pipeline.coster.block_work()

    @cached_property
    def _room(self) -> list[F64x2]:
        """By stage: whether layers from i up to j fit its memory; where layers are unlike, that is seen when costed."""
        pipeline, layers = self.pipeline, self.pipeline.layers
        stages = pipeline.plan.pipeline
        if not pipeline.coster.repeats:
            return [np.ones((layers + 1, layers + 1))] * stages
        room = np.array([self._fit_lengths(count) for count in range(1, layers + 1)])  # by length and stage
        return [np.where(np.isfinite(by_length(np.where(room[:, stage], 1.0, np.inf).tolist())), 1.0, 0.0)
                for stage in range(stages)]  # fmt: skip

    def _fit_lengths(self, count: int) -> list[bool]:
        spans = [range(count)] * self.pipeline.plan.pipeline
        return [size <= self.capacity for size in stage_bytes(self.pipeline, spans)]


def _rank(choice: Choice) -> tuple[float, float]:
    return choice.rank


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best choices: one design for all stages, one for each, and as fast as that but for a hundredth with least
    power; throughput of the first two by how many designs of every stage were kept."""

    homogeneous: Choice | None
    heterogeneous: Choice | None
    thrifty: Choice | None
    by_top: tuple[tuple[float, float], ...]

    def only(self, names: Sequence[str]) -> Chosen:
        """With some of the choices."""
        kept = [getattr(self, name) if name in names else None for name in ("homogeneous", "heterogeneous", "thrifty")]
        return Chosen(kept[0], kept[1], kept[2], self.by_top)


def choose(chooser: Chooser, tops: Sequence[Sequence[Record]], top: int) -> Chosen:
    """The best choices among the ``top`` designs of every kind of stage. What fewer designs allow is tried too, so that
    more are never worse; what all stages may have, each may have."""
    one: Choice | None = None
    each: Choice | None = None
    by_top, cuts = [], chooser.pipeline.cuts
    for count in range(1, top + 1):
        pool = list({record.point: record for kind in tops for record in kind[:count]}.values())
        alike = chooser.homogeneous(pool, cuts)
        one = _better(one, alike)
        each = _better(each, [*alike, *chooser.heterogeneous(pool, cuts)])
        by_top.append((one.throughput if one else 0.0, each.throughput if each else 0.0))
    return Chosen(one, each, chooser.thrifty(each) if each else None, tuple(by_top))


def _better(best: Choice | None, others: Sequence[Choice]) -> Choice | None:
    return min([*([best] if best else []), *others], key=_rank, default=None)


def costed_stages(metrics: Mapping[str, float], kind: int) -> tuple[StageFigures, ...]:
    """What a record has of a kind of stage: itself, or two short ones."""
    names = [name for name in (f"stage{kind}.0", f"stage{kind}.1") if f"{name}.blocks" in metrics]
    return tuple(StageFigures.from_metrics(metrics, name) for name in names)
