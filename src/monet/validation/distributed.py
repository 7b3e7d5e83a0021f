"""Measured training runs over many devices beside ours: Megatron's, and those that vTrain was held against.

One device file and one system file for all rows. What Calculon predicts stands beside (its error, re-run with its own
A100 file); vTrain states mean errors only: 8.37 % of 1,440 rows on one node, 14.73 % of 109 on several. Times have no
tolerance yet; activation memory has one of 2 %, set before ours was known.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from monet.distributed.collectives import collective_cost
from monet.distributed.memory import ChunkMemory
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import DistributedResult
from monet.distributed.system import load_system
from monet.request.system_request import SystemRequest
from monet.validation.figure import Figure, NotComputable, Rule

TOPIC = "distributed training"
SYSTEM = "dgx-a100"
MEGATRON = (
    "Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022 (Table 5, Figures 1 and 7)"
)
SC21 = "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, SC 2021 (Table 1, its times)"
VTRAIN = (
    "Bang et al., vTrain, MICRO 2024: measured runs of Megatron-DeepSpeed on A100 (github VIA-Research/vTrain, MIT)"
)
NCCL = "NCCL all-reduce on one A100 node, measured by the authors of vTrain (github VIA-Research/vTrain, MIT)"
GIB = 2.0**30


class Gpt(NamedTuple):
    """A GPT of a published run."""

    hidden: int
    heads: int
    layers: int
    vocabulary: int = 51200
    dropout: float = 0.1
    sequence: int = 2048

    @property
    def model(self) -> str:
        """As the zoo has it."""
        return (
            f"gpt:layers={self.layers},hidden={self.hidden},heads={self.heads},vocabulary={self.vocabulary},"
            f"positions={self.sequence},sequence={self.sequence},dropout={self.dropout}"
        )


class Run(NamedTuple):
    """A measured training step: seconds, and Calculon's error in per cent."""

    name: str
    network: Gpt
    batch: int
    micro_batch: int
    tensor: int
    data: int
    pipeline: int
    measured_s: float
    calculon: float | None = None
    interleave: int = 1
    sequence_parallel: bool = False
    recompute: str = "full"
    source: str = VTRAIN


B22, B175 = Gpt(6144, 64, 48), Gpt(12288, 96, 96)
B3_6 = Gpt(3072, 32, 30, 50304)  # 50,257 tokens, padded to a multiple of 128 as Megatron does
B39_1 = Gpt(8192, 64, 48, 50304)

RUNS = (
    Run("22B, full recomputation", B22, 4, 4, 8, 1, 1, 1.42, -1.7, source=MEGATRON),
    Run("22B, selective, sequence", B22, 4, 4, 8, 1, 1, 1.10, 3.3, 1, True, "selective", MEGATRON),
    Run("175B, full recomputation", B175, 64, 1, 8, 1, 8, 18.13, -0.6, 3, source=MEGATRON),
    Run("175B, selective, sequence", B175, 64, 1, 8, 1, 8, 13.75, -0.8, 3, True, "selective", MEGATRON),
)  # fmt: skip

# parameters, heads, hidden, layers, tensor, pipeline, devices, batch, seconds that its TFLOP/s mean
WEAK_SCALING = (
    ("1.7B", 24, 2304, 24, 1, 1, 32, 512, 3.53), ("3.6B", 32, 3072, 30, 2, 1, 64, 512, 3.70),
    ("7.5B", 32, 4096, 36, 4, 1, 128, 512, 3.70), ("39.1B", 64, 8192, 48, 8, 2, 512, 1536, 14.45),
    ("76.1B", 80, 10240, 60, 8, 4, 1024, 1792, 16.06), ("145.6B", 96, 12288, 80, 8, 8, 1536, 2304, 24.82),
    ("310.1B", 128, 16384, 96, 8, 16, 1920, 2160, 37.61), ("529.6B", 128, 20480, 105, 8, 35, 2520, 2520, 54.09),
    ("1008B", 160, 25600, 128, 8, 64, 3072, 3072, 102.63),
)  # fmt: skip

