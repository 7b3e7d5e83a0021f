"""Operators measured on GPUs against the scheduler: each a graph of one operator on the preset of its device.

A figure is the mean error over a group of rows, beside the error that a published predictor states for its own set.
Nothing is fitted but one gap before every call, stated per group: these timings have the host's part of a call in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from monet.graph import Graph, GraphBuilder
from monet.hardware import load_hardware
from monet.hardware.accelerator import Accelerator
from monet.schedule.evaluation import evaluate
from monet.validation.figure import Figure, NotComputable, Rule

TOPIC = "gpu operators"
COMPASS = (
    "Zhang et al., LLMCompass, ISCA 2024: measured on A100, PrincetonUniversity/LLMCompass 2e015fd, ae/figure5 "
    "(BSD-3-Clause); published: its own mean error"
)
NEUSIGHT = (
    "Lee et al., NeuSight, ASPLOS 2025: measured in fp32 without TF32, sitar-lab/NeuSight 6945927, data set (MIT); "
    "published: its own mean error on dimensions it was trained on"
)
MORLIER = "A100-SXM4-80GB kernel traces, JeremyMorlier/GPUModel (facts only)"

Row = tuple[tuple[int, ...], float]  # sizes of an operator, seconds


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one operator on one device: ``gap_s`` of every call is the host's, in place of the preset's launch."""

    name: str
    kind: str  # of operator
    dtype: str
    preset: str
    gap_s: float
    rows: tuple[Row, ...]
    published: float
    allowed: float
    source: str

    def figure(self) -> Figure:
        """The mean error as a figure."""
        note = f"mean |error| of {len(self.rows)} rows; {self.gap_s * 1e6:g} µs of every call are the host's"
        tolerance = self.allowed / self.published - 1
        return Figure(TOPIC, self.name, "", self.published, tolerance, self.source, self.mean_error, Rule.AT_MOST, note)

    def mean_error(self) -> float:
        """Mean of |ours / measured − 1|."""
        return sum(abs(error) for error in self.errors()) / len(self.rows)

    def errors(self) -> list[float]:
        """ours / measured − 1, row by row."""
        return [self._seconds(sizes) / measured - 1 for sizes, measured in self.rows]

    def _seconds(self, sizes: tuple[int, ...]) -> float:
        result = evaluate(operator(self.kind, self.dtype, *sizes), _device(self.preset))
        if not result.feasible:
            raise NotComputable(result.reason.message if result.reason else f"does not fit {self.preset}")
        return result.latency_s + self.gap_s


@cache
def _device(preset: str) -> Accelerator:
    return load_hardware(preset, {"launch_cycles": 0})


def operator(kind: str, dtype: str, *sizes: int) -> Graph:
    """A graph of one operator: of a product its rows, columns and what is summed, before them how many there are if it
    is batched; else the sizes of its input, of which
    the last is reduced over, if any is."""
    builder, more = GraphBuilder(kind), dict[str, Any]()
    if kind == "matmul":
        *batch, rows, columns, summed = sizes
        shapes = {"x": (*batch, rows, summed), "w": (*batch, summed, columns)}
        inputs = [builder.input(name, shape, dtype) for name, shape in shapes.items()]
        more = {"transpose_a": False, "transpose_b": False}
    else:
        inputs = [builder.input(name, sizes, dtype) for name in ("x", "y")[: 2 if kind == "add" else 1]]
        if kind == "softmax":
            more = {"axis": -1}
        if kind == "gelu":
            more = {"approximate": "none"}
    return builder.build(builder.emit_all(kind, *inputs, **more)[:1])


def _us(*rows: tuple[Any, ...]) -> tuple[Row, ...]:
    """Rows of sizes, then microseconds."""
    return tuple((tuple(row[:-1]), 1e-6 * row[-1]) for row in rows)


