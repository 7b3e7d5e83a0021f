"""Measured training runs over many devices beside ours: Megatron's, and those that vTrain was held against.

One device file and one system file for all rows. What Calculon predicts stands beside (its error, re-run with its own
A100 file); vTrain states mean errors only: 8.37 % of 1,440 rows on one node, 14.73 % of 109 on several. Times have no
tolerance yet; activation memory has one of 2 %, set before ours was known.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from monet.distributed.memory.memory import ChunkMemory
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import DistributedResult
from monet.distributed.systems.collectives import collective_cost
from monet.distributed.systems.system import load_system
from monet.options import options_of
from monet.report.distributed import parts_of
from monet.request.system_request import SystemRequest
from monet.validation.distributed_runs import (
    ALL_REDUCE,
    KEPT,
    LASTING,
    MEGATRON,
    MULTI_NODE,
    ONE_NODE,
    RUNS,
    SC21,
    VTRAIN,
    VTRAIN_MEANS,
    WEAK_SCALING,
    Gpt,
    Run,
)
from monet.validation.figure import Figure, NotComputable, Rule

TOPIC = "distributed training"
SYSTEM = "dgx-a100"
NCCL = "NCCL all-reduce on one A100 node, measured by the authors of vTrain (github VIA-Research/vTrain, MIT)"
GIB = 2.0**30
HOST_S = 40e-6  # that an eager framework's host takes for an operator: the best of 36 to 44 µs in steps of 2 for the
HOSTED = {1024: "chosen on these", 2048: "held out"}  # first of these two halves of the runs on one node


def figures() -> Iterator[Figure]:
    """Every figure of this topic."""
    for devices, size, micros in ALL_REDUCE:
        name = f"all-reduce of {size >> 20} MiB among {devices}"
        yield Figure(TOPIC, name, "µs", micros, 0.35, NCCL, lambda d=devices, s=size: _all_reduce(d, s))  # type: ignore[misc]
    yield from _memory()
    for run in (*RUNS, *_weak_scaling(), *_multi_node(), *_one_node()):
        beside = "" if run.calculon is None else f"Calculon {run.calculon:+g} %".replace("-", "−")
        yield Figure(
            TOPIC, f"step of {run.name}", "s", run.measured_s, 0.0, run.source, lambda run=run: _seconds(run),  # type: ignore[misc]
            Rule.BESIDE, beside, lambda run=run: _parts(run),  # type: ignore[misc]
        )  # fmt: skip
    for where, runs in (("several nodes", _multi_node), ("one node", _one_node)):
        vtrain, calculon = VTRAIN_MEANS[where]
        said = f"mean error of {len(list(runs()))} runs on {where}, vTrain's published"
        yield Figure(
            TOPIC, said, "%", vtrain, 0.0, VTRAIN, lambda runs=runs: _mean_error(list(runs())),  # type: ignore[misc]
            Rule.BESIDE, f"Calculon {calculon:g} %",
        )  # fmt: skip
    for hidden, chosen in HOSTED.items():
        said = f"mean error of runs on one node, 24 × {hidden}, a host of {1e6 * HOST_S:g} µs ({chosen})"
        rows = [run for run in _one_node() if run.network.hidden == hidden]
        yield Figure(
            TOPIC, said, "%", VTRAIN_MEANS["one node"][0], 0.0, VTRAIN, lambda rows=rows: _mean_error(rows, HOST_S),  # type: ignore[misc]
            Rule.BESIDE, "vTrain, all 1,440",
        )  # fmt: skip


def _weak_scaling() -> Iterator[Run]:
    for name, heads, hidden, layers, tensor, pipeline, devices, batch, seconds in WEAK_SCALING:
        data = devices // (tensor * pipeline)
        network = Gpt(hidden, heads, layers)
        yield Run(f"{name} on {devices}", network, batch, 1, tensor, data, pipeline, seconds, source=SC21)


def _multi_node() -> Iterator[Run]:
    for name, (network, batch, rows) in MULTI_NODE.items():
        for micro_batch, tensor, data, pipeline, measured, calculon in rows:
            said = f"{name}, micro {micro_batch}, t{tensor} d{data} p{pipeline}"
            yield Run(said, network, batch, micro_batch, tensor, data, pipeline, measured / 1e3, calculon)


def _one_node() -> Iterator[Run]:
    for hidden, layers, batch, micro_batch, tensor, data, pipeline, measured in ONE_NODE:
        network = Gpt(hidden, 16, layers, 50304, sequence=1024)
        said = f"{layers} × {hidden}, batch {batch}, micro {micro_batch}, t{tensor} d{data} p{pipeline}"
        yield Run(said, network, batch, micro_batch, tensor, data, pipeline, measured / 1e3)


def request_of(run: Run, host_s: float = 0.0) -> SystemRequest:
    """A measured run as it is asked for here; ``host_s``: what a host takes to issue an operator."""
    return SystemRequest(
        run.network.model, system=SYSTEM, batch=run.batch, micro_batch=run.micro_batch, tensor=run.tensor,
        data=run.data, pipeline=run.pipeline, interleave=run.interleave, sequence_parallel=run.sequence_parallel,
        recompute=run.recompute, precision="fp16", optimizer="adam", fusion="none",
        bucket_bytes=1 << 40 if run.data > 1 else options_of(SystemRequest)["bucket_bytes"].default,
        set={"host_dispatch_s": host_s} if host_s else {},
    )  # fmt: skip


@cache
def _result(run: Run, host_s: float = 0.0) -> DistributedResult:
    return request_of(run, host_s).distribute()


def _seconds(run: Run, host_s: float = 0.0) -> float:
    result = _result(run, host_s)
    if not result.latency_s:
        raise NotComputable(result.reason.message if result.reason else "no schedule")
    return result.latency_s


def _parts(run: Run) -> str:
    """Where a device's time goes, largest first."""
    result = _result(run)
    shares = sorted(((value / result.latency_s, name) for name, value in parts_of(result.time)), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f} %" for share, name in shares if share >= 0.005)