# micro-batch, tensor, data, pipeline, measured ms, Calculon's error in per cent at 12.5 GB/s a device between nodes
MULTI_NODE = {
    "3.6B": (B3_6, 512, (
        (8, 1, 64, 1, 3566.5, -7), (8, 2, 32, 1, 3975.2, -15), (16, 4, 16, 1, 4492.1, -13), (4, 1, 32, 2, 4382.1, -14),
        (16, 8, 8, 1, 5017.8, 5), (4, 8, 8, 1, 5618.0, 0), (32, 16, 4, 1, 10580.6, 192), (16, 16, 4, 1, 10719.3, 190),
        (8, 16, 4, 1, 10894.0, 188),
    )),
    "39.1B": (B39_1, 1536, (
        (2, 4, 32, 4, 13875.5, -13), (4, 4, 16, 8, 17413.6, -21), (2, 8, 32, 2, 14614.0, -5),
        (8, 8, 32, 2, 15212.8, -3), (4, 8, 16, 4, 14750.7, -1), (4, 8, 8, 8, 14967.1, 3), (4, 8, 4, 16, 15944.5, 6),
        (2, 2, 32, 8, 21890.4, -44),
    )),
}  # fmt: skip

# hidden, layers, batch, micro-batch, tensor, data, pipeline, measured ms
ONE_NODE = (
    (1024, 24, 32, 8, 1, 2, 1, 473.3), (1024, 24, 16, 8, 2, 1, 1, 299.7), (1024, 24, 16, 8, 8, 1, 1, 230.2),
    (1024, 24, 16, 1, 8, 1, 1, 1949.9), (2048, 24, 16, 8, 1, 1, 2, 746.7), (2048, 24, 32, 8, 1, 2, 1, 962.7),
    (2048, 24, 16, 8, 4, 1, 1, 384.9), (2048, 24, 32, 8, 2, 2, 2, 425.1), (2048, 24, 16, 1, 8, 1, 1, 1883.7),
)  # fmt: skip

ALL_REDUCE = (  # devices, bytes, µs
    (2, 1 << 20, 44.21), (2, 1 << 26, 404.7), (2, 1 << 30, 5442.8), (4, 1 << 20, 51.4), (4, 1 << 26, 543.8),
    (4, 1 << 30, 7259.4), (8, 1 << 20, 92.79), (8, 1 << 26, 579.9), (8, 1 << 30, 8193.0),
)  # fmt: skip

# activations of the first stage's layers, GiB; and per cent of what is kept without saving anything
KEPT = {
    "22B": (B22, 1, 1, 4, {"none": 59.25, "seq sel": 9.56},
            {"seq": 66.84, "sel": 49.42, "seq sel": 16.18, "full": 7.64}),
    "175B": (B175, 8, 3, 1, {"none": 66.84, "seq sel": 12.35},
             {"seq": 62.04, "sel": 56.53, "seq sel": 18.49, "full": 8.71}),
}  # fmt: skip


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
            Rule.BESIDE, beside,
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


def request_of(run: Run) -> SystemRequest:
    """A measured run as it is asked for here."""
    return SystemRequest(
        run.network.model, system=SYSTEM, batch=run.batch, micro_batch=run.micro_batch, tensor=run.tensor,
        data=run.data, pipeline=run.pipeline, interleave=run.interleave, sequence_parallel=run.sequence_parallel,
        recompute=run.recompute, precision="fp16", optimizer="adam", bucket_bytes=1 << 40, fusion="none",
    )  # fmt: skip


@cache
def _result(run: Run) -> DistributedResult:
    return request_of(run).distribute()


def _seconds(run: Run) -> float:
    result = _result(run)
    if not result.latency_s:
        raise NotComputable(result.reason.message if result.reason else "no schedule")
    return result.latency_s


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


def block_memory(network: Gpt, micro_batch: int, mode: str) -> ChunkMemory:
    """Memory of one transformer layer: the difference of programs that differ by one."""
    plan = ParallelPlan(
        tensor=8, micro_batch=micro_batch, sequence_parallel="seq" in mode,
        recompute="full" if "full" in mode else "selective" if "sel" in mode else "none",
    )  # fmt: skip
    request = SystemRequest(network.model, precision="fp16", optimizer="adam")
    coster = request.coster()
    shorter, longer = (coster.memory(plan, 2, blocks) for blocks in (2, 3))
    return ChunkMemory(saved=longer.saved - shorter.saved)
