"""Pages between a device and its host as a schedule has them: bytes, seconds on the port, what waits to leave."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from monet.arrays import I64
from monet.distributed.costs.amounts import Name
from monet.graph.kind import Family, kind_named
from monet.graph.op import Op
from monet.schedule.costs.transfer_cost import endpoint_of, passing_bytes, transfer_seconds
from monet.schedule.engine import Scheduler
from monet.schedule.schedule import Schedule

HOST = "host"  # the group that pages are counted under


def is_page(op: Op) -> bool:
    """Whether an operator carries something to the host or back."""
    return kind_named(op.kind).family is Family.TRANSFER


def pages(scheduler: Scheduler) -> Iterator[tuple[str, Name, float, float, str]]:
    """Of every page: its operator, what it is called, seconds on the port, bytes, the endpoint."""
    for operator in scheduler.workload.operators:
        if is_page(operator.op):
            end = endpoint_of(operator, scheduler.machine.accelerator)
            name = operator.op.kind, HOST
            yield operator.op.name, name, transfer_seconds(operator, end), float(passing_bytes(operator)), end.name


def leaving_bytes(scheduler: Scheduler, schedule: Schedule) -> float:
    """Most bytes at a time that are to go to the host and are not there yet, beyond one page: they hold room on the
    device. The order of the program alone would have them gone at once."""
    graph, operators = scheduler.workload.graph, scheduler.workload.operators
    started = {operator.op.name: number for number, operator in enumerate(operators)}
    ends: I64 = np.zeros(len(operators), np.int64)
    np.maximum.at(ends, schedule.tiles.operator, schedule.tiles.end)
    touched: dict[str, int] = {}  # by storage: when what has to do with it is done, so far in the program
    changes, largest = list[tuple[int, int]](), 0
    for op in graph.ops:
        at = int(ends[started[op.name]]) if op.name in started else 0
        if op.kind == "page_out":
            tensor = graph.tensors[op.inputs[0]]
            largest = max(largest, tensor.bytes)
            changes += [(touched.get(tensor.storage, 0), tensor.bytes), (at, -tensor.bytes)]
        for name in (*op.inputs, *op.outputs):
            storage = graph.tensors[name].storage
            touched[storage] = max(at, touched.get(storage, 0))
    waiting = np.cumsum([size for _, size in sorted(changes)]) if changes else np.zeros(1)
    return max(0.0, float(waiting.max()) - largest)
