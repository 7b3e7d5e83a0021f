"""rank_graphs: a model and a parallel plan in, the program of every pipeline chunk out.

In this order: the forward graph with its loss; statistics and masks over replicas; features or rows over tensor ranks;
layers over stages; parameters over replicas; then differentiation, which makes the collectives of the backward pass;
recomputation; and the update, with the sums of gradients in front of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.network import is_collective
from monet.distributed.transform.blocks import Blocks, first_blocks
from monet.distributed.transform.chunks import Chunk, cut_into_chunks
from monet.distributed.transform.offloading import with_activations_away, with_states_away
from monet.distributed.transform.readiness import as_soon_as_ready, gathered_ahead, synchronising
from monet.distributed.transform.recomputation import check_names, recomputed
from monet.distributed.transform.replicas import flattened, gather_parameters, over_replicas
from monet.distributed.transform.sharding import Sharded, shard
from monet.distributed.transform.shortened import Shortened, shortened
from monet.distributed.transform.stages import RankGraphs, Stage
from monet.distributed.transform.synchronise import Shared, Update, accumulated, gradient_root, update_roots
from monet.errors import ModelError, OptionError
from monet.formats import FORMATS
from monet.graph import Graph, GraphBuilder, Phase
from monet.graph.parts import Part
from monet.graph.rewrite import prune
from monet.training.differentiate import differentiate
from monet.training.losses import attach_loss
from monet.training.options import TrainingOptions
from monet.training.step import finished, optimizer_of, trained_forward
from monet.transforms.checkpoint_plan import CheckpointPlan
from monet.transforms.precision import Precision


def rank_graphs(
    forward: Graph,
    plan: ParallelPlan,
    options: TrainingOptions | None = None,
    micro_batches: int = 1,
    most_blocks: int = 0,
) -> RankGraphs:
    """The programs of ``plan`` for a model at the batch size ``plan.micro_batch``. ``most_blocks``: of equal blocks in
    a row a chunk's graphs have at most so many (0: all), see ``stages.py``."""
    options = options or TrainingOptions()
    return programs_of(cut_forward(forward, plan, options, most_blocks), plan, options, micro_batches)


@dataclass(frozen=True)
class CutForward:
    """A forward graph with its loss, cut over tensor ranks and stages: what sharding among replicas, recomputation and
    the number of micro-batches have no part in."""

    short: Shortened
    policy: Precision
    sharded: Sharded
    chunks: tuple[Chunk, ...]
    tied: Mapping[str, tuple[int, ...]]
    summed_loss: bool


def cut_forward(forward: Graph, plan: ParallelPlan, options: TrainingOptions, most_blocks: int = 0) -> CutForward:
    """The first half of ``rank_graphs``."""
    if options.micro_batches != 1:
        raise OptionError("micro_batches", options.micro_batches, "of a parallel plan, its own number counts")
    if isinstance(plan.recompute, CheckpointPlan):
        most_blocks = 0  # it tells layers apart by name
    blocks = Blocks.of(forward, plan.chunks)
    short = shortened(forward, blocks, first_blocks(forward, blocks, plan), most_blocks)
    model, policy = trained_forward(short.graph, options)
    graph = _with_loss(model, options)
    graph = over_replicas(graph, plan, options.saved == "framework")
    sharded = shard(graph, plan.tensor, plan.sequence_parallel, plan.tensor_split == "rows")
    chunks = cut_into_chunks(sharded.graph, blocks.again(sharded.graph).spans(short.firsts), short.numbers)
    tied = _tied([chunk.graph for chunk in chunks], short.numbers)
    return CutForward(short, policy, sharded, tuple(chunks), tied, adds_up(options, forward))


def programs_of(
    cut: CutForward, plan: ParallelPlan, options: TrainingOptions, micro_batches: int, *, updates: bool = True
) -> RankGraphs:
    """The second half. Without ``updates`` programs of micro-batches are all that is made, and stand for the others."""
    if isinstance(plan.recompute, CheckpointPlan):
        check_names([chunk.graph for chunk in cut.chunks], plan.recompute)
    short = cut.short
    made = [
        _Program(number, chunk, plan, options, cut.policy, cut.sharded, cut.tied, micro_batches).stage(updates)
        for number, chunk in zip(short.numbers, cut.chunks, strict=True)
    ]
    stages = tuple(
        replace(made[which], number=number, blocks=short.blocks[number], kept=short.kept[number])
        for number, which in enumerate(short.stands_for)
    )
    return RankGraphs(plan, micro_batches, stages, cut.sharded.graph, cut.summed_loss)


