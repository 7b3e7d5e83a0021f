"""Default plans that were found before. They last on disk with the costs, by content: graph, accelerator, what was
asked for and, as everything there, the sources. The same question is answered at once, by the same plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from monet.graph.document import graph_document
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.hardware.export import as_json, plain
from monet.mapping.cost_store import Section
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Placement, Plan
from monet.schedule.workload import workload_of

DEFAULT_PLANS = Section[Plan]("default plans", 256)
HARDWARE = Section[str]("digests of accelerators", 64)


def known_plan(scheduler: Scheduler, boundary: str, given: Mapping[str, Placement], find: Callable[[], Plan]) -> Plan:
    """The plan that ``find`` finds, or has found before for the same question. Where nothing lasts, or for a variant of
    a graph that has no document of its own, it is always asked."""
    store, workload = scheduler.machine.store, scheduler.workload
    if not store.lasts or workload is not workload_of(workload.graph):
        return find()
    hardware = store[HARDWARE].get_or(scheduler.machine.accelerator, lambda: _hardware(scheduler.machine.accelerator))
    asked = boundary, scheduler.costs.objective, Plan(placements=given).to_dict()
    key = f"default plan {_digest((_digest_of(workload.graph), hardware, asked))}"
    return store.lasting(DEFAULT_PLANS, key, find, Plan.to_dict, Plan.from_dict)


def _hardware(accelerator: Accelerator) -> str:
    """Of an accelerator; all of it follows from its description, where it has one."""
    return _digest(plain(accelerator.description or as_json(accelerator)))


class _Digest(str):
    """Of a graph."""


def _digest_of(graph: Graph) -> str:
    found = graph.analyses.get(_Digest)
    if found is None:
        found = graph.analyses[_Digest] = _Digest(_digest(graph_document(graph)))
    return str(found)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
