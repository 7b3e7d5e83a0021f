"""Every operator of a graph alone on the core that suits it best: what ``monet map MODEL`` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from monet.errors import MonetError
from monet.graph.counts import call_of
from monet.graph.graph import Graph
from monet.graph.kind import PORT_FAMILIES, Call, Family, OpKind, kind_named
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Op
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.lane_array import peak_products_per_cycle
from monet.mapping.cost_store import CostStore, default_store
from monet.mapping.errors import MappingError
from monet.mapping.mapper.search import NO_CONSTRAINTS
from monet.mapping.mapper.tiling import Constraints
from monet.mapping.nest.bias import bias_of
from monet.mapping.unfused.arrays import unfused_on
from monet.mapping.unfused.border import Border, border_of
from monet.mapping.unfused.operator import Unfused, with_bias
from monet.mapping.vector import VectorCost, supports, vector_cost

MATRIX = frozenset({Family.CONVOLUTION, Family.MATMUL})


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator alone on one core."""

    op: Op
    family: Family
    core: CoreInstance
    cost: Unfused | VectorCost

    @property
    def seconds(self) -> float:
        """Latency."""
        return self.cost.cycles / self.core.core.clock_hz

    @property
    def macs(self) -> int:
        """Multiply-accumulates on the array."""
        return self.cost.macs if isinstance(self.cost, Unfused) else 0


@dataclass(frozen=True, slots=True)
class Unmapped:
    """An operator that no core can run, and why not, core by core."""

    op: Op
    reason: str


class NoCore(MappingError):
    """An operator that no core can run."""

    def __init__(self, op: Op, why: str) -> None:
        self.why = why
        super().__init__(f"operator {op.name} ({op.kind}) runs on no core: {why}")


def distinct_instances(accelerator: Accelerator) -> tuple[CoreInstance, ...]:
    """One instance of each core design."""
    return tuple({instance.template: instance for instance in reversed(accelerator.cores)}.values())[::-1]


def map_graph(
    graph: Graph,
    accelerator: Accelerator,
    objective: str = "latency",
    core: str = "",
    constraints: Constraints = NO_CONSTRAINTS,
    progress: Callable[[int, int], None] | None = None,
    store: CostStore | None = None,
) -> tuple[tuple[OperatorCost, ...], tuple[Unmapped, ...]]:
    """Costs of all operators that do something, and those that no core can run. Equal ones are costed once."""
    instances = (accelerator.instance(core),) if core else distinct_instances(accelerator)
    borders = {instance.name: border_of(accelerator, instance) for instance in instances}
    known: dict[str, tuple[CoreInstance, Unfused | VectorCost] | str] = {}
    store = store or default_store()
    costs, unmapped = [], []
    for number, op in enumerate(graph.ops):
        kind = kind_named(op.kind)
        if kind.family in (Family.VIEW, *PORT_FAMILIES) or not op.outputs:  # nothing that a core does
            continue
        if progress:
            progress(number, len(graph.ops))
        key = _key(graph, op)
        if key not in known:
            try:
                known[key] = cost_op(graph, op, instances, borders, objective, constraints, store=store)
            except NoCore as error:
                known[key] = error.why
        found = known[key]
        if isinstance(found, str):
            unmapped.append(Unmapped(op, found))
        else:
            costs.append(OperatorCost(op, kind.family, *found))
    return tuple(costs), tuple(unmapped)


def _key(graph: Graph, op: Op) -> str:
    tensors = [(graph.tensors[name].shape, graph.tensors[name].dtype) for name in (*op.inputs, *op.outputs)]
    return repr((op.kind, op.attrs, tensors))


def cost_op(
    graph: Graph,
    op: Op,
    instances: Iterable[CoreInstance],
    borders: dict[str, Border],
    objective: str,
    constraints: Constraints = NO_CONSTRAINTS,
    *,
    store: CostStore,
) -> tuple[CoreInstance, Unfused | VectorCost]:
    """The best core for one operator and its cost there; if no core can run it, an error with all reasons."""
    kind, call = kind_named(op.kind), call_of(graph, op)
    if kind.nest is None:
        raise NoCore(op, "it has no loop nest")
    if kind.family is Family.ATTENTION:
        raise NoCore(op, "fused attention spans several nests and is not mapped alone; take explicit attention")
    nest = kind.nest(call)
    reasons: list[str] = []
    best: tuple[float, CoreInstance, Unfused | VectorCost] | None = None
    types = [operand.dtype for operand in nest.reads[:2]] if kind.family in MATRIX else []
    least = {instance.name: _least_seconds(nest, instance, types) if types else 0.0 for instance in instances}
    for instance in sorted(instances, key=lambda instance: least[instance.name]):
        if best is not None and objective == "latency" and least[instance.name] >= best[0]:
            continue  # its arithmetic alone takes longer
        try:
            found = _on_core(kind, call, nest, instance, borders[instance.name], objective, constraints, store)
        except MonetError as error:
            reasons.append(f"{instance.template}: {error}")
            continue
        score = _score(found, instance, objective)
        if best is None or score < best[0]:
            best = score, instance, found
    if best is None:
        raise NoCore(op, "; ".join(reasons))
    return best[1], best[2]


def _least_seconds(nest: LoopNest, instance: CoreInstance, types: list[str]) -> float:
    """Seconds of a nest's arithmetic with every unit of a core busy; 0 if it has none, which is for it to say."""
    peak = peak_products_per_cycle(instance.core, *types) * instance.core.clock_hz
    return nest.points / peak if peak else 0.0


def _on_core(
    kind: OpKind,
    call: Call,
    nest: LoopNest,
    instance: CoreInstance,
    border: Border,
    objective: str,
    constraints: Constraints,
    store: CostStore,
) -> Unfused | VectorCost:
    core = instance.core
    if kind.family in MATRIX:
        found = unfused_on(nest, core, border, objective, constraints, store=store)
        bias = bias_of(call, nest)
        return with_bias(found, nest, bias.dtype, core, border) if bias else found
    work = dict(kind.work(call))
    reason = supports(core, work)
    if reason:
        raise MappingError(reason)
    return vector_cost(nest, work, core, border, kind.dimensions_of(call, nest))


def _score(found: Unfused | VectorCost, instance: CoreInstance, objective: str) -> float:
    seconds = found.cycles / instance.core.clock_hz
    return {"latency": seconds, "energy": found.energy_j, "edp": seconds * found.energy_j}[objective]