def adds_up(options: TrainingOptions, model: Graph) -> bool:
    """Whether the loss of a batch is the sum of its samples' losses, not their mean."""
    return (options.loss or model.usual_loss) == "sum"


def _with_loss(model: Graph, options: TrainingOptions) -> Graph:
    builder = GraphBuilder.resume(model)
    with builder.at(Phase.LOSS):
        loss = attach_loss(builder, model.outputs[0], options.loss or model.usual_loss, options.class_axis)
    return builder.build([model.outputs[0]], loss)


def _tied(graphs: Sequence[Graph], numbers: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Trainable parameters of several chunks, and which these are."""
    holders: dict[str, list[int]] = {}
    for number, graph in zip(numbers, graphs, strict=True):
        for tensor in graph.parameters:
            if tensor.trainable:
                holders.setdefault(tensor.name, []).append(number)
    return {name: tuple(numbers) for name, numbers in holders.items() if len(numbers) > 1}


class _Program:
    """One chunk on its way from forward graph to program."""

    def __init__(
        self, number: int, chunk: Chunk, plan: ParallelPlan, options: TrainingOptions, policy: Precision,
        sharded: Sharded, tied: Mapping[str, tuple[int, ...]], micro_batches: int,
    ) -> None:  # fmt: skip
        self.number, self.chunk, self.plan, self.options, self.policy = number, chunk, plan, options, policy
        self.sharded, self.micro_batches = sharded, micro_batches
        own = {tensor.name: tensor for tensor in chunk.graph.parameters}
        self.shared = Shared(
            cut=frozenset(name for name in own if name in sharded.parts),
            partial=sharded.partial & own.keys(),
            tied={name: chunks for name, chunks in tied.items() if name in own},
            whole={name: tensor.shape for name, tensor in own.items()},
        )

    def stage(self, updates: bool = True) -> Stage:
        """The finished programs."""
        micro, gradients = self._micro()
        if not updates:
            return Stage(self.number, micro, micro, micro, {}, tuple(self.shared.tied))
        update, updated = self._update(*update_roots(micro, gradients))
        last, now = self._update(GraphBuilder.resume(micro), gradients, micro)
        last = as_soon_as_ready(last, synchronising(last))
        if self.plan.states_away:
            last, _ = with_states_away(last, now)
            update, updated = with_states_away(update, updated)
        roots = {name for graph in (micro, update) for name in graph.tensors if name not in graph.producer}
        flat = self._flat(roots)
        parts = {name: part for name, part in self._parts(micro, roots).items() if part}
        tied, partial = tuple(self.shared.tied), self.shared.partial
        return Stage(self.number, micro, update, last, parts, tied, updated=updated, flat=flat, partial=partial)

    # --- one micro-batch ---------------------------------------------------------------------------------------------

    def _micro(self) -> tuple[Graph, dict[str, str]]:
        plan, chunk = self.plan, self.chunk
        forward, received, replicas = chunk.graph, chunk.received, plan.data
        if plan.shard == "parameters" and replicas > 1:
            forward = gather_parameters(forward, replicas)
        builder = GraphBuilder.resume(forward)
        trained = [tensor.name for tensor in forward.parameters if tensor.trainable]
        arrived = [name for name in received if FORMATS[forward.tensors[name].dtype].may_train]
        end = chunk.sent or forward.loss
        with builder.at(Phase.BACKWARD, "loss", "loss"):
            share = 1.0 / (self.micro_batches * (1 if adds_up(self.options, forward) else replicas))
            seed = builder.emit("fill", name="seed", shape=(), value=share, dtype=builder.tensors[end].dtype)
        try:
            made = [op for op in forward.ops if op.kind != "receive"]  # its gradients are sent on below
            found = differentiate(builder, made, end, [*trained, *arrived], seed)
        except ModelError as error:
            raise OptionError("pipeline", plan.pipeline, f"chunk {self.number} trains nothing ({error})") from None
        differentiated = len(builder.ops)
        outputs = [*forward.outputs, *self._sent_back(builder, arrived, found)]
        gradients = {name: found[name] for name in trained if name in found}
        if plan.shard == "gradients" and replicas > 1:
            gradients = {name: self._scattered(builder, name, gradient) for name, gradient in gradients.items()}
        if self.micro_batches > 1 or plan.gradient_format:
            gradients = accumulated(builder, gradients, plan.gradient_format)
        leaving = _leaving(builder, differentiated)
        micro = prune(builder.build(outputs, forward.loss, gradients))
        micro = recomputed(finished(micro, self.options, self.policy), plan)
        micro = with_activations_away(micro) if plan.activations_away else micro
        return gathered_ahead(as_soon_as_ready(micro, leaving)), gradients

    def _sent_back(self, builder: GraphBuilder, arrived: Sequence[str], found: Mapping[str, str]) -> list[str]:
        """Gradients of what was received go back to the chunk before."""
        if not arrived:
            return []
        with builder.at(Phase.BACKWARD, "receive", "receive"):
            tensors = [builder.tensors[name] for name in arrived]
            parts = [
                found.get(x.name) or builder.emit("fill", shape=x.shape, value=0.0, dtype=x.dtype) for x in tensors
            ]
            return [builder.emit("send", *parts, peer=self.number - 1, group="pipeline", size=2)]

    def _scattered(self, builder: GraphBuilder, name: str, gradient: str) -> str:
        """A gradient added up over replicas, of which each keeps its part."""
        with builder.at(Phase.BACKWARD, name.rpartition(".")[0] or name, name):
            flat = flattened(builder, gradient, self.plan.data, "gradient")
            made = builder.emit("reduce_scatter", flat, axis=0, group="data", size=self.plan.data)
        builder.mark_gradient(made, name)
        return made

    # --- the update --------------------------------------------------------------------------------------------------

    def _update(
        self, builder: GraphBuilder, gradients: Mapping[str, str], micro: Graph | None = None
    ) -> tuple[Graph, dict[str, str]]:
        start = micro.outputs if micro else ()
        writer = Update(builder, self.plan, self.shared, self.number)
        updated = writer.write(gradients, optimizer_of(self.options), self.policy.master, self.options.clip_norm)
        return builder.build([*start, *updated.values()], micro.loss if micro else "", gradients), updated

    # --- how roots are cut from what one device has ------------------------------------------------------------------

    def _flat(self, roots: set[str]) -> dict[str, tuple[int, ...]]:
        """Roots that are a replica's part of a flattened tensor, and the shape that was flattened."""
        shard, found = self.plan.shard, dict[str, tuple[int, ...]]()
        if self.plan.data == 1 or shard == "none":
            return found
        for name, shape in self.shared.whole.items():
            if shard == "parameters" and name in roots:
                found[name] = shape
            if shard != "states" and gradient_root(name) in roots:
                found[gradient_root(name)] = shape
            found |= {root: shape for root in roots if _state_of(root, name)}
        return found

    def _parts(self, micro: Graph, roots: set[str]) -> dict[str, tuple[Part, ...]]:
        """Parameters, with their gradients and states, over tensor ranks; inputs and labels over replicas."""
        found = {name: self.sharded.parts.get(name, ()) for name in roots}
        for name in self.shared.cut:
            states = (root for root in roots if root == gradient_root(name) or _state_of(root, name))
            found |= dict.fromkeys(states, self.sharded.parts[name])
        if self.plan.data > 1:
            for name in micro.inputs:
                shape = micro.tensors[name].shape
                found[name] = (*found[name], Part.plain("data", self.plan.data, 0, shape[0] * self.plan.data))
        return found


def _leaving(builder: GraphBuilder, start: int) -> set[str]:
    """Operators from ``start`` on that need not wait for other ranks: what is done with what others sent comes when all
    else is, so that nobody stands still meanwhile."""
    sent = {name for op in builder.ops if is_collective(op) and op.attrs["group"] == "data" for name in op.outputs}
    found = set[str]()
    for op in builder.ops[start:]:
        if sent.isdisjoint(op.inputs):
            found.add(op.name)
        else:
            sent.update(op.outputs)
    return found


_STATES = ("master", "momentum", "first_moment", "second_moment")


def _state_of(root: str, parameter: str) -> bool:
    """Whether a root is optimizer state of a parameter's shape."""
    return root.rpartition(".")[0] == parameter and root.rpartition(".")[2] in _STATES
