"""What the chunks of a plan cost: the first, one in the middle and the last, each with few blocks and with one more.

The difference is what a block costs when blocks follow each other, overlap between them included; a chunk of any length
is put together from that. Graphs and passes are kept by content, so plans share them (``programs.py``). Programs that
do the same but send less, or have a block less, run by one plan: only the longest of them is fused anew.

No chunk takes less than its blocks take at least (``Least``): a search that leaves plans out by that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from monet.distributed.costs.amounts import Amounts
from monet.distributed.costs.floors import least_pass_seconds
from monet.distributed.costs.passes import Passed, planned_pass, scheduler_of
from monet.distributed.costs.programs import (
    BETWEEN,
    FEW,
    WHOLE,
    Program,
    kind_of,
    of_long_row,
    plain,
    sharing_less,
)
from monet.distributed.memory.memory import ChunkMemory, chunk_memory, saved_bytes
from monet.distributed.plan import ParallelPlan, check_divides
from monet.distributed.systems.collectives import collective_cost
from monet.distributed.systems.network import Network, groups_of
from monet.distributed.systems.system import Devices
from monet.distributed.transform.blocks import Blocks, span_of
from monet.distributed.transform.ranks import CutForward, cut_forward, programs_of
from monet.distributed.transform.stages import RankGraphs
from monet.errors import OptionError
from monet.graph.counts import call_of, macs_of
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.graph.operators.collective import payload_bytes
from monet.mapping.cost_store import CostStore, Section
from monet.training.options import TrainingOptions

FORWARD = (Phase.FORWARD, Phase.LOSS)
BACKWARD = (Phase.BACKWARD,)
LAST = (Phase.BACKWARD, Phase.UPDATE)

CUTS = Section[CutForward]("forward graphs cut over ranks", 48)
GRAPHS = Section[RankGraphs]("graphs of ranks", 48)
RUNS = Section[tuple[int, ...]]("runs of equal blocks", 256)
ALIKE = Section[tuple[int, ...]]("chunks that are alike", 4096)
GROUPS = Section[tuple[str, ...]]("groups that passes name", 16384)
PASSES = Section[Passed]("passes of ranks", 8192)
MEMORIES = Section[ChunkMemory]("memory of chunks", 4096)
FLOORS = Section[float]("least seconds of passes", 16384)
STATISTICS = Section[bool]("statistics that replicas exchange", 256)
SYNCED = {"none": ("all_reduce",), "states": ("reduce_scatter", "all_gather"), "gradients": ("all_gather",)}


class Least(NamedTuple):
    """Seconds of a block at least, by pass; ``apart``: what passes that follow each other straight may save; ``last``:
    on the port to other replicas, with the last backward pass and the update."""

    forward: float = 0.0
    backward: float = 0.0
    apart: float = 0.0
    last: float = 0.0


@dataclass(frozen=True)
class ChunkCost:
    """One chunk of layers on its device. ``last``: the backward pass of the last micro-batch, with what is left of
    synchronisation, and the update."""

    blocks: int
    forward: Amounts
    backward: Amounts
    last: Amounts
    memory: ChunkMemory


@dataclass(frozen=True)
class Trained:
    """A model to be trained: its forward graph at some number of samples. ``key`` says all that it was made from."""

    forward: Callable[[int], Graph]
    options: TrainingOptions
    key: Hashable


@dataclass(frozen=True)
class Coster:
    """Costs the chunks of plans of one model."""

    trained: Trained
    store: CostStore
    fusion: str = "auto"
    objective: str = "latency"

    def blocks(self) -> tuple[int, ...]:
        """By run of equal blocks: how many the model has."""
        return self.store[RUNS].get_or(self.trained.key, lambda: self.graphs(ParallelPlan(), 1, FEW).stages[0].blocks)

    def block_work(self) -> tuple[float, ...]:
        """Multiply-accumulates of each block of the model for one sample, one at least."""
        graph = self.trained.forward(1)
        blocks = Blocks.of(graph)
        spans = (span_of(blocks, number) for number in range(len(blocks)))
        return tuple(max(1.0, float(sum(macs_of(graph, graph.ops[at]) for at in span))) for span in spans)

    def sizes(self, plan: ParallelPlan) -> tuple[int, ...]:
        """Blocks of each chunk of a plan."""
        many = sum(self.blocks())
        if not plan.cuts:
            check_divides("pipeline", plan.pipeline, many, "layers")
            check_divides("interleave", plan.interleave, many // plan.pipeline, "layers of a stage")
            return (many // plan.chunks,) * plan.chunks
        if plan.cuts[-1] >= many:
            raise OptionError("cuts", list(plan.cuts), f"there are {many} layers, the last is {many - 1}")
        return tuple(end - begin for begin, end in pairwise((0, *plan.cuts, many)))

    def graphs(self, plan: ParallelPlan, micro_batches: int, most_blocks: int, *, updates: bool = True) -> RankGraphs:
        """The programs of a plan, every run of equal blocks cut down to so many (0: none is); without ``updates`` those
        of micro-batches only."""
        passes, options = min(micro_batches, 2), self.trained.options
        key = self.trained.key, plan, passes, most_blocks

        def made() -> RankGraphs:
            return programs_of(self._cut(plan, most_blocks), plan, options, passes, updates=updates)

        if not updates and (whole := self.store[GRAPHS].get((*key, True))):
            return whole
        return self.store[GRAPHS].get_or((*key, updates), made)

    def _cut(self, plan: ParallelPlan, most_blocks: int) -> CutForward:
        """The forward graph of a plan cut over ranks and chunks: the same whatever is recomputed, shared or offloaded;
        a plan that names what is recomputed may name no operator that is not there."""

        def cut() -> CutForward:
            return cut_forward(self.trained.forward(plan.micro_batch), plan, self.trained.options, most_blocks)

        if not isinstance(plan.recompute, str):
            return cut()
        same = replace(plan, recompute="none", offload="none", shard="none", pipeline_schedule="1f1b")
        return self.store[CUTS].get_or((self.trained.key, same, most_blocks), cut)

    def memory(self, plan: ParallelPlan, micro_batches: int, most_blocks: int, chunk: int = 0) -> ChunkMemory:
        """Memory of a chunk of a plan, cut down to so many blocks."""

        def made() -> ChunkMemory:
            stage = self.graphs(plan, micro_batches, most_blocks).stages[chunk]
            return chunk_memory(stage.micro, stage.update, stage.last)

        key = self.trained.key, plan, most_blocks, chunk, min(micro_batches, 2)
        return self.store[MEMORIES].get_or(key, made)

    def memories(self, plan: ParallelPlan, micro_batches: int) -> list[ChunkMemory]:
        """Memory of all chunks of a plan, in the order of the layers."""
        found, known = [], dict[tuple[int, int], ChunkMemory]()
        for size, programs in self._programs(plan, micro_batches):
            key = programs[0].number, size
            if key not in known:
                made = [self.memory(each.plan, micro_batches, each.most, each.number) for each in programs]
                known[key] = made[0] if len(made) == 1 else made[0].grown(made[1], size - programs[1].blocks)
            found.append(known[key])
        return found

    def chunks(
        self,
        plan: ParallelPlan,
        network: Network,
        devices: Sequence[Devices],
        micro_batches: int,
        *,
        updates: bool = True,
    ) -> list[ChunkCost]:
        """All chunks of a plan, in the order of the layers; ``devices`` by stage. Without ``updates`` the last backward
        pass is like the others, and memory is not looked at."""
        found, known = [], dict[tuple[int, int, str], ChunkCost]()
        for number, (size, programs) in enumerate(self._programs(plan, micro_batches)):
            device = devices[number % plan.pipeline]
            key = programs[0].number, size, device.key
            if key not in known:
                alone = plan.chunks == 1
                made = [self._cost(each, network, device, micro_batches, alone, updates) for each in programs]
                chunk = made[0] if len(made) == 1 else grown(made[0], made[1], size)
                least = self.least(plan, network, device, micro_batches)
                if not (updates or self.is_long(plan)):
                    least = Least(last=self._sync_seconds(programs[0], network, micro_batches) / size)
                known[key] = _no_less(chunk, least, alone, device.accelerator.host_dispatch_s)
            found.append(known[key])
        return found

    def span_costs(
        self, plan: ParallelPlan, span: range, network: Network, device: Devices, micro_batches: int
    ) -> tuple[ChunkCost, ...]:
        """A stage of these blocks: itself or, of a long row of equal blocks, two short ones that differ by a block and
        tell the cost of any length (``grown``). ``plan`` says how stages are shared, not where they lie."""
        alone, programs = self._span(plan, span, micro_batches)
        return tuple(self._cost(each, network, device, micro_batches, alone) for each in programs)

    def span_memories(self, plan: ParallelPlan, span: range, micro_batches: int) -> tuple[ChunkMemory, ...]:
        """The same of memory, with no device needed."""
        _, programs = self._span(plan, span, micro_batches)
        return tuple(self.memory(each.plan, micro_batches, each.most, each.number) for each in programs)

    def span_graph(self, plan: ParallelPlan, span: range, micro_batches: int, most_blocks: int) -> Graph:
        """The program of a micro-batch of a stage of these blocks; of a row of equal ones so many at most."""
        many, count = sum(self.blocks()), min(len(span), most_blocks)
        first, last = not span.start, span.stop == many
        if not self.repeats:
            borders = tuple(border for border in (span.start, span.stop) if 0 < border < many)
        elif first or last:
            borders = () if first and last else (count,) if first else (many - count,)
        else:
            borders = (1, 1 + count)
        cut = replace(plan, pipeline=len(borders) + 1, interleave=1, pipeline_schedule="1f1b", cuts=borders)
        shortest = count if self.repeats else 0
        return self.graphs(cut, micro_batches, shortest).stages[0 if first else 1].micro

    def _span(self, plan: ParallelPlan, span: range, micro_batches: int) -> tuple[bool, tuple[Program, ...]]:
        """Programs of a stage of these blocks, and whether it is the only one."""
        many = sum(self.blocks())
        if not 0 <= span.start < span.stop <= many:
            raise OptionError("cuts", [span.start, span.stop], f"there are {many} layers, the last is {many - 1}")
        if self.repeats and plan.pipeline > 1:
            borders = tuple(range(1, plan.pipeline))
            place = 0 if not span.start else plan.pipeline - 1 if span.stop == many else 1
        else:
            borders = tuple(border for border in (span.start, span.stop) if 0 < border < many)
            place = 1 if span.start else 0
        cut = replace(plan, pipeline=len(borders) + 1, interleave=1, pipeline_schedule="1f1b", cuts=borders)
        _, programs = list(self._programs(cut, micro_batches))[place]
        return cut.chunks == 1, programs

    # --- what blocks take at least -----------------------------------------------------------------------------------

    def floor(self, plan: ParallelPlan, network: Network, device: Devices, micro_batches: int) -> Least:
        """What no schedule of a block is below: its work, or its collectives in a row with the work in between; and its
        time on the port to other replicas. Known without a schedule; nothing where blocks are not alike."""
        if not self.is_long(plan):
            return Least()
        usual = replace(self._plain(plan), pipeline=1, interleave=1, pipeline_schedule="1f1b", cuts=())
        seconds = list[float]()
        for phases in (FORWARD, BACKWARD):
            programs = (Program(usual, usual, most, 0, most) for most in (FEW, FEW + 1))
            few, more = (self._least_pass(each, phases, network, device, micro_batches) for each in programs)
            seconds.append(more - few)
        ports = self.block_port_seconds(plan, network)
        forward, backward = (max(own, port, 0.0) for own, port in zip(seconds, ports, strict=True))
        return Least(forward, backward, _apart(device), self.block_sync_seconds(plan, network))

    def least(self, plan: ParallelPlan, network: Network, device: Devices, micro_batches: int) -> Least:
        """What chunks are taken to need for each of their blocks at least: as much as a block between others, of a
        program whose replicas share nothing. More has to be done elsewhere, never less; passes that follow each other
        straight spare at most what memories hold, on its way out and in."""
        if not self.is_long(plan):
            return Least()
        floor = self.floor(plan, network, device, micro_batches)
        between = self.between(plan, network, device, micro_batches)
        forward, backward = max(floor.forward, between[0]), max(floor.backward, between[1])
        return Least(forward, backward, floor.apart, floor.last)

    def between(self, plan: ParallelPlan, network: Network, device: Devices, micro_batches: int) -> tuple[float, float]:
        """What a block between others adds to both passes of a micro-batch, parameters and gradients not shared among
        replicas; 0 where blocks are not alike."""
        if not self.is_long(plan):
            return 0.0, 0.0
        usual = self._between(plan)
        shorter, longer = (
            self._micro(Program(usual, usual, most, BETWEEN, most), network, device, micro_batches, False)
            for most in (FEW, FEW + 1)
        )
        forward, backward = (
            after["seconds"] - before["seconds"] for before, after in zip(shorter, longer, strict=True)
        )
        return forward, backward

    def few(self, plan: ParallelPlan, network: Network, device: Devices, micro_batches: int) -> tuple[float, float]:
        """Both passes of ``FEW`` + 1 blocks between others, as ``between`` has them."""
        if not self.is_long(plan):
            return 0.0, 0.0
        usual = self._between(plan)
        program = Program(usual, usual, FEW + 1, BETWEEN, FEW + 1)
        forward, backward = self._micro(program, network, device, micro_batches, False)
        return forward["seconds"], backward["seconds"]

    def _between(self, plan: ParallelPlan) -> ParallelPlan:
        """A plan of which a chunk has blocks only, cut as ``plan`` cuts them."""
        return of_long_row(replace(self._plain(plan), pipeline=2, interleave=1, pipeline_schedule="1f1b", cuts=()))

    def _sync_seconds(self, program: Program, network: Network, micro_batches: int) -> float:
        """As ``block_sync_seconds``, of a whole chunk: its last backward pass and update take no less."""
        key = self.trained.key, program, "parameters"

        def made() -> float:
            graphs = self.graphs(program.micro, micro_batches, program.most, updates=False)
            return float(sum(x.bytes for x in graphs.stages[program.number].micro.parameters if x.trainable))

        share = program.plan.data > 1 and program.plan.shard in ("none", "states")
        return _synced(program.plan, network, self.store[FLOORS].get_or(key, made)) if share else 0.0

    def _plain(self, plan: ParallelPlan) -> ParallelPlan:
        return plain(plan, self._statistics(plan))

    def _statistics(self, plan: ParallelPlan) -> bool:
        """Whether replicas exchange something in every pass."""

        def made() -> bool:
            return any(op.kind == "batch_norm" for op in self.trained.forward(1).ops)

        return plan.data > 1 and plan.batch_norm == "sync" and self.store[STATISTICS].get_or(self.trained.key, made)

    def _least_pass(
        self, program: Program, phases: tuple[Phase, ...], network: Network, device: Devices, micro_batches: int
    ) -> float:
        groups = ("tensor",) if program.micro.shard == "none" and program.micro.data == 1 else ("tensor", "data")
        key = self.trained.key, program, phases, device.key, network.key(groups), min(micro_batches, 2)

        def made() -> float:
            graph = self.graphs(program.micro, micro_batches, program.most, updates=False).stages[program.number].micro
            scheduler = scheduler_of(graph, phases, device.accelerator, network, self.objective, self.store)
            if scheduler is None:
                return 0.0
            return least_pass_seconds(scheduler.workload, device.accelerator, self.store)

        return self.store[FLOORS].get_or(key, made)

    @property
    def repeats(self) -> bool:
        """Whether the model is a long row of equal blocks, of which few stand for all."""
        runs = self.blocks()
        return len(runs) == 1 and runs[0] > WHOLE

    def is_long(self, plan: ParallelPlan) -> bool:
        """Whether few blocks stand for all under a plan: one that names layers to recompute tells them apart."""
        return self.repeats and isinstance(plan.recompute, str)

    def block_saved_bytes(self, plan: ParallelPlan) -> float:
        """Bytes that a block between others holds from forward to backward of a micro-batch; 0 where blocks are not
        alike."""
        if not self.is_long(plan):
            return 0.0
        usual = replace(self._plain(plan), pipeline=1, interleave=1, pipeline_schedule="1f1b", cuts=())
        few, more = (saved_bytes(self.graphs(usual, 2, most, updates=False).stages[0].micro) for most in (FEW, FEW + 1))
        return more - few

    def block_port_seconds(self, plan: ParallelPlan, network: Network) -> tuple[float, float]:
        """For how long a block between others occupies a device's port to other replicas in each pass of a
        micro-batch, at least: its parameters gathered at once, its gradients scattered at once. Larger messages are
        never slower by the byte, so parameter by parameter takes no less. 0 where replicas share neither."""
        if not self.is_long(plan) or plan.data == 1 or plan.shard not in ("gradients", "parameters"):
            return 0.0, 0.0
        usual = replace(
            plan, data=2, micro_batch=1, recompute="none", sequence_parallel=False, pipeline=1, interleave=1,
            pipeline_schedule="1f1b", cuts=(),
        )  # fmt: skip  # weights are cut alike
        few, more = (self.graphs(usual, 2, most, updates=False).stages[0].micro for most in (FEW, FEW + 1))
        forward, backward = (
            sum(
                collective_cost(kind, size, network.spans["data"]).seconds
                for kind in ("all_gather", "reduce_scatter")
                if (size := _shared_bytes(more, kind, phase) - _shared_bytes(few, kind, phase)) > 0
            )
            for phase in (Phase.FORWARD, Phase.BACKWARD)
        )
        return forward, backward

    def block_sync_seconds(self, plan: ParallelPlan, network: Network) -> float:
        """For how long the gradients of a block, and its parameters where states are shared, occupy the port to other
        replicas once per step, at least: sent at once."""
        if not self.is_long(plan) or plan.data == 1 or plan.shard == "parameters":
            return 0.0
        usual = replace(self._between(plan), micro_batch=1, recompute="none", sequence_parallel=False)
        key = self.trained.key, usual, "parameters", plan.gradient_format

        def made() -> float:
            programs = (self.graphs(usual, 2, most, updates=False).stages[BETWEEN] for most in (FEW, FEW + 1))
            few, more = (sum(x.bytes for x in each.micro.parameters if x.trainable) for each in programs)
            return float(more - few)

        return _synced(plan, network, self.store[FLOORS].get_or(key, made))

    # --- programs ----------------------------------------------------------------------------------------------------

    def _programs(self, plan: ParallelPlan, micro_batches: int) -> Iterator[tuple[int, tuple[Program, ...]]]:
        """By chunk its blocks, and the programs it is costed by: its own, or two short ones that differ by a block."""
        sizes, long = self.sizes(plan), self.is_long(plan)
        usual = of_long_row(plan) if long else replace(plan, interleave=1, pipeline=plan.chunks)
        synced, micro = sharing_less(replace(usual, pipeline_schedule="1f1b"), self._statistics(plan))
        alike = () if long else self._alike(synced)
        known: dict[int, tuple[Program, ...]] = {}
        for number, size in enumerate(sizes):
            kind = kind_of(number, plan.chunks) if long else alike[number]
            if kind not in known:
                most = (FEW, FEW + 1) if long else (0,)
                known[kind] = tuple(Program(synced, micro, each, kind, each or size) for each in most)
            yield size, known[kind]

    def _alike(self, plan: ParallelPlan) -> tuple[int, ...]:
        """By chunk the first one that has the same programs."""

        def made() -> tuple[int, ...]:
            firsts: dict[int, int] = {}
            return tuple(
                firsts.setdefault(which, number) for number, which in enumerate(self._cut(plan, 0).short.stands_for)
            )

        return self.store[ALIKE].get_or((self.trained.key, plan), made)

    def _cost(
        self, program: Program, network: Network, device: Devices, micro_batches: int, alone: bool, updates: bool = True
    ) -> ChunkCost:
        """What a program costs. Where it is ``alone``, its passes follow each other straight: what is on chip after the
        forward pass is there for the backward pass."""
        forward, backward = self._micro(program, network, device, micro_batches, alone)
        if not updates:
            return ChunkCost(program.blocks, forward, backward, backward, ChunkMemory())
        phases = (*FORWARD, *LAST) if alone else LAST
        last = self._passed(program, "last", phases, network, device, micro_batches).amounts
        memory = self.memory(program.plan, micro_batches, program.most, program.number)
        memory = replace(memory, leaving=forward["leaving"]) if forward["leaving"] else memory
        return ChunkCost(program.blocks, forward, backward, last - forward if alone else last, memory)

    def _micro(
        self, program: Program, network: Network, device: Devices, micro_batches: int, alone: bool
    ) -> tuple[Amounts, Amounts]:
        """Forward and backward pass of a micro-batch."""
        forward = self._passed(program, "micro", FORWARD, network, device, micro_batches).amounts
        phases = (*FORWARD, *BACKWARD) if alone else BACKWARD
        backward = self._passed(program, "micro", phases, network, device, micro_batches).amounts
        return forward, backward - forward if alone else backward

    def _passed(
        self,
        program: Program,
        which: str,
        phases: tuple[Phase, ...],
        network: Network,
        device: Devices,
        micro_batches: int,
    ) -> Passed:
        """What some phases of a program take on a device."""
        plan = program.micro if which == "micro" else program.plan
        key = self.trained.key, plan, min(micro_batches, 2), program.most, program.number, which, phases

        def graph() -> Graph:
            made = self.graphs(plan, micro_batches, program.most, updates=which != "micro")
            stage = made.stages[program.number]
            return stage.micro if which == "micro" else stage.last

        def made() -> Passed:
            usual = self._plain(plan)
            model = replace(program, plan=usual, micro=usual, most=program.most and FEW + 1)
            like = None
            if self.fusion == "auto" and (which, plan, program.most) != ("micro", model.micro, model.most):
                fewer = tuple(phase for phase in phases if phase is not Phase.UPDATE)
                like = self._passed(model, "micro", fewer, network, device, micro_batches).plan
            common = device.accelerator, network, self.fusion, self.objective, self.store
            return planned_pass(graph(), phases, *common, like)

        groups = self.store[GROUPS].get_or(key, lambda: groups_of(graph(), phases))
        return self.store[PASSES].get_or((key, device.key, network.key(groups), self.fusion, self.objective), made)


def _synced(plan: ParallelPlan, network: Network, size_bytes: float) -> float:
    """Seconds that so many bytes of parameters occupy the port to other replicas once per step, sent at once."""
    kinds = SYNCED.get(plan.shard, ())
    return sum(collective_cost(kind, size_bytes, network.spans["data"]).seconds for kind in kinds)


def _apart(device: Devices) -> float:
    """What passes that follow each other straight spare at most: all that is on chip, written and read again."""
    chip = device.accelerator
    return 2 * sum(memory.size_bytes for memory in chip.memories) / chip.dram.bandwidth_bytes_per_s


def _no_less(chunk: ChunkCost, least: Least, alone: bool, host_s: float) -> ChunkCost:
    """A chunk that takes no less than its blocks do at least. A host gets ahead of the few that are scheduled where a
    long product comes before them, but not of all: every pass takes as long as it takes to issue, and what blocks take
    less than others is waiting for the host."""
    forward, backward, last = (part["seconds"] for part in (chunk.forward, chunk.backward, chunk.last))
    issued = [part["launches"] * host_s for part in (chunk.forward, chunk.backward, chunk.last)]
    if alone:
        more = chunk.blocks * (least.forward + least.backward) - least.apart - forward - backward
        lacks = 0.0, max(0.0, more, issued[0] + issued[1] - forward - backward), 0.0
    else:
        lacks = (
            max(0.0, chunk.blocks * least.forward - forward, issued[0] - forward),
            max(0.0, chunk.blocks * least.backward - backward, issued[1] - backward),
            0.0,
        )
    begun = forward if alone else 0.0
    synced = chunk.blocks * least.last - begun - last
    if host_s:
        issuing = issued[2] + (issued[0] - forward if alone else 0.0) - last
        lacks = *lacks[:2], max(0.0, backward + lacks[1] - last, issuing, synced)
    else:
        lacks = *lacks[:2], max(lacks[1], synced)
    if not any(lacks):
        return chunk
    parts = (
        part + Amounts({("seconds",): seconds, ("host",): seconds if host_s else 0.0})
        for part, seconds in zip((chunk.forward, chunk.backward, chunk.last), lacks, strict=True)
    )
    forwards, backwards, lasts = parts
    return replace(chunk, forward=forwards, backward=backwards, last=lasts)


def _shared_bytes(graph: Graph, kind: str, phase: Phase) -> float:
    """Bytes of collectives of a kind among replicas."""
    ours = (op for op in graph.ops if op.kind == kind and op.phase is phase and op.attrs["group"] == "data")
    return float(sum(payload_bytes(call_of(graph, op)) for op in ours))


def grown(short: ChunkCost, longer: ChunkCost, blocks: int) -> ChunkCost:
    """A chunk of any length from two that differ by a block."""
    more = blocks - longer.blocks
    return ChunkCost(
        blocks,
        longer.forward + (longer.forward - short.forward) * more,
        longer.backward + (longer.backward - short.backward) * more,
        longer.last + (longer.last - short.last) * more,
        short.memory.grown(longer.memory, more),
    )
