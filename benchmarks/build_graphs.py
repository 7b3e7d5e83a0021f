"""How long building and counting a training step takes, as ratios to one ResNet-18 step on the same machine, now."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable

from monet import load_model, summarise, training_step

CASES: list[tuple[str, dict[str, int]]] = [
    ("resnet18", {"batch": 1}),
    ("gpt2-small", {"sequence": 1024}),
    ("bert-base", {}),
    ("unet", {}),
    ("lstm-lm", {}),
    ("llama2-7b", {}),
    ("gpt3-175b", {}),
]


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    work()  # warm: imports and the operator table
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    base = None
    print(f"{'model':<12} {'operators':>9} {'build s':>9} {'count s':>9} {'build / resnet18':>17} {'µs/operator':>12}")
    for name, sizes in CASES:
        build = lambda name=name, sizes=sizes: training_step(load_model(name, **sizes), optimizer="adam")  # noqa: E731
        step = build()
        built, counted = seconds(build), seconds(lambda step=step: summarise(step))
        base = base or built
        print(
            f"{name:<12} {len(step.ops):>9} {built:>9.4f} {counted:>9.4f} {built / base:>16.1f}x "
            f"{1e6 * built / len(step.ops):>12.1f}"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process, all models built one after the other: {peak:.0f} MB")


if __name__ == "__main__":
    main()
