"""Measured training runs over many devices that others have published, as tables."""

from __future__ import annotations

from typing import NamedTuple

MEGATRON = (
    "Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022 (Table 5, Figures 1 and 7)"
)
SC21 = "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, SC 2021 (Table 1, its times)"
VTRAIN = (
    "Bang et al., vTrain, MICRO 2024: measured runs of Megatron-DeepSpeed on A100 (github VIA-Research/vTrain, MIT)"
)


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
B530, B1008 = Gpt(20480, 128, 105), Gpt(25600, 160, 128)
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
        (8, 1, 64, 1, 3566.5, -7), (4, 1, 64, 1, 3638.3, -8), (8, 2, 32, 1, 3975.2, -15), (2, 1, 64, 1, 3700.5, -7),
        (16, 2, 32, 1, 3937.5, -15), (4, 2, 32, 1, 4078.2, -15), (2, 2, 32, 1, 4264.2, -16),
        (16, 4, 16, 1, 4492.1, -13), (32, 4, 16, 1, 4548.2, -15), (8, 4, 16, 1, 4634.4, -14),
        (4, 4, 16, 1, 4764.0, -15), (4, 1, 32, 2, 4382.1, -14), (2, 1, 32, 2, 4034.9, -12),
        (2, 4, 16, 1, 6228.3, -30), (8, 1, 32, 2, 5045.6, -13), (64, 8, 8, 1, 9838.9, -48), (32, 8, 8, 1, 4972.3, 4),
        (16, 8, 8, 1, 5017.8, 5), (8, 8, 8, 1, 5178.0, 4), (4, 8, 8, 1, 5618.0, 0), (2, 8, 8, 1, 8880.9, -30),
        (32, 16, 4, 1, 10580.6, 192), (16, 16, 4, 1, 10719.3, 190), (8, 16, 4, 1, 10894.0, 188),
        (4, 16, 4, 1, 11960.1, 167), (2, 16, 4, 1, 13472.2, 141),
    )),
    "39.1B": (B39_1, 1536, (
        (2, 2, 32, 8, 21890.4, -44), (2, 4, 32, 4, 13875.5, -13), (2, 2, 16, 16, 23747.9, -47),
        (3, 4, 32, 4, 16185.5, -22), (4, 4, 32, 4, 15625.6, -16), (2, 4, 16, 8, 16070.6, -23),
        (3, 2, 32, 8, 19067.2, -29), (3, 4, 16, 8, 17606.1, -26), (2, 4, 8, 16, 14529.6, -10),
        (3, 2, 16, 16, 26188.8, -47), (4, 4, 16, 8, 17413.6, -21), (6, 4, 32, 4, 18532.1, -23),
        (6, 8, 32, 2, 14915.5, -4), (8, 8, 32, 2, 15212.8, -3), (4, 8, 32, 2, 14757.3, -5),
        (12, 8, 32, 2, 17126.8, -8), (3, 8, 32, 2, 14850.4, -6), (3, 4, 8, 16, 15023.9, -8),
        (2, 8, 32, 2, 14614.0, -5), (4, 4, 8, 16, 15585.5, -6), (2, 8, 16, 4, 14713.4, -3),
        (6, 4, 16, 8, 16087.0, -6), (3, 8, 16, 4, 14833.8, -3), (4, 8, 16, 4, 14750.7, -1),
        (6, 8, 16, 4, 15249.4, 0), (2, 8, 8, 8, 15001.9, -1), (8, 8, 16, 4, 15814.5, 1), (3, 8, 8, 8, 15270.7, -1),
        (4, 8, 8, 8, 14967.1, 3), (6, 4, 8, 16, 20044.1, -19), (6, 8, 8, 8, 15775.3, 3), (12, 8, 16, 4, 17182.4, 1),
        (3, 1, 32, 16, 19991.0, -16), (2, 8, 4, 16, 15639.4, 3), (6, 2, 32, 8, 23062.9, -25),
        (3, 8, 4, 16, 16360.8, 1), (8, 8, 8, 8, 16413.4, 4), (4, 8, 4, 16, 15944.5, 6), (6, 8, 4, 16, 16232.8, 10),
        (6, 2, 16, 16, 27228.4, -33), (12, 8, 8, 8, 17999.5, 5), (12, 4, 16, 8, 20614.8, -6),
        (8, 8, 4, 16, 16877.1, 11), (12, 8, 4, 16, 18568.3, 13), (12, 4, 8, 16, 27810.3, -24),
        (24, 8, 8, 8, 23171.1, 6), (24, 8, 4, 16, 24169.9, 14),
    )),
}  # fmt: skip

