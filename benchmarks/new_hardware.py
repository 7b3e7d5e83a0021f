"""CPU milliseconds of a ResNet-18 step on an edge-tpu with a core or a DRAM not seen before, as JSON (least of some).

Only names that older versions have, too, so that ``schedule.py --against`` can run it on their sources.
"""

from __future__ import annotations

import json
import os
import time
from itertools import count

os.environ["MONET_CACHE"] = "off"  # what is new here must not have been mapped by an earlier run

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.evaluation import evaluate
from monet.training.step import training_step

REPEATS = 4
NEW = {
    "core": ("cores.pe.memories.sram.size_bytes", count(1_900_000, 1000)),
    "DRAM": ("dram.dram.bandwidth_bits_per_cycle", count(65)),
}


def milliseconds() -> dict[str, float]:
    graph = training_step(load_model("resnet18"))
    evaluate(graph, load_hardware("edge-tpu"))
    found: dict[str, float] = {}
    for fusion in ("none", "auto"):
        for what, (path, values) in NEW.items():
            times = []
            for _ in range(REPEATS):
                hardware = load_hardware("edge-tpu", {path: next(values)})
                began = time.process_time()
                evaluate(graph, hardware, fusion=fusion)
                times.append(1e3 * (time.process_time() - began))
            found[f"{what}, {fusion}"] = min(times)
    return found


if __name__ == "__main__":
    print(json.dumps(milliseconds()))