PRODUCTS = _us(
    (64, 12288, 12288, 190.0), (128, 12288, 12288, 200.3), (256, 12288, 12288, 318.5), (512, 12288, 12288, 611.8),
    (2048, 12288, 12288, 2358.6), (8192, 12288, 12288, 8621.6), (16384, 12288, 12288, 17031.0),
    (8192, 64, 64, 29.6), (8192, 128, 128, 31.0), (8192, 256, 256, 35.6), (8192, 512, 512, 47.1),
    (8192, 1024, 1024, 92.7), (8192, 2048, 2048, 281.8), (8192, 4096, 4096, 1021.0), (8192, 8192, 8192, 3961.4),
    (8192, 16384, 16384, 15009.0), (8192, 32768, 32768, 61135.0),
)  # fmt: skip
SHAPES = (
    (512, 1024, 1024), (512, 1600, 1600), (1024, 3072, 768), (1280, 1280, 2048), (1536, 1536, 2048), (4096, 3072, 768),
    (8192, 1280, 1280), (16384, 768, 2304), (32768, 2048, 2048), (65536, 1600, 1600),
)  # fmt: skip
LINEAR_MS: dict[str, tuple[float, ...]] = {
    "a100-pcie": (0.12098, 0.21897, 0.34727, 0.44987, 0.66837, 1.2172, 1.5587, 3.3961, 15.257, 19.131),
    "v100-pcie": (0.15676, 0.28959, 0.45132, 0.57764, 0.82945, 1.4999, 1.9796, 4.3882, 20.126, 25.236),
    "l4": (0.23113, 0.36267, 0.57058, 0.86637, 0.96007, 1.8288, 2.897, 7.1039, 30.028, 37.111),
}
BATCHED_SHAPES = (
    (80, 196, 64, 196), (16, 1024, 64, 1024), (48, 512, 256, 512), (128, 64, 1024, 1024), (2048, 384, 384, 64),
    (16384, 196, 64, 196), (32768, 64, 196, 196), (5120, 256, 384, 384),
)  # fmt: skip
BATCHED_MS: dict[str, tuple[float, ...]] = {
    "a100-pcie": (0.098795, 0.43759, 0.41914, 1.9927, 2.4227, 11.756, 23.123, 20.846),
    "l4": (0.17245, 1.0317, 0.92363, 4.2285, 8.7395, 31.713, 58.596, 54.314),
}
ADD_SHAPES = ((16384, 1024), (32768, 2048), (32768, 5120), (65536, 8192))
ADD_MS: dict[str, tuple[float, ...]] = {
    "a100-pcie": (0.13388, 0.48797, 1.2005, 3.8117),
    "v100-pcie": (0.2592, 0.98381, 2.4345, 7.7591),
    "l4": (0.85873, 3.4427, 8.6279, 27.572),
}
SOFTMAX_SHAPES = ((8192, 1280), (8192, 8192), (16384, 12288), (655360, 1024))
SOFTMAX_MS: dict[str, tuple[float, ...]] = {
    "a100-pcie": (0.096474, 0.38093, 1.5709, 3.2836),
    "v100-pcie": (0.15996, 1.3427, 4.1332, 6.662),
    "l4": (0.36545, 2.2622, 6.7809, 23.798),
}
TRACES = _us((12800, 12800, 12800, 15710.0), (25600, 25600, 25600, 117200.0), (1024, 1024, 1024, 17.15))
GELU = _us((4194304, 48.399), (16777216, 79.751), (67108864, 204.44), (268435456, 707.27), (536870912, 1375.4))


def _measured(shapes: tuple[tuple[int, ...], ...], ms: tuple[float, ...]) -> tuple[Row, ...]:
    return tuple((shape, 1e-3 * took) for shape, took in zip(shapes, ms, strict=True))


def groups() -> Iterator[Group]:
    """All groups."""
    yield Group("A100, matmul, fp16", "matmul", "fp16", "a100", 28e-6, PRODUCTS, 0.104, 0.15, COMPASS)
    yield Group("A100, matmul, fp16, kernels alone", "matmul", "fp16", "a100", 0.0, TRACES, 0.15, 0.20, MORLIER)
    yield Group("A100, gelu, fp16", "gelu", "fp16", "a100", 45e-6, GELU, 0.104, 0.15, COMPASS)
    for preset, ms in LINEAR_MS.items():
        rows = _measured(SHAPES, ms)
        yield Group(f"{preset}, linear, fp32", "matmul", "fp32", preset, 10e-6, rows, 0.20, 0.25, NEUSIGHT)
    for preset, ms in BATCHED_MS.items():
        rows = _measured(BATCHED_SHAPES, ms)
        yield Group(f"{preset}, batched, fp32", "matmul", "fp32", preset, 10e-6, rows, 0.26, 0.30, NEUSIGHT)
    for preset, ms in ADD_MS.items():
        rows = _measured(ADD_SHAPES, ms)
        yield Group(f"{preset}, add, fp32", "add", "fp32", preset, 10e-6, rows, 0.14, 0.15, NEUSIGHT)
    for preset, ms in SOFTMAX_MS.items():
        rows = _measured(SOFTMAX_SHAPES, ms)
        yield Group(f"{preset}, softmax, fp32", "softmax", "fp32", preset, 10e-6, rows, 0.193, 0.40, NEUSIGHT)


def figures() -> Iterator[Figure]:
    """The mean error of every group."""
    for group in groups():
        yield group.figure()
