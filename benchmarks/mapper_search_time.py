"""How long one search takes: every distinct array operator of three training steps, warm; ratios to the budget.

python benchmarks/mapper_search_time.py [HARDWARE ...]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

os.environ["MONET_CACHE"] = "off"

import monet
from monet.graph.counts import call_of
from monet.graph.kind import kind_named
from monet.graph.loop_nest import LoopNest
from monet.hardware import load_hardware
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import Target, best_tiling_of
from monet.mapping.mapper.tiling import OBJECTIVES
from monet.mapping.nest.spatial import MAX_UNROLLINGS
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.model_operators import MATRIX

MODELS = {"resnet18": 4, "mobilenetv2": 4, "gpt2-small": 1}
MEDIAN_MS, WORST_MS, FIRST_S = 5.0, 30.0, 2.0


def nests() -> list[LoopNest]:
    found: dict[object, LoopNest] = {}
    for model, batch in MODELS.items():
        graph = monet.training_step(monet.load_model(model, batch=batch), precision="bf16")
        for op in graph.ops:
            kind = kind_named(op.kind)
            if kind.family in MATRIX and kind.nest:
                nest = kind.nest(call_of(graph, op))
                found.setdefault(nest.canonical(), nest)
    return list(found.values())


def main() -> None:
    every = nests()
    print(f"{len(every)} distinct nests; budget: median {MEDIAN_MS:g} ms, worst {WORST_MS:g} ms")
    for hardware in sys.argv[1:] or ["edge-tpu", "tpu-like", "tpu-v3", "fusemax"]:
        accelerator = load_hardware(hardware)
        instance = next(one for one in accelerator.cores if one.core.modes)
        stream = border_of(accelerator, instance).stream
        for objective in OBJECTIVES:
            times = []
            for nest in every:
                runs = []
                for _ in range(3):
                    store = CostStore()  # a core of a shape not seen before
                    before = time.process_time()
                    best_tiling_of(nest, Target(instance.core, objective, stream, limit=MAX_UNROLLINGS), store)
                    runs.append((time.process_time() - before) * 1e3)
                times.append(min(runs))
            median, worst = statistics.median(times), max(times)
            print(
                f"  {hardware:<10} {objective:<8} median {median:6.2f} ms ({median / MEDIAN_MS:.2f} of budget), "
                f"worst {worst:6.1f} ms ({worst / WORST_MS:.2f})"
            )
    program = (
        "from monet.mapping.cost_store import CostStore; from monet.hardware import load_hardware\n"
        "from monet.mapping.unfused.border import border_of; from monet.mapping.unfused.operator import unfused\n"
        "from monet.mapping.text.operator_arguments import *\n"
        "a = load_hardware('tpu-like'); c = a.cores[0]; store = CostStore()\n"
        "nest = operator_nest('conv', 'K=64,C=64,OY=56,OX=56,FY=3,FX=3', 'int8')\n"
        "unfused(nest, c.core, border_of(a, c), store=store)"
    )
    before = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    first = time.perf_counter() - before
    print(f"first call in a fresh process, compiled kernels on disk: {first:.2f} s ({first / FIRST_S:.2f} of budget)")


if __name__ == "__main__":
    main()
