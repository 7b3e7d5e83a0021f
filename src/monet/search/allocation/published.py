"""Figures that others have published for the same network on the same accelerator, to stand beside ours."""

from __future__ import annotations

from dataclasses import dataclass

from monet.schedule.engine import Scheduler


@dataclass(frozen=True, slots=True)
class Published:
    """A published figure: what produced it, in which units, and where it is from."""

    name: str
    cycles: float
    energy_j: float
    source: str


_STREAM = "KULeuven-MICAS/stream, its own ResNet-18 on its own tpu_like_quad_core, run at commit"
ROWS = {
    ("resnet18-stream", "tpu-like-quad"): (
        Published("Stream, layer by layer, K split", 6_199_585, 4.607e-3, f"{_STREAM} 303f9dc1"),
        Published("Stream, fused, K split", 6_308_574, 3.050e-3, f"{_STREAM} 303f9dc1"),
        Published("Stream, fused, one core per layer", 6_696_091, 2.620e-3, f"{_STREAM} 303f9dc1"),
        Published("Stream, fused, genetic algorithm", 4_768_463, 2.422e-3, f"{_STREAM} ed4e12ef (4 × 4)"),
    )
}


def published_rows(scheduler: Scheduler) -> tuple[Published, ...]:
    """What is published for the graph and the accelerator at hand."""
    return ROWS.get((scheduler.workload.graph.name, scheduler.machine.accelerator.name), ())
