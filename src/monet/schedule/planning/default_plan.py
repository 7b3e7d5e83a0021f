"""The default plan. ``none`` runs every operator alone; ``auto`` also fuses runs of vector operators that can share
tiles on one core, and matrix operators with the vector work beside them (``stretches``): a few plans made by rule, of
which the whole schedule picks the fastest, or none. ``monet fuse`` searches.

A run is a stretch of operators next to each other in execution order, each reading a result of the run, all cut along
corresponding dimensions. Training-mode batch norm reduces over samples and pixels, so runs with one are cut along
channels; softmax and layer norm are never cut along what they reduce over. An operator that overwrites something
made outside of the run does not join: its blocks are not the run's to cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from monet.errors import nearest
from monet.hardware.accelerator import CoreInstance
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.folding.shortened import KEPT, NeverRepeating, NotRepeating
from monet.schedule.plan import TILES as TILES_FOR
from monet.schedule.plan import Group, Placement, Plan, PlanError
from monet.schedule.planning.family import CLOSE, Member, best_by_cores
from monet.schedule.planning.grouping import common_cuts
from monet.schedule.planning.known_plans import known_plan
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.records import NEVER
from monet.schedule.workload import STAYS, Operator, Workload

FUSIONS = ("auto", "none")
LONGEST = 8  # operators in a run
TILES = (4, 8, 16, 32, 64, 128)  # a run is cut into the fewest of these that fit; four let transfers overlap
MOST_PIECES = 256  # transfers that gathering the tiles of a run may take
Run = list[Operator]
LEFT_EMPTY = (0.5, 0.25, 0.125)  # shares of all memories that the best plan is also tried with
ROOM = 0.5  # share of the memory that the blocks of a tile may take; the rest is for the next tile


def default_schedule(
    scheduler: Scheduler,
    fusion: str = "auto",
    boundary: str = "",
    placements: Mapping[str, Placement] | None = None,
    *,
    to_measure: bool = False,
) -> Schedule:
    """The schedule of the default plan. ``auto``: the fastest of the unfused family and of what fusing makes of its
    best member. ``none``: every operator alone, results stay on chip unless another ``boundary`` is asked for.
    ``to_measure``: as ``Scheduler.measured`` makes it."""
    if fusion not in FUSIONS:
        raise PlanError(f"--fusion {fusion!r}: {nearest(fusion, FUSIONS)}, or a YAML file")
    placements = dict(placements or {})
    made = scheduler.measured if to_measure else scheduler.schedule
    if fusion == "none":
        return made(Plan(placements=placements, boundary=boundary or "keep"))
    found: list[Schedule] = []

    def find() -> Plan:
        folded = _folded(scheduler, boundary, placements, made)
        found.append(folded or _sought(scheduler, boundary, placements, to_measure=to_measure))
        return found[0].plan

    plan = known_plan(scheduler, boundary, placements, find)
    return found[0] if found else made(plan)


def _folded(
    scheduler: Scheduler, boundary: str, given: dict[str, Placement], made: Callable[[Plan], Schedule]
) -> Schedule | None:
    """What ``_sought`` finds, with the plan chosen by what plans take with fewer of many equal layers; None where that
    does not say what they take with all. ``made``: the schedule of a plan."""
    for kept in () if given else KEPT:
        few = scheduler.with_fewer_layers(kept)
        if few is None or few.short is None:
            return None
        try:
            best = _best(few, boundary, {})
            schedule = made(few.short.lengthened(best.plan))
        except NeverRepeating:
            return None  # nor with more of them
        except (NoSchedule, NotRepeating):
            continue
        if schedule.makespan == best.makespan:
            return schedule
    return None


def _sought(scheduler: Scheduler, boundary: str, given: dict[str, Placement], *, to_measure: bool = False) -> Schedule:
    """The schedule of the best plan."""
    best = _best(scheduler, boundary, given)
    return scheduler.timed(best.plan, best.draft, to_measure=to_measure)


def _best(scheduler: Scheduler, boundary: str, given: dict[str, Placement]) -> Member:
    unfused = sorted(best_by_cores(scheduler, boundary, given), key=lambda member: member.makespan)
    found = _fused_members(scheduler, unfused, boundary or "keep", given)
    near = CLOSE * min(member.makespan for member in found)
    tried = (_with_less_memory(scheduler, each) for each in found if each.makespan <= near)
    return min(tried, key=lambda member: member.makespan)


def _with_less_memory(scheduler: Scheduler, best: Member) -> Member:
    """The fastest of a plan and of the same with a part of every memory left empty: with more room operands are fetched
    earlier, and may then be in the way of results that others wait for."""
    for share in LEFT_EMPTY:
        plan = replace(best.plan, memory_share=share)
        with suppress(NoSchedule):
            ticks = scheduler.makespan(plan, best.draft, best.makespan)
            if ticks < best.makespan:
                best = Member(ticks, plan, best.draft)
    return best


def _fused_members(
    scheduler: Scheduler, unfused: Sequence[Member], boundary: str, given: dict[str, Placement]
) -> list[Member]:
    """Some unfused plans, each as what fusing makes of it if that is faster. The groups that were best for one are
    tried first for the next; others only if those bring it close to the fastest."""
    found, first, most = list[Member](), 0, NEVER
    for plain in unfused:
        scheduler.costs.drafted = plain.draft  # operators that are not fused are as there
        fused, first = _fused(scheduler, plain.plan, boundary, given, first, most)
        found.append(min(plain, fused or plain, key=lambda member: member.makespan))
        most = int(CLOSE * min(member.makespan for member in found))
    return found


def _fused(
    scheduler: Scheduler, plain: Plan, boundary: str, given: dict[str, Placement], first: int, most: int
) -> tuple[Member | None, int]:
    """The fastest of what fusing makes of a plan, with its own boundary and another, and its number; the one numbered
    ``first`` if that takes more than ``most``. As fewer operators are left that run alone, theirs may be the other kind
    of tiles."""
    boundaries = dict.fromkeys((plain.boundary, boundary))
    makers = [maker for each in boundaries for maker in _makers(scheduler, replace(plain, boundary=each), given)]
    best, best_number = None, first
    for number in sorted(range(len(makers)), key=lambda number: number != first):
        plan = makers[number]()
        fused = _faster(scheduler, best, plan, most if number == first else NEVER) if plan.groups else best
        if fused is not best:
            best, best_number = fused, number
        if best and number == first and best.makespan > most:
            return best, first
    for goal in TILES_FOR:
        if best and goal != best.plan.tiles:
            best = _faster(scheduler, best, replace(best.plan, tiles=goal))
    return best, best_number


def _faster(scheduler: Scheduler, best: Member | None, plan: Plan, most: int = NEVER) -> Member | None:
    """A plan if it can run and is faster than the best so far, else that one. What takes more than ``most`` is only
    known to."""
    try:
        plan = scheduler.complete(plan)
        made = scheduler.draft(plan)
        ticks = scheduler.makespan(plan, made, best.makespan if best else min(most + 1, NEVER))
    except NoSchedule:
        return best
    return Member(ticks, plan, made) if not best or ticks < best.makespan else best


def default_plan(scheduler: Scheduler, fusion: str = "auto", boundary: str = "") -> Plan:
    """The plan of ``default_schedule``, placements included."""
    return default_schedule(scheduler, fusion, boundary).plan


def fused_plans(scheduler: Scheduler, plain: Plan, given: dict[str, Placement]) -> Iterator[Plan]:
    """Plans to choose from: copies made in output stages; runs of vector operators; the same with stretches that fit in
    four tiles; with those that lead to matrix operators in up to eight, as they save a gradient's way to DRAM and
    back."""
    return (maker() for maker in _makers(scheduler, plain, given))


def _makers(scheduler: Scheduler, plain: Plan, given: dict[str, Placement]) -> tuple[Callable[[], Plan], ...]:
    """What makes each of ``fused_plans``: not all of them are asked for."""
    from monet.schedule.planning.output_stages import with_output_stages  # it builds on what is here

    @cache
    def grouped() -> list[tuple[Run, tuple[Group, str]]]:
        every = ((run, run_group(scheduler, run, plain, given)) for run in runs(scheduler.workload))
        return [(run, found) for run, found in every if found]

    def stretched(most_tiles: int, kinds: tuple[bool, ...]) -> Plan:
        return _with_stretches(scheduler, plain, given, grouped(), most_tiles, kinds)

    return (
        lambda: with_output_stages(scheduler, plain, given),
        lambda: stretched(0, ()),
        lambda: stretched(TILES[0], (True, False)),
        lambda: stretched(TILES[1], (True,)),
    )


def _with_stretches(
    scheduler: Scheduler,
    plain: Plan,
    given: dict[str, Placement],
    grouped: list[tuple[Run, tuple[Group, str]]],
    most_tiles: int,
    kinds: tuple[bool, ...],
) -> Plan:
    """Stretches of some kinds as groups, then runs: each with a tile, and the core that is best for all of it."""
    from monet.schedule.planning.stretches import stretch_group, stretches  # it builds on the runs here

    groups, placements, taken = list[Group](), dict(plain.placements), set[str]()
    for before in kinds:
        for stretch in stretches(scheduler.workload, before):
            if any(operator.op.name in taken for operator in stretch.operators):
                continue
            found = stretch_group(scheduler, stretch, plain, given, most_tiles)
            if found:
                groups.append(found[0])
                placements |= found[1]
                taken |= set(found[0].operators)
    for run, (group, core) in grouped:
        if taken.isdisjoint(group.operators):
            groups.append(group)
            moved = [operator.op.name for operator in run if operator.op.name not in given]
            placements |= dict.fromkeys(moved, Placement((core,)))
    return replace(plain, groups=tuple(groups), placements=placements)


def runs(workload: Workload) -> tuple[Run, ...]:
    """Maximal stretches of connected operators that one core can run."""
    known = workload.planned
    if "runs" not in known:
        known["runs"] = tuple(_runs(workload))
    return known["runs"]


def _runs(workload: Workload) -> Iterator[Run]:
    run: Run = []
    beside: Run = []  # transfers between operators of the run
    for operator in workload.operators:
        if operator.is_transfer:
            beside.append(operator)
            continue
        if run and not (len(run) < LONGEST and passes(operator, beside) and _joins(workload, run, operator)):
            yield run
            run = []
        if not run:
            beside = []
        if may_fuse(operator) and own_results(workload, run, operator):
            run.append(operator)
    if run:
        yield run


def may_fuse(operator: Operator) -> bool:
    """Whether an operator may be in a run: vector work that can be cut, and no update."""
    return not operator.macs and bool(operator.apart) and operator.op.phase != "update"


def passes(operator: Operator, transfers: Sequence[Operator]) -> bool:
    """Whether an operator may run before some transfers that stand before it: it neither reads what they write nor
    overwrites what they read."""
    return all(
        set(transfer.written).isdisjoint(operator.storages) and set(operator.written).isdisjoint(transfer.storages)
        for transfer in transfers
    )


def own_results(workload: Workload, run: list[Operator], operator: Operator) -> bool:
    """Whether all that an operator writes is new, or was made in the run."""
    made = {tensor.storage for operator in run for operand, tensor in operator.operands if operand.written}
    graph = workload.graph
    outputs = set(operator.op.outputs)
    return all(
        tensor.storage in made or tensor.storage in outputs or graph.tensors[tensor.storage].role in STAYS
        for operand, tensor in operator.operands
        if operand.written
    )


def _joins(workload: Workload, run: Run, operator: Operator) -> bool:
    if not may_fuse(operator) or not own_results(workload, run, operator):
        return False
    made = {tensor.storage for operator in run for operand, tensor in operator.operands if operand.written}
    reads = any(tensor.storage in made for operand, tensor in operator.operands if not operand.written)
    return reads and bool(common_dims([*run, operator]))


def common_dims(run: list[Operator]) -> list[str]:
    """Dimensions of the last operator along which every operator of a run can be cut."""
    return [dim for dim, _ in common_cuts(run, over_sums=False)]


def run_group(
    scheduler: Scheduler, run: list[Operator], plain: Plan, given: dict[str, Placement]
) -> tuple[Group, str] | None:
    """A run as a group, cut into the fewest tiles that fit, and its core; None if there is no such core or cut."""
    if len(run) < 2:
        return None
    core = best_core(scheduler, run, plain, given)
    if core is None:
        return None
    sizes = {scheduler.machine.accelerator.memory(name).size_bytes for _, name in core.memories}
    last, gathered, tensors = run[-1], _pieces(scheduler, run, plain), tensor_bytes(run)
    for dim in common_dims(run):
        size = last.nest.sizes[dim]
        for tiles in TILES:
            if tiles * gathered > MOST_PIECES:
                break
            if tiles <= size and working_set(tensors, tiles) <= ROOM * min(sizes):
                tile = -(-size // tiles)
                return Group(tuple(operator.op.name for operator in run), ((dim, tile),)), core.name
    return None


def _pieces(scheduler: Scheduler, run: list[Operator], plain: Plan) -> int:
    """Pieces in which what a run reads from outside lies on different cores: a tile gathers from all of them."""
    tensors, producer = scheduler.workload.graph.tensors, scheduler.workload.graph.producer
    inside = {operator.op.name for operator in run}
    read = {tensors[name].storage for operator in run for name in operator.op.inputs}
    makers = {producer[storage].name for storage in read if storage in producer} - inside
    pieces = [len(plain.placements[name].cores) for name in makers if name in plain.placements]
    return sum(count for count in pieces if count > 1)


def tensor_bytes(run: Sequence[Operator]) -> list[tuple[int, bool]]:
    """(bytes, whether tiles cut it) of every tensor of a run; small ones (per channel) are never cut."""
    tensors = {tensor.storage: tensor for operator in run for _, tensor in operator.operands}
    return [(tensor.bytes, len(tensor.shape) > 1) for tensor in tensors.values()]


def working_set(tensors: list[tuple[int, bool]], tiles: int) -> float:
    """Bytes of all tensors of a run in one tile."""
    return sum(size / (tiles if cut else 1) for size, cut in tensors)


def best_core(
    scheduler: Scheduler, run: Sequence[Operator], plain: Plan, given: Mapping[str, Placement]
) -> CoreInstance | None:
    """The core that does the whole run fastest; None if no core does all of it. Where operators are split over several
    cores of a design, none of these."""
    best: tuple[float, CoreInstance] | None = None
    numbers = scheduler.machine.accelerator.design_number
    placements = [plain.placements.get(operator.op.name) for operator in run]
    split = {numbers[placement.cores[0]] for placement in placements if placement and len(placement.cores) > 1}
    for instance, *_ in scheduler.machine.accelerator.like_cores:
        if instance.core.lanes <= 0 or numbers[instance.name] in split:
            continue
        cycles = [scheduler.costs.unfused_cycles(operator, instance) for operator in run]
        if None in cycles:
            continue
        seconds = sum(count for count in cycles if count is not None) / instance.core.clock_hz
        if best is None or seconds < best[0]:
            best = seconds, instance
    if best and any(
        given.get(operator.op.name, Placement((best[1].name,))).cores != (best[1].name,) for operator in run
    ):
        return None
    return best[1] if best else None
