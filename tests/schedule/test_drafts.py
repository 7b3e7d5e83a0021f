"""A draft that takes over what another of the same graph has in common with it is the draft made anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.expansion.expand import Draft
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import fused_plans
from monet.schedule.planning.ordering import needed_by
from monet.schedule.simulation.records import WRITES
from monet.training.step import training_step

SMALL = "resnet:blocks=1-1,width=32,stem=cifar,classes=10,image=16"


def plans_of(scheduler: Scheduler) -> list[Plan]:
    """Other shares, other tiles, other cores, other groups; some of them twice."""
    plain, few = scheduler.complete(Plan()), scheduler.complete(Plan(), 2)
    fused = [scheduler.complete(plan) for base in (plain, few) for plan in fused_plans(scheduler, base, {})]
    varied = [replace(plain, buffer_share=0.25), replace(plain, tiles="throughput")]
    return [plain, *varied, few, *fused, plain, *fused[::-1], few]


def tables_of(draft: Draft) -> list[np.ndarray]:
    expanded = [draft.expanded(boundary) for boundary in ("keep", "local", "dram")]
    return [table.copy() for each in expanded for table in (*each.tables, each.parts, each.block_storage)]


@pytest.mark.parametrize(("model", "hardware"), [(SMALL, "edge-tpu"), ("gpt2-mini", "tpu-v3"), ("mlp-robot", "a100")])
def test_drafts_do_not_depend_on_the_one_before(model: str, hardware: str) -> None:
    scheduler = Scheduler(training_step(load_model(model)), load_hardware(hardware))
    before: Plan | None = None
    for plan in plans_of(scheduler):
        found = scheduler.draft(plan)
        scheduler.costs.drafted = None
        anew = scheduler.draft(plan)
        assert found.numbers == anew.numbers
        for ours, theirs in zip(tables_of(found), tables_of(anew), strict=True):
            assert np.array_equal(ours, theirs), (before, plan)
        before = plan


def test_tiles_are_needed_by_the_first_result_that_reads_them() -> None:
    """The kernel against a plain reading of the rule, on the groups of a fused plan."""
    scheduler = Scheduler(training_step(load_model(SMALL)), load_hardware("edge-tpu"))
    plain = scheduler.complete(Plan())
    *_, plan = (scheduler.complete(plan) for plan in fused_plans(scheduler, plain, {}))
    draft = scheduler.draft(plan)
    entries = draft.expanded("keep").tables.entries
    compared = 0
    for group in {number for number in draft.group_of if draft.group_of.count(number) > 1}:
        places = [place for place, number in enumerate(draft.group_of) if number == group]
        arrays = [draft.arrays_of[place] for place in places]
        tiles = [draft.steps_of[place].steps.tiles for place in places]
        mine = entries[draft.placed.first_entry[places[0]] :][: sum(each.counts[1] for each in arrays)].copy()
        found = needed_by(arrays, tiles, mine, len(draft.block_bytes))
        assert found.tolist() == read_plainly([each.gangs for each in arrays], tiles, mine)
        compared += len(found)
    assert compared > 20


def read_plainly(gangs: list[np.ndarray], tiles: list[int], entries: np.ndarray) -> list[int]:
    """Backwards: a tile is needed by the first result tile that reads what it writes; where nobody does, by its own."""
    late, first, need = max(tiles), dict[int, int](), dict[tuple[int, int], int]()
    ends = np.cumsum([int(table["last"].max()) for table in gangs])
    for operator in reversed(range(len(gangs))):
        base = int(ends[operator] - gangs[operator]["last"].max())
        for adds in (1, 0):
            some = [(number, row) for number, row in enumerate(gangs[operator]) if row["adds"] == adds]
            blocks = {number: entries[base + row["first"] : base + row["last"]] for number, row in some}
            for number, row in some:
                written = [int(e["block"]) for e in blocks[number] if e["kind"] in WRITES]
                soonest = min((first.get(block, late) for block in written), default=late)
                own = int(row["own"]) * late // tiles[operator] if tiles[operator] < late else int(row["own"])
                need[operator, number] = soonest if soonest < late else own
            for number, _ in some:
                for e in blocks[number]:
                    if e["kind"] not in WRITES:
                        block = int(e["block"])
                        first[block] = min(first.get(block, late), need[operator, number])
    return [need[operator, number] for operator, table in enumerate(gangs) for number in range(len(table))]