def _mean_error(runs: list[Run], host_s: float = 0.0) -> float:
    return 100 * sum(abs(_seconds(run, host_s) / run.measured_s - 1) for run in runs) / len(runs)


def _all_reduce(devices: int, size: int) -> float:
    return collective_cost("all_reduce", float(size), load_system(SYSTEM).spans(1, devices, devices)).seconds * 1e6


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory() -> Iterator[Figure]:
    for name, (network, pipeline, interleave, micro_batch, sizes, shares) in KEPT.items():
        place = network, pipeline, interleave, micro_batch
        for mode, gibibytes in sizes.items():
            said = f"activations of {name}, {_words(mode)}"
            yield Figure(TOPIC, said, "GiB", gibibytes, 0.02, MEGATRON, lambda p=place, m=mode: kept(*p, m) / GIB)  # type: ignore[misc]
        for mode, share in shares.items():
            said = f"activations of {name}, {_words(mode)}, of all"
            yield Figure(
                TOPIC, said, "%", share, 0.02, MEGATRON,
                lambda p=place, m=mode: 100 * kept(*p, m) / kept(*p, "none"),  # type: ignore[misc]
            )  # fmt: skip

    for name, (network, pipeline, gibibytes, calculon) in LASTING.items():
        said = f"weights, gradients, states of {name} (Calculon {calculon:+g} %)".replace("-", "−")
        yield Figure(
            TOPIC, said, "GiB", gibibytes, 0.02, MEGATRON, lambda n=network, p=pipeline: lasting(n, p) / GIB,  # type: ignore[misc]
        )  # fmt: skip


def _words(mode: str) -> str:
    words = {"none": "nothing saved", "seq": "sequence", "sel": "selective", "full": "full recomputation"}
    return " + ".join(words[part] for part in mode.split())


@cache
def kept(network: Gpt, pipeline: int, interleave: int, micro_batch: int, mode: str) -> float:
    """Bytes that the transformer layers of the first stage keep, of all micro-batches under way: (p − 1)/p · 1/v more
    than one pipeline's worth where chunks are interleaved (section 4.2.3 of the source)."""
    memory = block_memory(network, micro_batch, mode)
    layers = network.layers / pipeline
    first_stage = pipeline * (1 + (pipeline - 1) / (pipeline * interleave)) if pipeline > 1 else 1.0
    return memory.saved * layers * first_stage


def lasting(network: Gpt, pipeline: int) -> float:
    """Bytes of weights, gradients (in fp32, as Megatron adds them up) and states of the layers of a stage."""
    return sum(block_memory(network, 1, "none", "fp32").stays.values()) * network.layers / pipeline


def block_memory(network: Gpt, micro_batch: int, mode: str, gradient_format: str = "") -> ChunkMemory:
    """Memory of one transformer layer: the difference of programs that differ by one."""
    plan = ParallelPlan(
        tensor=8, micro_batch=micro_batch, sequence_parallel="seq" in mode, gradient_format=gradient_format,
        recompute="full" if "full" in mode else "selective" if "sel" in mode else "none",
    )  # fmt: skip
    request = SystemRequest(network.model, precision="fp16", optimizer="adam")
    coster = request.coster()
    shorter, longer = (coster.memory(plan, 2, blocks) for blocks in (2, 3))
    stays = {name: size - shorter.stays[name] for name, size in longer.stays.items()}
    return ChunkMemory(stays, longer.saved - shorter.saved)
