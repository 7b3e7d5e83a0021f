"""From a request with a system to its result: the model at any micro-batch, its plan, costed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from monet.distributed.costs.chunk_costs import Coster, Trained
from monet.distributed.evaluation import evaluate_plan
from monet.distributed.result import DistributedResult
from monet.errors import OptionError
from monet.frontends import load_model
from monet.graph.graph import Graph
from monet.mapping.cost_store import CostStore, default_store
from monet.request.attention import fastest
from monet.request.graphs import MODEL_FIELDS
from monet.training.options import TrainingOptions, left_to_hardware, training_values

if TYPE_CHECKING:
    from monet.request.request import Request
    from monet.request.system_request import SystemRequest


def coster_of(request: Request, store: CostStore | None = None) -> Coster:
    """What costs plans of a request's model."""
    sizes = {name: getattr(request, name) for name in MODEL_FIELDS}
    loaded: dict[int, Graph] = {}

    def load(samples: int) -> Graph:
        return load_model(str(request.model), batch=samples, **sizes)

    def forward(micro_batch: int) -> Graph:
        if micro_batch not in loaded:
            loaded[micro_batch] = load(micro_batch)
            if request.dimensions and _shapes(loaded[micro_batch]) == _shapes(load(2 * micro_batch)):
                reason = "one of these is the batch, and micro_batch says how many samples a pass has; leave it out"
                raise OptionError("dimensions", dict(request.dimensions), reason)
        return loaded[micro_batch]

    values = training_values(request)
    options = TrainingOptions(**{**values, "micro_batches": 1})
    key = repr((request.model, request.model_digest, sorted(sizes.items()), sorted(values.items())))
    fusion = request.fusion if isinstance(request.fusion, str) else "auto"
    return Coster(Trained(forward, options, key), store or default_store(), fusion, request.objective)


def _shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.tensors[name].shape for name in graph.inputs]


def distribute(request: SystemRequest) -> DistributedResult:
    """Cost the plan that a request asks for; of implementations of attention, the fastest of those it leaves open."""
    if left_to_hardware(request.attention):
        result, taken = fastest(request, _distributed)
        return replace(result, notes=(*result.notes, str(taken)))
    plan, system = request.parallel_plan(), request.load_system()
    batch = request.whole_batch(plan)
    asked = replace(request, batch=batch)
    return evaluate_plan(coster_of(request), system, plan, batch, str(request.model), asked.to_json())


def _distributed(request: SystemRequest) -> tuple[DistributedResult, float | None, str]:
    result = distribute(request)
    return result, result.latency_s if result.feasible else None, result.reason.message if result.reason else ""
