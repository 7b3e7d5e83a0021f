"""What every study is given and hands back, and the list of studies.

A study is a module of this package with a function ``run(options: Options) -> Outcome``. It is imported only when it is
asked for, so that the list itself costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from rich.console import RenderableType

from monet.errors import MonetError, nearest
from monet.report.html.study import Panel

# name on the command line → (module in this package, what it shows)
STUDIES: dict[str, tuple[str, str]] = {
    "edge-tpu": ("edge_tpu", "10,000 Edge-TPU-like designs, ResNet-18: findings, fronts, search efficiency"),
    "fusemax": ("fusemax", "FuseMax-like designs, a small GPT-2: findings, fronts"),
    "inference-vs-training": ("inference_vs_training", "is the best hardware for inference the best for training?"),
    "checkpointing": (
        "checkpointing",
        "ResNet-18's front of memory, latency and energy, the published point beside it",
    ),
    "fusion": ("fusion", "ResNet-18's fusion by length of groups, 1 to 8, against the manual plan"),
    "sweeps": ("sweeps", "one resource of an accelerator grows: does a larger machine ever look worse?"),
    "mx-formats": ("mx_formats", "microscaling formats: bits, copies that training keeps, errors of rounding"),
    "mx-npu": ("mx_npu", "DaCapo's execution times, and a SNAX core's throughput, use, energy and area"),
    "mx-robotics": ("mx_robotics", "which microscaling format should a robot learn in, on which NPU?"),
    "wham": ("wham", "mining for training: WHAM's claims on search, hand-made, inference-mined and common designs"),
    "nonadditive": ("nonadditive", "what two dropped activations cost together, against the sum of each alone"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may choose. ``effort`` 1 (quick look) to 10; the same ``seed`` gives the same answer for any
    ``jobs`` (processes). ``say`` takes one line of progress. ``store`` is the folder in which studies that explore
    hardware keep their points (empty: the user's cache)."""

    seed: int = 0
    effort: int = 5
    jobs: int = 1
    say: Callable[[str], None] = field(default=lambda line: None)
    store: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished study: ``values`` for JSON, ``tables`` for the terminal, ``facts`` and ``panels`` for the page."""

    title: str
    values: Mapping[str, Any]
    tables: tuple[RenderableType, ...] = ()
    facts: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()


def study_named(name: str) -> Callable[[Options], Outcome]:
    """The function that runs a study."""
    if name not in STUDIES:
        raise MonetError(f"there is no study {name!r}; {nearest(name, STUDIES)}")
    run: Callable[[Options], Outcome] = import_module(f"monet.studies.{STUDIES[name][0]}").run
    return run
