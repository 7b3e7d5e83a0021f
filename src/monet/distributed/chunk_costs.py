"""What the chunks of a plan cost: the first, one in the middle and the last, each with few blocks and with one more.

The difference is what a block costs when blocks follow each other, overlap between them included; a chunk of any length
is put together from that. Graphs and passes are kept by content, so plans share them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from monet.distributed.amounts import Amounts
from monet.distributed.blocks import Blocks, span_of
from monet.distributed.collectives import collective_cost
from monet.distributed.memory import ChunkMemory, chunk_memory
from monet.distributed.network import Network, groups_of
from monet.distributed.passes import pass_cost
from monet.distributed.plan import ParallelPlan, check_divides
from monet.distributed.ranks import rank_graphs
from monet.distributed.stages import RankGraphs
from monet.distributed.system import Devices
from monet.errors import OptionError
from monet.graph.counts import call_of, macs_of
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.graph.operators.collective import payload_bytes
from monet.mapping.cost_store import CostStore, Section
from monet.training.options import TrainingOptions

FEW = 2  # blocks that are scheduled together; and one more
WHOLE = 3 * (FEW + 1)  # up to so many blocks, all are scheduled
FORWARD = (Phase.FORWARD, Phase.LOSS)
BACKWARD = (Phase.BACKWARD,)
LAST = (Phase.BACKWARD, Phase.UPDATE)

GRAPHS = Section[RankGraphs]("graphs of ranks", 48)
RUNS = Section[tuple[int, ...]]("runs of equal blocks", 256)
ALIKE = Section[tuple[int, ...]]("chunks that are alike", 4096)
GROUPS = Section[tuple[str, ...]]("groups that passes name", 16384)
PASSES = Section[Amounts]("passes of ranks", 16384)
MEMORIES = Section[ChunkMemory]("memory of chunks", 4096)


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
class _Program:
    """A chunk of a plan, cut down to ``most`` blocks of each run (0: none is). What it does in a micro-batch is that of
    ``micro``, a plan that shares less."""

    plan: ParallelPlan
    micro: ParallelPlan
    most: int
    number: int
    blocks: int


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
            check_divides("pipeline" if plan.interleave == 1 else "interleave", plan.chunks, many, "layers")
            return (many // plan.chunks,) * plan.chunks
        if plan.cuts[-1] >= many:
            raise OptionError("cuts", list(plan.cuts), f"there are {many} layers, the last is {many - 1}")
        return tuple(end - begin for begin, end in pairwise((0, *plan.cuts, many)))

    def graphs(self, plan: ParallelPlan, micro_batches: int, most_blocks: int) -> RankGraphs:
        """The programs of a plan, every run of equal blocks cut down to so many (0: none is)."""
        passes = min(micro_batches, 2)

        def made() -> RankGraphs:
            forward = self.trained.forward(plan.micro_batch)
            return rank_graphs(forward, plan, self.trained.options, passes, most_blocks)

        return self.store[GRAPHS].get_or((self.trained.key, plan, passes, most_blocks), made)

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
        self, plan: ParallelPlan, network: Network, devices: Sequence[Devices], micro_batches: int
    ) -> list[ChunkCost]:
        """All chunks of a plan, in the order of the layers; ``devices`` by stage."""
        found, known = [], dict[tuple[int, int, str], ChunkCost]()
        for number, (size, programs) in enumerate(self._programs(plan, micro_batches)):
            device = devices[number % plan.pipeline]
            key = programs[0].number, size, device.key
            if key not in known:
                alone = plan.chunks == 1
                made = [self._cost(program, network, device, micro_batches, alone) for program in programs]
                known[key] = made[0] if len(made) == 1 else grown(made[0], made[1], size)
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

    def _span(self, plan: ParallelPlan, span: range, micro_batches: int) -> tuple[bool, tuple[_Program, ...]]:
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

    def block_seconds(self, plan: ParallelPlan, network: Network, device: Devices) -> float:
        """What a block between others adds to both passes of a micro-batch, parameters and gradients not shared among
        replicas; 0 where blocks are not alike."""
        if not self.repeats:
            return 0.0
        usual = _between(plan)
        shorter, longer = (
            self._micro(_Program(usual, usual, most, 1, most), network, device, 2, False) for most in (FEW, FEW + 1)
        )
        return sum(after["seconds"] - before["seconds"] for before, after in zip(shorter, longer, strict=True))

    @property
    def repeats(self) -> bool:
        """Whether the model is a long row of equal blocks, of which few stand for all."""
        runs = self.blocks()
        return len(runs) == 1 and runs[0] > WHOLE

    def block_saved_bytes(self, plan: ParallelPlan) -> float:
        """Bytes that a block between others holds from forward to backward of a micro-batch; 0 where blocks are not
        alike."""
        if not self.repeats:
            return 0.0
        usual = _between(plan)
        return self.memory(usual, 2, FEW + 1, 1).saved - self.memory(usual, 2, FEW, 1).saved

    def block_port_seconds(self, plan: ParallelPlan, network: Network) -> float:
        """For how long a block between others occupies a device's port to other replicas in both passes of a
        micro-batch, at least: its parameters gathered at once, its gradients scattered at once. Larger messages are
        never slower by the byte, so parameter by parameter takes no less. 0 where replicas share neither."""
        if not self.repeats or plan.data == 1 or plan.shard not in ("gradients", "parameters"):
            return 0.0
        usual = replace(_between(plan), data=2, shard=plan.shard, micro_batch=1, recompute="none")
        usual = replace(usual, sequence_parallel=False)  # weights are cut alike
        seconds = 0.0
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            few, more = (self.graphs(usual, 2, most).stages[1].micro for most in (FEW, FEW + 1))
            for kind in ("all_gather", "reduce_scatter"):
                size = _shared_bytes(more, kind, phase) - _shared_bytes(few, kind, phase)
                seconds += collective_cost(kind, size, network.spans["data"]).seconds if size > 0 else 0.0
        return seconds

    def _programs(self, plan: ParallelPlan, micro_batches: int) -> Iterator[tuple[int, tuple[_Program, ...]]]:
        """By chunk its blocks, and the programs it is costed by: its own, or two short ones that differ by a block. Of
        the latter the first chunk, one in between and the last stand for all. What a program does not depend on is as
        usual in its plan, so that other plans have the same."""
        runs, sizes = self.blocks(), self.sizes(plan)
        short = len(runs) == 1 and runs[0] > WHOLE
        parts = min(plan.chunks, 3) if short else plan.chunks
        cuts = tuple((FEW + 1) * number for number in range(1, parts)) if short else plan.cuts
        data = min(plan.data, 2) if plan.shard == "none" else plan.data
        synced = replace(plan, pipeline=parts, interleave=1, pipeline_schedule="1f1b", cuts=cuts, data=data)
        alone = replace(synced, shard="none", data=min(plan.data, 2)) if plan.shard == "states" else synced
        alike = tuple(range(parts)) if short else self._alike(synced, micro_batches)
        known: dict[int, tuple[_Program, ...]] = {}
        for number, size in enumerate(sizes):
            kind = alike[number] if not short or number == 0 else parts - 1 if number == plan.chunks - 1 else 1
            if kind not in known:
                most = (FEW, FEW + 1) if short else (0,)
                known[kind] = tuple(_Program(synced, alone, each, kind, each or size) for each in most)
            yield size, known[kind]

    def _alike(self, plan: ParallelPlan, micro_batches: int) -> tuple[int, ...]:
        """By chunk the first one that has the same programs."""

        def made() -> tuple[int, ...]:
            stages = self.graphs(plan, micro_batches, 0).stages
            firsts: dict[tuple[int, int], int] = {}
            return tuple(
                firsts.setdefault((id(stage.micro), id(stage.last)), number) for number, stage in enumerate(stages)
            )

        return self.store[ALIKE].get_or((self.trained.key, plan, min(micro_batches, 2)), made)

    def _cost(self, program: _Program, network: Network, device: Devices, micro_batches: int, alone: bool) -> ChunkCost:
        """What a program costs. Where it is ``alone``, its passes follow each other straight: what is on chip after the
        forward pass is there for the backward pass."""
        forward, backward = self._micro(program, network, device, micro_batches, alone)
        phases = (*FORWARD, *LAST) if alone else LAST
        last = self._passed(program, "last", phases, network, device, micro_batches)
        memory = self.memory(program.plan, micro_batches, program.most, program.number)
        return ChunkCost(program.blocks, forward, backward, last - forward if alone else last, memory)

    def _micro(
        self, program: _Program, network: Network, device: Devices, micro_batches: int, alone: bool
    ) -> tuple[Amounts, Amounts]:
        """Forward and backward pass of a micro-batch."""
        forward = self._passed(program, "micro", FORWARD, network, device, micro_batches)
        phases = (*FORWARD, *BACKWARD) if alone else BACKWARD
        backward = self._passed(program, "micro", phases, network, device, micro_batches)
        return forward, backward - forward if alone else backward

    def _passed(
        self,
        program: _Program,
        which: str,
        phases: tuple[Phase, ...],
        network: Network,
        device: Devices,
        micro_batches: int,
    ) -> Amounts:
        """What some phases of a program take on a device."""
        plan = program.micro if which == "micro" else program.plan
        key = self.trained.key, plan, min(micro_batches, 2), program.most, program.number, which, phases

        def graph() -> Graph:
            stage = self.graphs(plan, micro_batches, program.most).stages[program.number]
            return stage.micro if which == "micro" else stage.last

        groups = self.store[GROUPS].get_or(key, lambda: groups_of(graph(), phases))
        return self.store[PASSES].get_or(
            (key, device.key, network.key(groups), self.fusion, self.objective),
            lambda: pass_cost(graph(), phases, device.accelerator, network, self.fusion, self.objective, self.store),
        )


def _between(plan: ParallelPlan) -> ParallelPlan:
    """A plan whose chunk 1 has blocks only, cut as ``plan`` cuts them; replicas share nothing."""
    return replace(
        plan, pipeline=3, interleave=1, pipeline_schedule="1f1b", cuts=(FEW + 1, 2 * FEW + 2), data=1, shard="none"
    )  # fmt: skip


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
