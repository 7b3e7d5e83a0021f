"""Which design of core runs an operator: any that can may, and the one that is done first does.

Multiply-accumulates run on arrays and on vector lanes (``hardware/lane_array.py``), all other work on lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from monet.errors import MonetError
from monet.graph.kind import kind_named
from monet.hardware.accelerator import CoreInstance
from monet.hardware.core import CoreKind
from monet.hardware.lane_array import arrays_for
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.errors import DoesNotFit, MappingError
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.expansion.geometry import make_steps
from monet.schedule.lower_bound.traffic import distinct_bytes
from monet.schedule.planning.pieces import Cores, piece_cost, piece_cycles
from monet.schedule.planning.splits import array_cycles, best_split
from monet.schedule.result_rows import Infeasible
from monet.schedule.workload import Operator

HOPELESS = 4  # a design whose arithmetic takes so many times as long as another's is not costed any further
TOUCHED_BYTES = Section[int]("bytes that operators touch", 10_000)
CLEARLY = 0.98  # a later design is taken for at most this share of the time


def cannot_run(operator: Operator, instance: CoreInstance) -> str:
    """Why a core cannot run an operator, from its description alone; empty if it might."""
    core = instance.core
    if operator.is_transfer:
        kind = kind_named(operator.op.kind).endpoint
        return "" if core.kind is CoreKind.PORT else f"it is no port to a {kind}"
    if core.kind is CoreKind.PORT:
        return "it is a port, and computes nothing"
    if not operator.macs:
        return "" if core.lanes > 0 else "it has no vector lanes"
    if operator.is_attention:
        refused = (core.cannot_multiply(*pair) for pair, _ in operator.products)
        return next(filter(None, refused), "") if core.modes else "it has no array"
    try:
        arrays_for(core, *operator.multiplied)
    except MonetError as error:
        return str(error)
    return ""


def some_of(like: Cores, most_cores: int | None) -> Cores:
    """So many of some like cores, as a smaller machine has them: the corner of a mesh, as many of each cluster."""
    if most_cores is None or most_cores >= len(like):
        return like
    order = {name: number for number, name in enumerate(dict.fromkeys(core.template for core in like))}
    corner = sorted(like, key=lambda core: (max(core.position, default=0), core.position, order[core.template]))
    chosen = {core.name for core in corner[:most_cores]}
    return tuple(core for core in like if core.name in chosen)


def best_design(operator: Operator, table: CostTable, share: float, most_cores: int | None = None) -> Cores:
    """The cores (``most_cores`` at most) of the design that is done first with the operator split over them.

    Of designs that take the same time (often they wait for DRAM) products go to an array, other work to the lanes with
    the most functions: what these leave in their memory, the next operator finds there.
    """
    key = operator.key, share, most_cores
    if key not in table.best_designs:
        table.best_designs[key] = _best_design(operator, table, share, most_cores)
    return table.best_designs[key]


def _best_design(operator: Operator, table: CostTable, share: float, most_cores: int | None) -> Cores:
    from monet.schedule.engine import NoSchedule

    errors: list[tuple[CoreInstance, MonetError]] = []
    able: list[Cores] = []
    designs = table.machine.accelerator.like_cores
    for cores in designs:
        reason = cannot_run(operator, cores[0])
        if reason:
            errors.append((cores[0], MappingError(reason)))
        else:
            able.append(some_of(cores, most_cores))
    rivals = _rivals(operator, able, table.store) if operator.is_matrix and len(able) > 1 else able
    if operator.is_matrix and len(rivals) == 1 and len(designs) > 1 and not rivals[0][0].core.weights_resident:
        return rivals[0]  # no choice to make; if it does not fit, whoever costs its pieces says so
    best: tuple[float, Cores] | None = None
    others = [cores for cores in able if not any(cores is rival for rival in rivals)]
    for some in (rivals, others):  # cells that hold weights may be too few for an operator: then the others
        for instances in sorted(some, key=lambda cores: _preferred(operator, cores), reverse=True):
            if best and operator.is_matrix and _least_seconds(operator, instances, table) >= best[0] * CLEARLY:
                continue
            try:
                seconds = _seconds(operator, instances, table, share)
            except MonetError as error:
                errors.append((instances[0], error))
                continue
            if best is None or seconds < best[0] * CLEARLY:
                best = seconds, instances
        if best is not None:
            return best[1]
    raise NoSchedule(_why_not(operator, errors))


def _preferred(operator: Operator, cores: Cores) -> tuple[bool, int]:
    core = cores[0].core
    return operator.is_matrix and bool(core.modes), len(core.functions)


def _seconds(operator: Operator, instances: Cores, table: CostTable, share: float) -> float:
    """Seconds of an operator on cores of a design: of the longest piece of the best split, and of what passes for all
    of them. Work without products is costed as a whole: its pieces are parts of that."""
    first, sizes = instances[0], operator.nest.sizes
    split = best_split(operator, instances, table)
    if operator.is_matrix:
        cost = piece_cost(operator, instances, split, table, share)
        return piece_cycles(operator, instances, split, cost, table) / first.core.clock_hz
    cost = table.cost(operator, make_steps(operator.nest, {}), 0, first, False, share)
    longest = math.prod(-(-sizes[dim] // parts) / sizes[dim] for dim, parts in split)
    return max(cost.cycles * longest, table.passing_cycles(cost, first)) / first.core.clock_hz


def seconds_alone(operator: Operator, table: CostTable, share: float = 1.0) -> tuple[float, Cores]:
    """Seconds of an operator on the cores of the design that is done first with it, and these. Raises ``NoSchedule`` if
    none can run it."""
    cores = best_design(operator, table, share)
    return _seconds(operator, cores, table, share), cores


def _least_seconds(operator: Operator, instances: Cores, table: CostTable) -> float:
    """Seconds that ``_seconds`` says at least of products, without a mapping: every operand once over the wires of all
    cores; on one core, its array at the best unrolling."""
    first, machine = instances[0], table.machine
    least = 8 * table.store[TOUCHED_BYTES].get_or(operator.key, lambda: _touched_bytes(operator))
    supply = machine.supplying.supply(first, operator.input_bytes + operator.output_bytes)
    cycles = least / (machine.supplying.border(first, supply).bits_per_cycle * len(instances))
    if len(instances) == 1:
        cycles = max(cycles, array_cycles(operator, first.core, (), table.store))
    return cycles / first.core.clock_hz


def _touched_bytes(operator: Operator) -> int:
    """Bytes of all operands, each once."""
    return sum(distinct_bytes(operand, operator.nest) for operand in operator.nest.operands)


def _rivals(operator: Operator, able: Sequence[Cores], store: CostStore) -> list[Cores]:
    """Of the designs that can run a matrix operator those that may be the fastest: one is left out if its arithmetic
    alone, at the best unrolling that its wires allow, takes ``HOPELESS`` times as long as another's."""
    seconds = [
        array_cycles(operator, cores[0].core, (), store) / (cores[0].core.clock_hz * len(cores)) for cores in able
    ]
    least = min(seconds)
    return [cores for cores, taken in zip(able, seconds, strict=True) if taken <= HOPELESS * least]


def _why_not(operator: Operator, errors: list[tuple[CoreInstance, MonetError]]) -> Infeasible:
    """The core that comes nearest to running an operator, and what is missing there."""
    name = operator.op.name
    fits = [(instance, error) for instance, error in errors if isinstance(error, DoesNotFit)]
    if fits:
        instance, error = min(fits, key=lambda pair: pair[1].needed_bytes - pair[1].offered_bytes)
        short = error.needed_bytes - error.offered_bytes
        return Infeasible(name, instance.name, error.level, short, f"operator {name} on {instance.name}: {error}")
    reasons = "; ".join(f"{instance.template}: {error}" for instance, error in errors)
    return Infeasible(name, "", "", 0, f"operator {name} ({operator.op.kind}) runs on no core: {reasons}")
