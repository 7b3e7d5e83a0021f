"""A schedule is freed when nobody has it any more: searches make thousands."""

from __future__ import annotations

import gc
import weakref

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Plan
from monet.schedule.simulation.records import Nodes
from monet.schedule.simulation.workspace import Workspace
from monet.training.step import training_step


def test_a_schedule_is_freed() -> None:
    scheduler = Scheduler(training_step(load_model("mlp")), load_hardware("edge-tpu"))
    schedule = scheduler.schedule(Plan())
    figures_of(scheduler, schedule)
    events = schedule.decided.events
    alive = [weakref.ref(table) for table in (events.nodes, events.deps, events.bookings, schedule.decided.copies)]
    del schedule, events
    gc.collect()
    assert [table() for table in alive] == [None] * len(alive)


def test_columns_of_a_part_of_a_table_do_not_hold_it() -> None:
    whole = Nodes.zeros(8)
    for part in (whole.some(slice(4)), whole[:4], Workspace().table(Nodes, 4), Nodes.of(whole.plain)):
        part.kind[:] = 3
        assert (part.kind == 3).all()
    alive = [weakref.ref(table) for table in (whole, part)]
    assert (whole.kind[:4] == 3).all()
    del whole, part
    gc.collect()
    assert [table() for table in alive] == [None, None]
