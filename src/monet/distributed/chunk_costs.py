"""What the chunks of a plan cost: the first, one in the middle and the last, each with few blocks and with one more.

The difference is what a block costs when blocks follow each other, overlap between them included; a chunk of any length
is put together from that. Graphs and passes are kept by content, so plans share them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from monet.distributed.amounts import Amounts
from monet.distributed.memory import ChunkMemory, chunk_memory
from monet.distributed.network import Network
from monet.distributed.passes import pass_cost
from monet.distributed.plan import ParallelPlan, check_divides
from monet.distributed.ranks import rank_graphs
from monet.distributed.stages import RankGraphs, Stage
from monet.distributed.system import Devices
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.mapping.cost_store import CostStore, Section
from monet.training.options import TrainingOptions

FEW = 2  # blocks that are scheduled together; and one more
WHOLE = 3 * (FEW + 1)  # up to so many blocks, all are scheduled
FORWARD = (Phase.FORWARD, Phase.LOSS)
BACKWARD = (Phase.BACKWARD,)
LAST = (Phase.BACKWARD, Phase.UPDATE)

GRAPHS = Section[RankGraphs]("graphs of ranks", 48)
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
    """Graphs that stand for a chunk: of a micro-batch, and, perhaps of another plan, with the update."""

    key: Hashable
    micro_key: Hashable  # where ``micro`` is shared with other plans
    micro: Stage
    last: Stage
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

    def blocks(self, plan: ParallelPlan) -> tuple[int, ...]:
        """By run of equal blocks: how many the model has."""
        whole = replace(plan, pipeline=1, interleave=1, pipeline_schedule="1f1b", cuts=(), data=1, shard="none")
        return self.graphs(whole, 1, FEW).stages[0].blocks

    def sizes(self, plan: ParallelPlan) -> tuple[int, ...]:
        """Blocks of each chunk of a plan."""
        many = sum(self.blocks(plan))
        if not plan.cuts:
            check_divides("pipeline" if plan.interleave == 1 else "interleave", plan.chunks, many, "layers")
            return (many // plan.chunks,) * plan.chunks
        edges = (0, *plan.cuts, many)
        return tuple(end - begin for begin, end in pairwise(edges))

    def graphs(self, plan: ParallelPlan, micro_batches: int, most_blocks: int) -> RankGraphs:
        """The programs of a plan, every run of equal blocks cut down to so many (0: none is)."""
        passes = min(micro_batches, 2)

        def made() -> RankGraphs:
            forward = self.trained.forward(plan.micro_batch)
            return rank_graphs(forward, plan, self.trained.options, passes, most_blocks)

        return self.store[GRAPHS].get_or((self.trained.key, plan, passes, most_blocks), made)

    def memory(self, plan: ParallelPlan, micro_batches: int, most_blocks: int, chunk: int = 0) -> ChunkMemory:
        """Memory of a chunk of a plan, cut down to so many blocks."""
        stage = self.graphs(plan, micro_batches, most_blocks).stages[chunk]
        return self._memory(_Program((plan, most_blocks, chunk), None, stage, stage, most_blocks), micro_batches)

    def memories(self, plan: ParallelPlan, micro_batches: int) -> list[ChunkMemory]:
        """Memory of all chunks of a plan, in the order of the layers."""
        found, known = [], dict[tuple[Hashable, int], ChunkMemory]()
        for size, programs in self._programs(plan, micro_batches):
            key = programs[0].key, size
            if key not in known:
                made = [self._memory(program, micro_batches) for program in programs]
                known[key] = made[0] if len(made) == 1 else made[0].grown(made[1], size - programs[1].blocks)
            found.append(known[key])
        return found

    def chunks(
        self, plan: ParallelPlan, network: Network, devices: Sequence[Devices], micro_batches: int
    ) -> list[ChunkCost]:
        """All chunks of a plan, in the order of the layers; ``devices`` by stage."""
        found, known = [], dict[tuple[Hashable, int, str], ChunkCost]()
        for number, (size, programs) in enumerate(self._programs(plan, micro_batches)):
            device = devices[number % plan.pipeline]
            key = programs[0].key, size, device.key
            if key not in known:
                alone = plan.chunks == 1
                made = [self._cost(program, network, device, micro_batches, alone) for program in programs]
                known[key] = made[0] if len(made) == 1 else _grown(made[0], made[1], size)
            found.append(known[key])
        return found

    def _programs(self, plan: ParallelPlan, micro_batches: int) -> Iterator[tuple[int, tuple[_Program, ...]]]:
        """By chunk its blocks, and the programs it is costed by: its own, or two short ones that differ by a block. Of
        the latter the first chunk, one in between and the last stand for all. What a program does not depend on is as
        usual in its plan, so that other plans have the same."""
        runs, sizes = self.blocks(plan), self.sizes(plan)
        short = len(runs) == 1 and runs[0] > WHOLE
        parts = min(plan.chunks, 3) if short else plan.chunks
        cuts = tuple((FEW + 1) * number for number in range(1, parts)) if short else plan.cuts
        data = min(plan.data, 2) if plan.shard == "none" else plan.data
        synced = replace(plan, pipeline=parts, interleave=1, pipeline_schedule="1f1b", cuts=cuts, data=data)
        alone = replace(synced, shard="none", data=min(plan.data, 2)) if plan.shard == "states" else synced
        known: dict[int, tuple[_Program, ...]] = {}
        for number, size in enumerate(sizes):
            kind = number if not short or number == 0 else parts - 1 if number == plan.chunks - 1 else 1
            if kind not in known:
                known[kind] = tuple(
                    _Program(
                        (synced, most, kind),
                        (alone, most, kind),
                        self.graphs(alone, micro_batches, most).stages[kind],
                        self.graphs(synced, micro_batches, most).stages[kind],
                        most or size,
                    )
                    for most in ((FEW, FEW + 1) if short else (0,))
                )
            yield size, known[kind]

    def _cost(self, program: _Program, network: Network, device: Devices, micro_batches: int, alone: bool) -> ChunkCost:
        """A chunk whose graphs are given. Where it is ``alone``, its passes follow each other straight: what is on chip
        after the forward pass is there for the backward pass."""
        passes = min(micro_batches, 2)
        micro = program.micro_key or program.key, passes, "micro"
        last = program.key, passes, "last"
        before = FORWARD if alone else ()
        forward = self._passed(micro, program.micro.micro, FORWARD, network, device)
        backward = self._passed(micro, program.micro.micro, (*before, *BACKWARD), network, device)
        final = self._passed(last, program.last.last, (*before, *LAST), network, device)
        if alone:
            backward, final = backward - forward, final - forward
        return ChunkCost(program.blocks, forward, backward, final, self._memory(program, micro_batches))

    def _memory(self, program: _Program, micro_batches: int) -> ChunkMemory:
        stage = program.last
        return self.store[MEMORIES].get_or(
            (self.trained.key, program.key, min(micro_batches, 2)),
            lambda: chunk_memory(stage.micro, stage.update, stage.last),
        )

    def _passed(
        self, key: Hashable, graph: Graph, phases: tuple[Phase, ...], network: Network, device: Devices
    ) -> Amounts:
        """What some phases of a graph take on a device."""
        place = device.key, network.key(graph)
        return self.store[PASSES].get_or(
            (self.trained.key, key, phases, place, self.fusion, self.objective),
            lambda: pass_cost(graph, phases, device.accelerator, network, self.fusion, self.objective, self.store),
        )


def _grown(short: ChunkCost, longer: ChunkCost, blocks: int) -> ChunkCost:
    """A chunk of any length from two that differ by a block."""
    more = blocks - longer.blocks
    return ChunkCost(
        blocks,
        longer.forward + (longer.forward - short.forward) * more,
        longer.backward + (longer.backward - short.backward) * more,
        longer.last + (longer.last - short.last) * more,
        short.memory.grown(longer.memory, more),
    )
