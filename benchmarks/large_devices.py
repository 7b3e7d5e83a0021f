"""What large devices take: processor seconds of a first evaluation in a process, of one with a new graph, of one that
asks the same again, and of one on new hardware (more memory bandwidth), whose plan is sought; most memory; ratios.

``python -m benchmarks.large_devices [NAME …]`` runs all cases, or those whose name contains one of the words. Each has
a process of its own, so that the memory of one is not another's.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import monet
from monet.graph import Graph

BUS = """
name: many-cores
clock_hz: 1 GHz
node_nm: 7
cores:
  pe:
    kind: matrix
    count: {count}
    axes: {{k: {{size: 16, multicast: [I]}}, c: {{size: 16, reduce: true}}}}
    rates: {{fp16: {{}}}}
    vector: {{lanes: 16, dtypes: {{fp32: {{}}, fp16: {{}}, int64: {{}}, bool: {{}}}}}}
    memories: [{{name: sram, operands: [I, W, O], size_bytes: 256 KiB, bandwidth_bits_per_cycle: 512}}]
memories:
  l2: {{size_bytes: 64 MiB, ports: 1r1w, bandwidth_bits_per_cycle: 65536}}
dram:
  hbm: {{kind: HBM2E, capacity_bytes: 80e9, bandwidth_bytes_per_s: 3000 GB/s}}
network:
  crossbar: {{bus: [pe, l2], hub: l2, bandwidth_bits_per_cycle: 65536}}
  off_chip: {{link: [l2, hbm], bandwidth_bytes_per_s: 3000 GB/s}}
"""

LORA = {"lora": 8, "precision": "bf16", "sequence": 2048}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2-small on a100": ("gpt2-small", "a100", {"precision": "fp16"}),
    "vit-b16 on a100": ("vit-b16", "a100", {"precision": "fp16"}),
    "gpt2-xl on a100": ("gpt2-xl", "a100", {"precision": "fp16"}),
    "llama2-7b, LoRA, on a100": ("llama2-7b", "a100", LORA),
    "llama2-7b, LoRA, per block": ("llama2-7b", "a100", LORA | {"checkpoint": "per-block"}),
    "gpt2-small on 64 cores": ("gpt2-small", "64", {"precision": "fp16"}),
    "gpt2-small on 4,096 cores": ("gpt2-small", "4096", {"precision": "fp16"}),
    "12 layers on a100": ("gpt:layers=12,hidden=768,heads=12", "a100", {"precision": "fp16", "sequence": 256}),
    "96 layers on a100": ("gpt:layers=96,hidden=768,heads=12", "a100", {"precision": "fp16", "sequence": 256}),
}


def measured(name: str) -> tuple[float, float, float, float, float, int]:
    """Processor seconds of the first evaluation, of one whose graph is made anew, of one more, and of the same on new
    hardware, the least of three; seconds of the step, most bytes of the process."""
    model, hardware, options = CASES[name]
    if hardware.isdigit():
        from pathlib import Path
        from tempfile import mkdtemp

        path = Path(mkdtemp()) / "many-cores.yaml"
        path.write_text(BUS.format(count=hardware))
        hardware = str(path)
    request, took = monet.Request(model, hardware, **options), list[float]()
    for fresh in (False, True, False):
        begun = time.process_time()
        result = request.evaluate(_new_graph(request) if fresh else None)
        took.append(time.process_time() - begun)
    if not result.feasible:
        print(f"{name}: {result.reason}", file=sys.stderr)
    most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return took[0], took[1], took[2], min(_on_new_hardware(request)), result.latency_s, most


def _on_new_hardware(request: monet.Request) -> Iterator[float]:
    """Processor seconds on chips with bandwidths that nobody asked for before."""
    graph = request.graph()
    for _ in range(3):
        width = {"dram.hbm.bandwidth_bytes_per_s": 1.5e12 + random.random() * 1e12}
        other, begun = replace(request, set=width), time.process_time()
        other.evaluate(graph)
        yield time.process_time() - begun


def _new_graph(request: monet.Request) -> Graph:
    """The graph of a request, made again."""
    from monet.request.graphs import made_anew

    return made_anew(request)


def main() -> None:
    """Print a row per case, and ratios of those that belong together."""
    words, found, anew, sought = sys.argv[1:], dict[str, float](), dict[str, float](), dict[str, float]()
    print(f"{'':28}{'first':>9}{'new graph':>11}{'again':>9}{'new chip':>10}{'memory':>10}{'step':>11}")
    for name in (name for name in CASES if not words or any(word in name for word in words)):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            first, fresh, again, new, step, most = pool.apply(measured, (name,))
        found[name], anew[name], sought[name] = again, fresh, new
        times = f"{first:8.2f}s{fresh:10.2f}s{again:8.2f}s{new:9.2f}s"
        print(f"{name:28}{times}{most / 1e6:7.0f} MB{step * 1e3:8.2f} ms", flush=True)
    for large, small in (
        ("96 layers on a100", "12 layers on a100"),
        ("gpt2-small on 4,096 cores", "gpt2-small on 64 cores"),
    ):
        if large in found and small in found:
            graph, again, new = (took[large] / took[small] for took in (anew, found, sought))
            print(f"{large} against {small}: {graph:.1f}x with new graphs, {again:.1f}x again, {new:.1f}x on new chips")


if __name__ == "__main__":
    main()
