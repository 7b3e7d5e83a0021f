"""``evaluate``: a graph on an accelerator → a ``Result`` that records the request it answers, to be rerun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from monet.graph.document import graph_document
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.request.request import Request
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate as schedule
from monet.schedule.evaluation import select_phases
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_schedule
from monet.schedule.result import Result
from monet.schedule.schedule import Schedule
from monet.transforms.precision import precision_named, set_precision


def evaluate(
    graph: Graph,
    accelerator: Accelerator,
    plan: Plan | Mapping[str, Any] | None = None,
    *,
    fusion: str = "auto",
    boundary: str = "",
    allocation: Mapping[str, Any] | None = None,
    phases: Iterable[str] = (),
    scheduler: Scheduler | None = None,
    objective: str = "latency",
) -> Result:
    """Cost ``graph`` on ``accelerator``. What cannot run gives an infeasible result.

    ``plan`` may be plain values, as saved. Without one, ``fusion`` (auto or none) and ``boundary`` (keep or dram) say
    how the default plan is made. ``allocation`` places operators on cores: name → core, or cores and split. A
    ``scheduler`` of the same graph and accelerator saves analysing them again.
    """
    if wanted := tuple(phases):
        graph = select_phases(graph, wanted)
    given = plan.to_dict() if isinstance(plan, Plan) else plan
    request = Request(
        **asked_of(graph),
        hardware=accelerator.description or {},
        fusion=fusion if given is None else given,
        allocation=allocation or "",
        boundary=boundary,
        objective=objective,
    )
    chosen = request.plan()
    return schedule(
        graph,
        accelerator,
        chosen if isinstance(plan, Plan) or chosen is None else chosen.to_dict(),
        fusion=fusion,
        boundary=boundary,
        allocation=allocation,
        inputs=request.to_json(),
        scheduler=scheduler,
        objective=objective,
    )


def asked_of(graph: Graph) -> dict[str, Any]:
    """The fields of a request for a graph: how it was made if that is known, else the graph itself."""
    recipe = graph.recipe.values if graph.recipe else {}
    if "mode" in recipe:
        return dict(recipe)
    # a model as it was loaded: the inference of a request, unless that would widen what the model has narrow
    if recipe and set_precision(graph, precision_named("fp32")) is graph:
        return {**recipe, "mode": "inference", "precision": "fp32"}
    return {"model": graph_document(graph), "mode": "training" if graph.loss else "inference"}


def schedule_of(request: Request, scheduler: Scheduler) -> Schedule:
    """The schedule that a request asks for: of the plan it gives, or of the default one."""
    plan, placed = request.plan(), request.placements()
    if plan is None:
        return default_schedule(scheduler, str(request.fusion), request.boundary, placed)
    return scheduler.schedule(replace(plan, placements={**plan.placements, **placed}))
