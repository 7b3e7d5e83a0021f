"""Finalists: the best designs once more, with their fusion searched as ``monet fuse`` does instead of by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monet.request.evaluation import schedule_of
from monet.schedule.engine import Scheduler
from monet.schedule.planning.default_plan import FUSIONS
from monet.schedule.schedule import Schedule
from monet.search.fusion.search import FusionSettings, find_fusion
from monet.search.hardware.evaluation import evaluate_by
from monet.search.hardware.record import Record
from monet.search.hardware.workload import Workload
from monet.search.mining.mine import Bench, Mining

SEARCHED = "monet.search.mining.finalists:searched"
EFFORT = 1  # of the search for each design


@dataclass(frozen=True, slots=True)
class Finalist:
    """A design with its default plans and with searched ones."""

    record: Record
    searched: Record
    cost: float
    searched_cost: float

    @property
    def gain(self) -> float:
        """Share of its cost that searched fusion takes away."""
        return 1 - self.searched_cost / self.cost


def searched(space_text: str, values: Mapping[str, Any]) -> Record:
    """The record of a design whose fusion is searched. Runs in workers."""
    return evaluate_by(_schedule, space_text, values)


def _schedule(workload: Workload, scheduler: Scheduler) -> Schedule:
    default = schedule_of(workload, scheduler)
    if workload.fusion not in FUSIONS:
        return default
    settings = FusionSettings(workload.objective, effort=EFFORT)
    found = find_fusion(scheduler, settings, base=default.plan, manual=default.plan)  # no stacks to compare with
    return scheduler.schedule(found.plans["found"][0])


def finalists_of(found: Mining, store_path: str, count: int, jobs: int = 1) -> list[Finalist]:
    """The best designs with searched fusion, best by default plans first; kept in a store beside the other."""
    best = found.ranked[:count]
    if not best or found.interrupted:
        return []
    with Bench(found.space, f"{store_path}-fused", jobs, resume=True, function=SEARCHED).opened() as evaluate:
        records = evaluate([dict(record.values) for record in best])
    return [
        Finalist(record, again, found.cost(record), found.cost(again))
        for record, again in zip(best, records, strict=True)
        if again.ok
    ]


def with_finalists(found: Mining, finalists: Sequence[Finalist], seconds: float) -> Mining:
    """The search with the time that its finalists took in its own."""
    if not finalists:
        return found
    cpu = sum(each.searched.seconds for each in finalists)
    note = f"of it {seconds:.1f} s ({cpu:.1f} s of CPU) to search the fusion of {len(finalists)} of the best"
    return replace(
        found, seconds=found.seconds + seconds, cpu_seconds=found.cpu_seconds + cpu, notes=(note, *found.notes)
    )
