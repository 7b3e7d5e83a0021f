"""What a parallel plan makes of a model: one program for each pipeline chunk, run alike by all its ranks.

    rank_graphs(forward, plan, options, micro_batches, most_blocks=0) -> RankGraphs  (distributed/transform/ranks.py)

``forward`` is the model at the batch size ``plan.micro_batch``, as ``load_model`` gives it. All tensor and data ranks
of a stage run the same graph on values of their own; an operator that depends on the rank has the attribute ``parts``.

Collectives are operators of ``Family.COLLECTIVE`` with attributes ``group`` (``tensor``, ``data``, ``pipeline``,
``tied``) and ``size``; ``graph.operators.collective`` has ``payload_bytes(call)`` and ``sent_bytes(call, kind)``. They
carry the phase they belong to, so that the schedule of a graph overlaps them with what does not wait for them.

Time of a micro-batch: forward is ``Phase.FORWARD`` and ``Phase.LOSS`` of ``Stage.micro``, backward is
``Phase.BACKWARD``; ``graph.counts.part_of(graph, op)`` tells input gradients (dX), weight gradients (dW) and
recomputation apart. Once per step comes ``Stage.update`` (gradients over replicas and tied stages, clipping, the
optimizer, gathering). ``Stage.last`` is both in one graph, the last micro-batch of a step: there the gradients of a
bucket may leave while others are still worked on.

With ``most_blocks`` every chunk keeps at most so many equal blocks (layers) of a run; ``Stage.blocks`` says how many
each run has, ``Stage.kept`` how many are in its graphs. The difference of two such graphs is what a block costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monet.distributed.plan import ParallelPlan
from monet.graph import Graph
from monet.graph.parts import Part


@dataclass(frozen=True)
class Stage:
    """One chunk of the layers, as each of its ranks runs it. Device ``number % pipeline`` of a pipeline has it.

    ``micro`` is one micro-batch: forward, loss (of the last chunk) and backward. With several micro-batches it adds
    gradients to roots called ``<parameter>.gradient``. ``update`` reads those (or what ``micro`` calls the gradients)
    and is run once per step.

    ``updated`` has, by root (parameter or state), the tensor of ``update`` that holds its next value. ``parts`` says of
    every root how it was cut from the value that one device has; absent: it is whole. ``flat`` has roots of which each
    replica holds one of equal parts of all elements in one row, filled up with zeros, and their shape before that.
    ``partial``: parameters of whose gradients every tensor rank has a share until the update adds them up.
    ``tied`` has the parameters that another chunk holds too. ``blocks`` and ``kept``: by run of equal blocks, how many
    the chunk has and how many of them are in the graphs.
    """

    number: int
    micro: Graph
    update: Graph
    last: Graph
    parts: Mapping[str, tuple[Part, ...]]
    tied: tuple[str, ...] = ()
    blocks: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    updated: Mapping[str, str] = field(default_factory=dict)
    flat: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    partial: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RankGraphs:
    """The programs of a plan: one for each chunk, in the order of the layers. Chunks that are alike share graphs.

    ``whole`` is the forward graph with its loss before it was cut over pipeline stages, as every tensor rank has it.
    ``summed_loss``: the loss of a batch is the sum of the replicas' losses, not their mean.
    """

    plan: ParallelPlan
    micro_batches: int
    stages: tuple[Stage, ...]
    whole: Graph = field(repr=False)
    summed_loss: bool = False
