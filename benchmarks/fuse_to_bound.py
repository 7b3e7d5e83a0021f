"""How far the plans of `monet fuse` are from what no plan is below: networks × accelerators, one training step each.

python benchmarks/fuse_to_bound.py [NETWORK …] [ACCELERATOR …]

Effort 1, bf16 (fp16 on a100), SGD; batches are small, so that the table is made in minutes. Rows of `docs/bounds.md`.
"""

from __future__ import annotations

import sys
import time
from statistics import mean

from monet.request.request import Request
from monet.schedule.engine import Scheduler
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.planning.default_plan import default_schedule
from monet.search.fusion.search import FusionSettings, find_fusion

NETWORKS: dict[str, tuple[str, dict[str, int]]] = {
    "resnet18": ("resnet18", {"batch": 2}),
    "gpt2": ("gpt2-mini", {"sequence": 128}),
    "mobilenetv2": ("mobilenetv2", {"batch": 2}),
    "vit": ("vit:layers=4,hidden=192,heads=3", {"batch": 2}),
}
ACCELERATORS = {"edge-tpu": "bf16", "tpu-v3": "bf16", "a100": "fp16"}
COLUMNS = (
    "| step | on | `monet run` | found | bound | distance | off-chip, bound | CPU |\n|---|---|---|---|---|---|---|---|"
)


def row(network: str, accelerator: str) -> tuple[float, float]:
    """Print a row; the distance to the bound of the default plan and of the one that is found."""
    model, sizes = NETWORKS[network]
    request = Request(model, accelerator, precision=ACCELERATORS[accelerator], **sizes)  # type: ignore[arg-type]
    began = time.process_time()
    scheduler = Scheduler(request.graph(), request.accelerator())
    default = default_schedule(scheduler).makespan / scheduler.machine.ticks_per_second
    _, figures = find_fusion(scheduler, FusionSettings(effort=1)).plans["found"]
    bound = bounds_of(scheduler.workload, scheduler.machine.accelerator)
    took, found = time.process_time() - began, figures.latency_s
    print(
        f"| {network} | {accelerator} | {1e3 * default:.4g} ms | {1e3 * found:.4g} ms | {1e3 * bound.latency_s:.4g} ms "
        f"| {found / bound.latency_s:.2f}× | {figures.dram_bytes / 1e6:.0f} MB, {bound.dram_bytes / 1e6:.0f} "
        f"| {took:.0f} s |",
        flush=True,
    )
    return default / bound.latency_s, found / bound.latency_s


def main(asked: list[str]) -> None:
    """All pairs, or those asked for."""
    networks = [name for name in asked if name in NETWORKS] or [*NETWORKS]
    accelerators = [name for name in asked if name in ACCELERATORS] or [*ACCELERATORS]
    print(COLUMNS)
    rows = [row(network, accelerator) for accelerator in accelerators for network in networks]
    default, found = (mean(column) for column in zip(*rows, strict=True))
    print(f"| mean of {len(rows)} | | {default:.2f}× | | | {found:.2f}× | | |")


if __name__ == "__main__":
    main(sys.argv[1:])
