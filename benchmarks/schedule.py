"""How fast schedules are found, against the budgets and against Stream's CPU time for the same network.

python benchmarks/schedule.py
python benchmarks/schedule.py --against PATH  (of another checkout: both in turn, and their ratio)
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("MONET_CACHE", "off")  # what is new here must not have been mapped by an earlier run

from monet.frontends import load_model
from monet.frontends.zoo.transformers import Gpt
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler, run_decide
from monet.schedule.evaluation import evaluate
from monet.schedule.expansion.expand import expand
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_plan
from monet.schedule.planning.grouping import tiled_groups
from monet.schedule.serving import served
from monet.training.step import training_step
from monet.validation.stream import stream_plan

STREAM_FUSED_S = 119.0  # CPU seconds of Stream's fused ResNet-18 inference on such a machine
REPEATS = 5


def best_of(function: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


def row(what: str, seconds: float, budget: float) -> None:
    print(f"{what:<72} {seconds * 1e3:9.1f} ms  budget {budget * 1e3:6.0f} ms  {seconds / budget:5.2f}×")


def resnet18() -> None:
    graph = training_step(load_model("resnet18"))
    evaluate(graph, load_hardware("edge-tpu"))
    sizes = iter(range(1_900_000, 2_000_000, 1000))

    def new_core(fusion: str) -> None:
        evaluate(graph, load_hardware("edge-tpu", {"cores.pe.memories.sram.size_bytes": next(sizes)}), fusion=fusion)

    widths = iter(range(65, 99))

    def new_dram(fusion: str) -> None:
        evaluate(graph, load_hardware("edge-tpu", {"dram.dram.bandwidth_bits_per_cycle": next(widths)}), fusion=fusion)

    # budgets before default plans were the best of a family: of none what it took, of auto twice that
    for fusion, core_s, dram_s in (("none", 0.083, 0.044), ("auto", 0.324, 0.19)):
        row(f"ResNet-18 step on edge-tpu, new core, {fusion}", best_of(partial(new_core, fusion), 3), core_s)
        row(f"ResNet-18 step on edge-tpu, new DRAM, {fusion}", best_of(partial(new_dram, fusion), 3), dram_s)
    scheduler = Scheduler(graph, load_hardware("edge-tpu"))
    plan = default_plan(scheduler)
    row("ResNet-18 step on edge-tpu, new plan only", best_of(lambda: scheduler.schedule(plan)), 0.01)
    row(
        "ResNet-18 step on edge-tpu, everything measured",
        best_of(lambda: evaluate(graph, load_hardware("edge-tpu"))),
        0.2,
    )
    full = scheduler.complete(plan)
    expanded = expand(scheduler.workload, full, tiled_groups(scheduler.workload, full), scheduler.costs)

    def kernels() -> int:
        decided, _ = served(run_decide(expanded, scheduler.machine, scheduler.workload), scheduler.machine)
        return len(decided.events.nodes) + len(decided.events.bookings)

    events = kernels()
    seconds = best_of(kernels)
    print(f"{'scheduler, tile events (nodes and bookings) per second':<72} {events / seconds:12,.0f}  budget 1,000,000")


def stream() -> None:
    graph, hardware = load_model("resnet18-stream"), load_hardware("tpu-like-quad")
    evaluate(graph, hardware, stream_plan(graph, True, True))
    seconds = best_of(lambda: evaluate(graph, hardware, stream_plan(graph, True, True)))
    print(f"{'Stream ResNet-18, two fused stacks, K split over four cores':<72} {seconds * 1e3:9.1f} ms", end="")
    print(f"  Stream {STREAM_FUSED_S:.0f} s, {STREAM_FUSED_S / seconds:,.0f} times as long")


def transformers() -> None:
    hardware = load_hardware("fusemax")
    graph = training_step(load_model("gpt2-small", sequence=1024))
    evaluate(graph, hardware)
    small = best_of(lambda: evaluate(graph, hardware), 2)
    row("GPT-2 small step, 1,024 tokens, on fusemax", small, 0.5)
    ran = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True)
    peak = float(ran.stdout)
    print(f"{'memory of a process that does only that':<72} {peak:9.0f} MB  budget    500 MB  {peak / 500:5.2f}×")
    scheduler = Scheduler(graph, hardware)
    seconds = best_of(lambda: scheduler.schedule(Plan()), 2)
    print(f"{'GPT-2 small step, new plan only':<72} {seconds * 1e3:9.1f} ms")


def memory() -> None:
    """The most memory that this process has had, in MB, after one evaluation."""
    evaluate(training_step(load_model("gpt2-small", sequence=1024)), load_hardware("fusemax"))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def new_hardware() -> None:
    """GPT-2 small with 256 tokens on accelerators not seen before."""
    graph = training_step(load_model("gpt2-small", sequence=256))
    evaluate(graph, load_hardware("fusemax"))
    sizes, widths = iter(range(2_087_152, 2_097_152, 100)), iter(range(9500, 9600))

    def new_core() -> None:
        evaluate(graph, load_hardware("fusemax", {"memories.buffer.size_bytes": next(sizes)}))

    def new_dram() -> None:
        evaluate(graph, load_hardware("fusemax", {"dram.dram.bandwidth_bits_per_cycle": next(widths)}))

    row("GPT-2 small step, 256 tokens, on fusemax, new core, auto", best_of(new_core, 2), 0.56)
    row("GPT-2 small step, 256 tokens, on fusemax, new DRAM, auto", best_of(new_dram, 2), 0.408)


def depth() -> None:
    hardware, times = load_hardware("fusemax"), dict[int, float]()
    for layers in (12, 96):
        graph = training_step(Gpt(layers=layers, hidden=768, heads=12, sequence=64).build(f"gpt2-{layers}", 1))
        evaluate(graph, hardware)
        times[layers] = best_of(partial(evaluate, graph, hardware), 2)
    ratio, text = times[96] / times[12], "GPT-2 step, 64 tokens, 96 layers against 12"
    print(f"{text:<72} {ratio:9.2f} ×   budget      9 ×   {ratio / 9:5.2f}×")


def against(other: str, rounds: int = 3) -> None:
    """A new core, a new DRAM and new plans (those of the other checkout) in another checkout and here, in turn: the
    least of each, so that both have seen the same machine."""
    here, script = Path(__file__).resolve().parent.parent, Path(__file__).resolve().parent / "new_hardware.py"

    def run(checkout: str, plans: str | None = None) -> str:
        environment = {**os.environ, "PYTHONPATH": str(Path(checkout) / "src")}
        command = [sys.executable, str(script), *([] if plans else ["--plans"])]
        return subprocess.run(
            command, env=environment, input=plans, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    plans, least = run(other), dict[tuple[str, str], float]()
    for _ in range(rounds):
        for checkout in (other, str(here)):
            for what, spent in json.loads(run(checkout, plans)).items():
                least[checkout, what] = min(spent, least.get((checkout, what), spent))
    for what in dict.fromkeys(what for _, what in least):
        before, now = least[other, what], least[str(here), what]
        print(f"{what:<44} {before:6.1f} ms there, {now:6.1f} here  {now / before:5.2f}×")
    print(f"load of this machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__" and sys.argv[1:2] == ["--against"]:
    against(sys.argv[2])
elif __name__ == "__main__" and sys.argv[1:2] == ["--memory"]:
    memory()
elif __name__ == "__main__":
    resnet18()
    stream()
    transformers()
    new_hardware()
    depth()
