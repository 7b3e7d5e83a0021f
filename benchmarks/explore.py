"""How fast a space is explored: points per second and core, against the budget and against Stream's time for one point.

python benchmarks/explore.py [CORES]      whole groups of designs that share a core, as an exhaustive search meets them
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("MONET_CACHE", "off")  # nothing mapped by an earlier run may help

from monet.search.hardware.engine import Engine, local
from monet.search.hardware.evaluation import evaluate
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space, load_space, space_from_text
from monet.search.hardware.store import open_store

POINTS, MINUTES, CORES = 10_000, 60, 2
BUDGET_S = MINUTES * 60 * CORES / POINTS  # CPU seconds a point may take
GRIDS = 25  # designs of the space that share a core
# CPU seconds of Stream for one fused ResNet-18 inference with its allocation given. The paper's sweep lets it search
# for one (4 × 4 individuals), for inference and for training.
STREAM_S = 119.0
OVERHEAD_MS = 10.0


def whole_space(cores: int) -> None:
    space = load_space("edge-tpu")
    points = list(space.points())
    evaluate(space.text, points[0])  # kernels loaded, graphs built
    chosen = random.Random(0).sample(range(len(points) // GRIDS), cores)
    seconds = []
    for number in chosen:
        records = [evaluate(space.text, one) for one in points[number * GRIDS : (number + 1) * GRIDS]]
        assert all(one.ok or one.reason for one in records)
        seconds += [one.seconds for one in records]
    mean = sum(seconds) / len(seconds)
    print(f"edge-tpu, ResNet-18 32×32 batch 4, inference and training: {len(seconds)} designs of {cores} cores")
    print(f"  {mean:.3f} CPU s a point   budget {BUDGET_S:.2f} s   {mean / BUDGET_S:.2f}×")
    minutes = mean * POINTS / 60 / CORES
    print(f"  {1 / mean:.2f} points a second and core; {POINTS:,} points in {minutes:.0f} minutes on {CORES} cores")
    print(f"  one fused inference alone takes Stream {STREAM_S:.0f} CPU s: {STREAM_S / mean:,.0f} times both of these")


def overhead() -> None:
    """Wall time a point takes beyond its evaluation: claims, pipes, the store."""
    space = _grid()
    points = list(space.points())
    with (
        tempfile.TemporaryDirectory() as folder,
        local(1) as (make, slots),
        open_store(Path(folder) / "s", space, "benchmark", resume=False) as store,
        Engine(store, make, 2 * slots, function=f"{Path(__file__).stem}:nothing") as engine,
    ):
        engine.evaluate(points[:10])  # the process starts
        began, cpu = time.perf_counter(), time.process_time()
        engine.evaluate(points[10:])
        each = (time.perf_counter() - began) / len(points[10:]) * 1e3
        own = (time.process_time() - cpu) / len(points[10:]) * 1e3
    said = f"{each:.2f} ms a point, {own:.2f} ms of it CPU of the coordinator"
    print(f"engine and store: {said}   budget {OVERHEAD_MS:.0f} ms   {each / OVERHEAD_MS:.2f}×")


def nothing(space_text: str, values: dict[str, object]) -> Record:
    return Record(values, "ok", "", {"area_mm2": 1.0}, 0.0, 1, "benchmark")


def _grid() -> Space:
    space = load_space("edge-tpu")
    whole = {"low": 1, "high": 40}
    parameters = {name: {"sets": f"cores.pe.mesh.{name}", "range": whole} for name in ("x", "y")}
    document = space.model.model_dump(exclude_defaults=True) | {"parameters": parameters}
    return space_from_text(json.dumps(document))


if __name__ == "__main__":
    overhead()
    whole_space(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