# hidden, layers, batch, micro-batch, tensor, data, pipeline, measured ms
ONE_NODE = (
    (1024, 24, 16, 1, 1, 1, 2, 717.1), (1024, 24, 16, 8, 1, 1, 2, 372.2), (1024, 24, 32, 1, 1, 2, 1, 1271.9),
    (1024, 24, 32, 8, 1, 2, 1, 473.3), (1024, 24, 16, 1, 2, 1, 1, 1339.7), (1024, 24, 16, 8, 2, 1, 1, 299.7),
    (1024, 24, 64, 1, 1, 4, 1, 1273.3), (1024, 24, 64, 8, 1, 4, 1, 474.7), (1024, 24, 16, 1, 4, 1, 1, 1372.0),
    (1024, 24, 16, 8, 4, 1, 1, 249.7), (1024, 24, 128, 1, 1, 8, 1, 1274.0), (1024, 24, 128, 8, 1, 8, 1, 475.5),
    (1024, 24, 16, 1, 8, 1, 1, 1949.9), (1024, 24, 16, 8, 8, 1, 1, 230.2), (1024, 24, 32, 1, 2, 2, 2, 728.0),
    (1024, 24, 32, 8, 2, 2, 2, 231.8), (1024, 24, 16, 1, 2, 1, 4, 426.9), (1024, 24, 16, 8, 2, 1, 4, 200.2),
    (2048, 24, 16, 1, 1, 1, 2, 843.7), (2048, 24, 16, 8, 1, 1, 2, 746.7), (2048, 24, 32, 1, 1, 2, 1, 1456.5),
    (2048, 24, 32, 8, 1, 2, 1, 962.7), (2048, 24, 16, 1, 2, 1, 1, 1384.1), (2048, 24, 16, 8, 2, 1, 1, 548.8),
    (2048, 24, 64, 1, 1, 4, 1, 1455.0), (2048, 24, 64, 8, 1, 4, 1, 961.3), (2048, 24, 16, 1, 4, 1, 1, 1208.1),
    (2048, 24, 16, 8, 4, 1, 1, 384.9), (2048, 24, 128, 1, 1, 8, 1, 1454.6), (2048, 24, 128, 8, 1, 8, 1, 960.8),
    (2048, 24, 16, 1, 8, 1, 1, 1883.7), (2048, 24, 16, 8, 8, 1, 1, 325.5), (2048, 24, 32, 1, 2, 2, 2, 763.8),
    (2048, 24, 32, 8, 2, 2, 2, 425.1), (2048, 24, 16, 1, 2, 1, 4, 452.1), (2048, 24, 16, 8, 2, 1, 4, 365.1),
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
    "530B": (B530, 35, 3, 1, {}, {"seq": 58.31, "sel": 62.04, "seq sel": 20.27, "full": 9.42}),
    "1T": (B1008, 64, 1, 1, {}, {"seq": 58.31, "sel": 62.04, "seq sel": 20.27, "full": 9.42}),
}  # fmt: skip

# weights, gradients and states of the layers of a stage, GiB (Figure 1); and Calculon's error in per cent
LASTING = {"22B": (B22, 1, 45.56, -10.8), "175B": (B175, 8, 45.56, -10.2)}

# mean errors of others over the sets that these runs are from, in per cent: vTrain's own, Calculon's as re-run
VTRAIN_MEANS = {"several nodes": (14.73, 19.65), "one node": (8.37, 38.95)}
