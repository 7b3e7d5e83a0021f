"""Products with the copies of their results that a quantiser behind their array makes (``costs.output_stage``): groups
to fuse where a core declares one, in the fewest tiles whose operands all fit its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from monet.schedule.engine import Scheduler
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.planning.default_plan import ROOM, TILES
from monet.schedule.planning.grouping import common_cuts, corresponding
from monet.schedule.workload import Operator, Workload


def with_output_stages(scheduler: Scheduler, plain: Plan, given: Mapping[str, Placement]) -> Plan:
    """A plan without groups, with every copy fused that can be made as results leave an array."""
    groups, placements = list[Group](), dict(plain.placements)
    for product, copies in fed_copies(scheduler.workload):
        placement = plain.placements.get(product.op.name)
        names = [copy.op.name for copy in copies]
        if placement is None or any(name in given for name in names) or not _has_quantiser(scheduler, placement):
            continue
        group = _group(scheduler, product, copies, placement)
        moved = [_behind(product, copy, placement) for copy in copies]
        if group and all(moved):
            groups.append(group)
            placements |= {name: place for name, place in zip(names, moved, strict=True) if place}
    return replace(plain, groups=tuple(groups), placements=placements)


def fed_copies(workload: Workload) -> Iterator[tuple[Operator, tuple[Operator, ...]]]:
    """Products, each with the copies that are made of its result and of nothing else."""
    makers = {
        tensor.storage: operator
        for operator in workload.operators
        if operator.is_matrix
        for operand, tensor in operator.operands
        if operand.written
    }
    found: dict[int, list[Operator]] = {}
    for operator in workload.operators:
        maker = makers.get(operator.operands[0][1].storage) if operator.op.kind == "quantize" else None
        if maker is not None and maker.number < operator.number:
            found.setdefault(maker.number, []).append(operator)
    return ((workload.operators[number], tuple(copies)) for number, copies in found.items())


def _has_quantiser(scheduler: Scheduler, placement: Placement) -> bool:
    return scheduler.machine.accelerator.instance(placement.cores[0]).core.only_quantises


def _behind(product: Operator, copy: Operator, placement: Placement) -> Placement | None:
    """Where a copy runs: on the cores of its product, split alike; None if it has no such dimensions."""
    split = tuple((corresponding(product, dim, copy), parts) for dim, parts in placement.split)
    return Placement(placement.cores, split) if all(dim for dim, _ in split) else None


def _group(scheduler: Scheduler, product: Operator, copies: tuple[Operator, ...], placement: Placement) -> Group | None:
    """The fewest tiles that fit; in more than one, two of each."""
    accelerator, run = scheduler.machine.accelerator, [product, *copies]
    instance = accelerator.instance(placement.cores[0])
    room = min(accelerator.memory(name).size_bytes for _, name in instance.memories)
    best: dict[tuple[int, int], Group] = {}
    for rank, (dim, dims) in enumerate(common_cuts(run, over_sums=False)):
        size = run[-1].nest.sizes[dim]
        for tiles in (1, 2, *TILES):
            if tiles > size:
                break
            needed = sum(
                tensor.bytes / (tiles if dims[operator.number] in operand.dims else 1)
                for operator in run
                for operand, tensor in operator.operands
                if operand.written or operator is product
            )
            if needed <= (room if tiles == 1 else ROOM * room):
                best[tiles, rank] = Group(tuple(op.op.name for op in run), ((dim, -(-size // tiles)),))
                break
    return best[min(best)] if best else None
