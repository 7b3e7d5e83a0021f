"""Allocations made by rule, without search: starting points, and the baselines a search has to beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from monet.graph.loop_nest import Operand
from monet.hardware.accelerator import CoreInstance
from monet.mapping.cost_store import CostStore
from monet.schedule.costs.transfer_cost import endpoint_of, transfer_seconds
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Placement, Plan, Split
from monet.schedule.planning.family import one_core, one_core_per_layer
from monet.schedule.planning.grouping import main_dim
from monet.schedule.planning.splits import array_cycles
from monet.schedule.workload import Operator
from monet.search.allocation.choices import AllocationSpace, Form

Placements = dict[str, Placement]


def split_along(space: AllocationSpace, base: Placements, dim: str) -> Placements:
    """Every operator that can be split along a dimension alone is, over as many cores as possible; others as in
    ``base``."""
    found = dict(base)
    for members, forms in zip(space.classes, space.forms, strict=True):
        split = (form[0] for form in forms if form[0].dims == {dim})
        best = max(split, key=lambda placement: len(placement.cores), default=None)
        if best is None:
            continue
        for number in members:
            found[space.scheduler.workload.operators[number].op.name] = best
    return found


def starting_points(space: AllocationSpace, default: Plan) -> dict[str, Placements]:
    """All constructive allocations by name; the default first."""
    scheduler, base = space.scheduler, dict(default.placements)
    layerwise = one_core_per_layer(scheduler, default)
    found = {"default": base, "one core per layer": layerwise, "one core": one_core(scheduler, default)}
    dims = dict.fromkeys(dim for forms in space.forms for form in forms for dim, _ in form[0].split)
    for dim in dims:
        found[f"split {dim}"] = split_along(space, base, dim)
        found[f"split {dim}, else one core per layer"] = split_along(space, layerwise, dim)
    found["earliest finish"] = list_scheduled(space, locality=0.0)
    found["earliest finish, near its operands"] = list_scheduled(space, locality=1.0)
    return found


# --- list scheduling ----------------------------------------------------------------------------------------------


@dataclass
class _Clock:
    """When cores and DRAM are free, and where tensors lie: (cores, axis they are split along), ready when."""

    cores: dict[str, float] = field(default_factory=dict)
    dram: float = 0.0
    ready: dict[str, float] = field(default_factory=dict)
    lies: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)


def list_scheduled(space: AllocationSpace, locality: float) -> Placements:
    """Earliest finish time first (as HEFT, Topcuoglu et al. 2002, here for tasks that may be split): operators in
    order, each where it would end first by a rough clock of cores, DRAM and links. ``locality`` adds so many times the
    time its operands need over links, so that it stays near them."""
    scheduler, clock, found = space.scheduler, _Clock(), dict[str, Placement]()
    forms = {number: space.forms[i] for i, members in enumerate(space.classes) for number in members}
    seconds: dict[tuple[str, Split, int], float] = {}
    for operator in scheduler.workload.operators:
        best: tuple[tuple[float, int], Placement, float, float] | None = None
        for form in forms[operator.number]:
            work = _form_seconds(scheduler, operator, form, seconds)
            for placement in form:
                end, moved, dram = _finish(scheduler, clock, operator, placement, work)
                rank = (end + locality * moved, len(placement.cores))
                if best is None or rank < best[0]:
                    best = rank, placement, end, dram
        assert best is not None  # every operator has a form
        _, placement, end, clock.dram = best
        found[operator.op.name] = placement
        for name in placement.cores:
            clock.cores[name] = end
        for operand, tensor in operator.operands:
            if operand.written:
                clock.ready[tensor.storage] = end
                clock.lies[tensor.storage] = placement.cores, _split_axis(operator, operand, placement)
    return found


def _form_seconds(
    scheduler: Scheduler, operator: Operator, form: Form, known: dict[tuple[str, Split, int], float]
) -> float:
    """Seconds of the longest piece: what the array or the lanes take for it."""
    placement = form[0]
    if operator.is_transfer:
        return transfer_seconds(operator, endpoint_of(operator, scheduler.machine.accelerator))
    core = scheduler.machine.accelerator.instance(placement.cores[0])
    key = operator.key, placement.split, scheduler.machine.accelerator.design_number[core.name]
    if key not in known:
        known[key] = _piece_cycles(operator, placement, core, scheduler.costs.store) / core.core.clock_hz
    return known[key]


def _piece_cycles(operator: Operator, placement: Placement, instance: CoreInstance, store: CostStore) -> float:
    core, sizes = instance.core, operator.nest.sizes
    share = math.prod(-(-sizes[dim] // parts) / sizes[dim] for dim, parts in placement.split)
    if operator.is_attention:
        return share * operator.macs / max(1.0, core.units * core.rates[0].products_per_cycle)
    if not operator.is_matrix:
        return share * sum(count for _, count in operator.work) / max(1, core.lanes)
    return array_cycles(operator, core, placement.split, store)


def _finish(
    scheduler: Scheduler, clock: _Clock, operator: Operator, placement: Placement, work: float
) -> tuple[float, float, float]:
    """(end, seconds on links, when DRAM is free then) of an operator somewhere."""
    accelerator = scheduler.machine.accelerator
    links = max((link.bandwidth_bits_per_s / 8 for link in accelerator.links), default=0.0)
    start = max((clock.cores.get(name, 0.0) for name in placement.cores), default=0.0)
    dram_bytes = moved_bytes = 0.0
    for operand, tensor in operator.operands:
        if operand.written:
            continue
        start = max(start, clock.ready.get(tensor.storage, 0.0))
        if tensor.storage not in clock.lies:
            dram_bytes += tensor.bytes  # read once, multicast to all cores that want it
            continue
        lies, axis = clock.lies[tensor.storage]
        wanted = _split_axis(operator, operand, placement)
        moved_bytes = max(moved_bytes, tensor.bytes * _missing(lies, axis, placement.cores, wanted))
    dram = clock.dram + dram_bytes / accelerator.dram.bandwidth_bytes_per_s
    moved = moved_bytes / links if links else 0.0
    return max(start + moved + work, dram), moved, dram


def _missing(lies: Sequence[str], axis: int, cores: Sequence[str], wanted: int) -> float:
    """Share of a tensor that the worst-off core has to fetch from others."""
    if tuple(lies) == tuple(cores) and axis == wanted:
        return 0.0
    need = 1.0 if wanted < 0 else 1.0 / len(cores)
    here = 1.0 / len(lies) if axis >= 0 else 1.0
    return max(need * (1.0 - (here if core in lies else 0.0)) for core in cores)


def _split_axis(operator: Operator, operand: Operand, placement: Placement) -> int:
    """The first axis of an operand along which a placement splits it; -1 for none."""
    return next((axis for axis, index in enumerate(operand.indices) if main_dim(index, operator) in placement.dims), -1)
