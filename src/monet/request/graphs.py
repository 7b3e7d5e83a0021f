"""From a request to its graph: a model loaded, trained, checkpointed, cut down to some phases."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from monet.errors import MonetError, OptionError
from monet.frontends import is_zoo, load_model
from monet.graph.document import graph_from
from monet.graph.graph import Graph
from monet.mapping.cost_store import Section, default_store
from monet.schedule.evaluation import select_phases
from monet.training.options import TrainingOptions, training_values
from monet.training.step import prepare, training_step
from monet.transforms.checkpoint_baselines import baseline_named
from monet.transforms.checkpoint_plan import CheckpointPlan, is_plan_file, load_checkpoint_plan
from monet.transforms.checkpoint_problem import problem_of
from monet.transforms.recompute import recompute

if TYPE_CHECKING:
    from monet.request.request import Request

GRAPHS = Section[Graph]("graphs", 10_000, lambda graph: len(graph.ops))
AFTERWARDS = frozenset({"hardware", "set", "fusion", "allocation", "boundary", "objective"})  # not of a graph
MODEL_FIELDS = ("image", "sequence", "inputs", "dimensions")


def graph_of(request: Request) -> Graph:
    """The graph that a request asks for. That of a zoo model is kept for the next request that differs in hardware and
    schedule only, with all that was worked out about it; of a file it is read again."""
    files = (request.precision, request.checkpoint)
    if not isinstance(request.model, str) or not is_zoo(request.model) or any(map(_is_file, files)):
        return made_anew(request)
    asked = tuple((field.name, repr(getattr(request, field.name))) for field in fields(request))
    key = tuple(pair for pair in asked if pair[0] not in AFTERWARDS)
    return default_store()[GRAPHS].get_or(key, lambda: made_anew(request))


def _is_file(given: object) -> bool:
    return isinstance(given, str) and is_plan_file(given)


def made_anew(request: Request) -> Graph:
    """The graph that a request asks for, whether it was made before or not."""
    forward = _model(request)
    if forward.loss:
        graph = _checkpointed(_unchanged(forward, request), request)
    elif request.mode == "training":
        graph = _checkpointed(training_step(forward, request), request)
    elif isinstance(request.model, str) or _changed(request):
        graph = prepare(forward, request)
    else:
        graph = forward
    return select_phases(graph, request.phases) if request.phases else graph


def _model(request: Request) -> Graph:
    if not isinstance(request.model, str):
        for name in ("batch", *MODEL_FIELDS):
            if value := getattr(request, name):
                raise OptionError(name, value, "the sizes of a graph are its own")
        return graph_from(request.model)
    batch = request.batch // request.micro_batches if request.batch else None
    forward = load_model(request.model, batch=batch, **{name: getattr(request, name) for name in MODEL_FIELDS})
    digest = forward.recipe.values.get("model_digest", "") if forward.recipe else ""
    if request.model_digest and digest != request.model_digest:
        raise MonetError(f"{request.model}: the file has changed since the result was made")
    return forward


def _changed(request: Request) -> dict[str, object]:
    """Training options that are not the default."""
    usual = training_values(TrainingOptions())
    return {name: value for name, value in training_values(request).items() if value != usual[name]}


def _unchanged(step: Graph, request: Request) -> Graph:
    for name, value in _changed(request).items():
        raise OptionError(name, value, f"{step.name} is a whole training step already")
    return step


def _checkpointed(step: Graph, request: Request) -> Graph:
    chosen = request.checkpoint
    if not chosen or chosen == "keep-all":
        return step
    if isinstance(chosen, str) and not is_plan_file(chosen):
        return recompute(step, baseline_named(chosen).plan(step, problem_of(step)))
    plan = load_checkpoint_plan(chosen) if isinstance(chosen, str) else CheckpointPlan.from_dict(chosen)
    return recompute(step, plan)
