"""Bytes between ranks equal closed forms, and bytes kept from forward to backward equal published ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from monet.distributed import ParallelPlan, rank_graphs
from monet.frontends import load_model
from monet.training.options import TrainingOptions
from tests.distributed.proof import BATCH, graphs_of
from tests.distributed.test_execution import PLANS
from tests.distributed.volume import activations, sent_bytes_by_group

LAYERS, HIDDEN, VOCABULARY, TOKENS, BYTES = 4, 16, 48, 8, 8  # of the GPT of proof.py, in fp64


def _ring(ranks: int, times: int = 1) -> float:
    """What a rank sends of a collective: all but its own part, once to add up and once to gather."""
    return times * (ranks - 1) / ranks


def expected(plan: ParallelPlan, passes: int) -> dict[tuple[str, str], float]:
    """The closed form: by group and kind, bytes that a rank of every chunk sends in a step, clipping included."""
    found: Counter[tuple[str, str]] = Counter()
    chunks, d, t = plan.chunks, plan.data, plan.tensor
    x, rows = BATCH * TOKENS * HIDDEN * BYTES, BATCH * TOKENS * BYTES

    def add(group: str, kind: str, size: float) -> None:
        found[group, kind] += size  # type: ignore[assignment]

    # Megatron: two sums in every layer, forward and backward, of the embedding one forward, of the head one backward
    again = {"none": 0, "selective": 0, "full": 2}[str(plan.recompute)]
    if t > 1 and plan.sequence_parallel:
        scattered = LAYERS * 4 + 2
        gathered = LAYERS * 6 + 3  # and once more what forward had gathered
        add("tensor", "reduce_scatter", passes * scattered * _ring(t) * x)
        add("tensor", "all_gather", passes * _ring(t) * (gathered * x + TOKENS * HIDDEN * BYTES))  # positions' gradient
        whole = LAYERS * 6 * HIDDEN + 2 * HIDDEN  # norms and biases that each rank has but a share of
        add("tensor", "all_reduce", _ring(t, 2) * whole * BYTES / _parts(plan))
    elif t > 1:
        add("tensor", "all_reduce", passes * (LAYERS * (4 + again) + 2) * _ring(t, 2) * x)
    if t > 1:
        add("tensor", "all_reduce", passes * 3 * _ring(t, 2) * rows + chunks * _ring(t, 2) * BYTES)
    # messages: an activation there, a gradient back
    if chunks > 1:
        sent = x / t if plan.sequence_parallel else x
        add("pipeline", "send", passes * (chunks - 1) * 2 * sent)
        add("pipeline", "all_reduce", chunks * _ring(chunks, 2) * BYTES)
        table = _flat([VOCABULARY * HIDDEN // t], d)[0] / (1 if plan.shard == "none" else d)
        add("tied", "all_reduce", 2 * _ring(2, 2) * table * BYTES)
    if d > 1:
        total = sum(_flat(_parameters(plan), d if plan.shard != "none" else 1)) * BYTES
        if plan.shard == "none":
            add("data", "all_reduce", _ring(d, 2) * total)
        else:
            add("data", "all_reduce", chunks * _ring(d, 2) * BYTES)
            add("data", "reduce_scatter", (1 if plan.shard == "states" else passes) * _ring(d) * total)
            if plan.shard == "parameters":  # once for forward; what backward reads (no bias, no look-up) once more
                total += sum(_flat(_parameters(plan, read=True), d)) * BYTES
            add("data", "all_gather", (passes if plan.shard == "parameters" else 1) * _ring(d) * total)
    return {key: size for key, size in found.items() if size}


def _parts(plan: ParallelPlan) -> int:
    """In how many parts replicas hold a gradient when it is added up over other groups."""
    return plan.data if plan.shard in ("gradients", "parameters") else 1


def _flat(sizes: list[int], replicas: int) -> list[int]:
    return [-(-size // replicas) * replicas for size in sizes]


def _parameters(plan: ParallelPlan, read: bool = False) -> list[int]:
    """Elements of every parameter as one tensor rank has it, the tied table in both chunks; or of those that backward
    reads."""
    t, h = plan.tensor, HIDDEN
    table = VOCABULARY * h // t
    weights = [3 * h * h // t, h * h // t, 4 * h * h // t, 4 * h * h // t, h, h]
    if read:
        return [*weights * LAYERS, table, h]
    biases = [3 * h // t, h, 4 * h // t, h, h, h]
    return [*[*weights, *biases] * LAYERS, table, *([table] if plan.chunks > 1 else []), TOKENS * h, h, h]


@pytest.mark.parametrize("name", PLANS)
def test_bytes_between_ranks_equal_closed_forms(name: str) -> None:
    given = dict(PLANS[name])
    passes = given.pop("passes", 1)
    graphs = graphs_of("gpt", passes, **given)
    found, form = sent_bytes_by_group(graphs), expected(graphs.plan, passes)
    assert found.keys() == form.keys()
    for key, size in form.items():
        assert found[key] == pytest.approx(size, rel=1e-12), key


# --- Korthikanti et al. 2022 (arXiv 2205.05198), Figures 1 and 7 ------------------------------------------------------

SIZES: dict[str, dict[str, Any]] = {  # heads, width, layers, micro-batch; pipeline and chunks of a device
    "22B": {"hidden": 6144, "heads": 64, "layers": 48, "batch": 4, "pipeline": 1, "interleave": 1},
    "175B": {"hidden": 12288, "heads": 96, "layers": 96, "batch": 1, "pipeline": 8, "interleave": 3},
    "530B": {"hidden": 20480, "heads": 128, "layers": 105, "batch": 1, "pipeline": 35, "interleave": 3},
    "1T": {"hidden": 25600, "heads": 160, "layers": 128, "batch": 1, "pipeline": 64, "interleave": 1},
}
GIB = {"22B": (59.25, 9.56), "175B": (66.84, 12.35)}  # nothing saved; sequence parallel and selective
PERCENT = {  # of what is kept without: sequence parallel, selective, both, full
    "22B": (66.84, 49.42, 16.18, 7.64),
    "175B": (62.04, 56.53, 18.49, 8.71),
    "530B": (58.31, 62.04, 20.27, 9.42),
    "1T": (58.31, 62.04, 20.27, 9.42),
}
BAR = 0.02
MODES = {"none": (False, "none"), "sequence": (True, "none"), "selective": (False, "selective"),
         "both": (True, "selective"), "full": (False, "full")}  # fmt: skip


def kept(size: str, mode: str) -> int:
    """Bytes of one micro-batch in the layers of the first chunk, dropout 0.1 with masks of a byte."""
    facts, (sequence, recompute) = SIZES[size], MODES[mode]
    text = f"hidden={facts['hidden']},heads={facts['heads']},layers={facts['layers']}"
    model = load_model(
        f"gpt:{text},vocabulary=51200,positions=2048,sequence=2048,dropout=0.1", batch=int(facts["batch"])
    )
    plan = ParallelPlan(
        tensor=8, pipeline=facts["pipeline"], interleave=facts["interleave"], sequence_parallel=sequence,
        recompute=recompute, micro_batch=facts["batch"],
    )  # fmt: skip
    options = TrainingOptions(precision="fp16", optimizer="adam")
    return activations(rank_graphs(model, plan, options, plan.pipeline, most_blocks=2).stages[0]).layers


@pytest.mark.parametrize(
    "size", ["22B", "175B", *(pytest.param(size, marks=pytest.mark.slow) for size in ("530B", "1T"))]
)
def test_activations_of_published_models(size: str) -> None:
    found = {mode: kept(size, mode) for mode in MODES}
    for mode, percent in zip(list(MODES)[1:], PERCENT[size], strict=True):
        assert 100 * found[mode] / found["none"] == pytest.approx(percent, rel=BAR), mode
    facts = SIZES[size]
    for mode, gib in zip(("none", "both"), GIB.get(size, ()), strict=False):
        # the first stage of 1F1B holds as many micro-batches of a chunk as there are stages; interleaved, of all
        # chunks together (Narayanan et al. 2021): pipeline × interleave + pipeline - 1
        p, v = int(facts["pipeline"]), int(facts["interleave"])
        held = p * v + p - 1 if v > 1 else p
        assert held * found[mode] / 2**30 == pytest.approx(gib, rel=BAR), mode
