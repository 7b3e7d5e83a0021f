"""Exact checkpointing: every point with its proof, its CPU time, and its distance to the solved reference.

    python -m benchmarks.checkpoint_exact [network ...]

Reference: HiGHS and CP-SAT on PyTorch's joint graphs, extra forward work in per cent at shares of the saved bytes.
"""

from __future__ import annotations

import sys
import time

from monet import load_model, training_step
from monet.search.checkpoint.liveness import peak_of
from monet.search.checkpoint.peak import best_under_peak
from monet.search.checkpoint.static import best_under
from monet.transforms.checkpoint_problem import problem_of

SHARES = (80, 60, 50, 40, 30, 20, 10, 5)
NETWORKS: dict[str, tuple[str, dict[str, int], tuple[float, ...]]] = {
    "resnet18": ("resnet18", {}, (0.04, 0.10, 0.14, 6.62, 7.01, 22.92, 42.36, 58.62)),
    "gpt2-mini-256": ("gpt2-mini", {"sequence": 256}, (1.00, 19.49, 62.04, 62.05, 62.72, 67.80, 79.63, 85.78)),
    "gpt2-small-256": ("gpt2-small", {"sequence": 256}, (0.02, 2.06, 12.93, 27.18, 40.96, 55.43, 69.67, 76.56)),
    "gpt2-small-1024": ("gpt2-small", {"sequence": 1024}, (0.59, 3.97, 5.66, 8.45, 27.05, 45.85, 64.86, 74.64)),
    "bert-base-128": ("bert-base", {"sequence": 128}, (0.02, 0.83, 2.65, 16.94, 31.79, 46.65, 61.50, 72.98)),
    "unet": ("unet", {}, ()),
    "vit-b16": ("vit-b16", {}, ()),
    "mobilenetv2": ("mobilenetv2", {}, ()),
    "lstm-lm": ("lstm-lm", {}, ()),
    "mlp-robot": ("mlp-robot", {"batch": 4096}, ()),
    "resnet50": ("resnet50", {}, ()),
    "vgg16": ("vgg16", {}, ()),
    "bert-large": ("bert-large", {}, ()),
}
PEAKS = (80, 60, 50, 45)  # per cent of ResNet-18's plain peak


def static(name: str) -> None:
    """Print the points of one network."""
    model, sizes, reference = NETWORKS[name]
    problem = problem_of(training_step(load_model(model, **sizes)))
    print(f"{name}: {len(problem.values)} values, {len(problem.operators)} operators, {problem.keep_all_bytes:,} bytes")
    for position, share in enumerate(SHARES):
        start = time.process_time()
        choice = best_under(problem, problem.keep_all_bytes * share // 100)
        seconds = time.process_time() - start
        beside = (
            f"  reference {reference[position]:6.2f} % ({100 * choice.share - reference[position]:+.3f})"
            if reference
            else ""
        )
        known = "proved" if choice.proved else "NOT PROVED"
        print(f"  {share:3} %: {100 * choice.share:7.3f} % again{beside}", end="  ")
        print(f"{known}, gap {100 * choice.gap:.5f} points, {choice.found_by}, {seconds:.2f} s", flush=True)


def peaks() -> None:
    """ResNet-18 under peaks over time, for plans and for schedules."""
    step = training_step(load_model("resnet18"))
    plain = peak_of(step)
    print(f"resnet18, peak {plain.bytes:,} bytes in {plain.operator}")
    for share in PEAKS:
        times = []
        for work in ((20.0, 0.0), (20.0, 40.0)):
            start = time.process_time()
            found = best_under_peak(step, plain.bytes * share // 100, work=work)
            times.append(time.process_time() - start)
        print(
            f"  {share} %: {100 * found.share_of_step:.4f} % of the step, proved for plans in {times[0]:.1f} s: "
            f"{found.proved}; and for schedules in {times[1]:.1f} s: {found.proved_for_schedules}",
            flush=True,
        )


if __name__ == "__main__":
    asked = sys.argv[1:] or [*NETWORKS, "peak"]
    for one in asked:
        peaks() if one == "peak" else static(one)
