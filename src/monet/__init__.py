"""monet: what it costs to train a neural network on a given accelerator — time, energy, memory.

>>> import monet
>>> step = monet.training_step(monet.load_model("resnet18", batch=8), optimizer="adam")
>>> monet.summarise(step)["saved_for_backward_bytes"]
172692228
>>> result = monet.evaluate(step, monet.load_hardware("edge-tpu"))
>>> result.latency_s, result.energy_j, result.peak_memory_bytes["dram"].activations  # doctest: +SKIP
>>> result.report("resnet18.html")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monet.errors import MonetError
    from monet.frontends import load_model
    from monet.graph import Graph
    from monet.hardware import load_hardware
    from monet.numerics import execute
    from monet.report import plots
    from monet.report.graph_summary import summarise
    from monet.request import Request
    from monet.request.evaluation import evaluate
    from monet.request.system_request import SystemRequest
    from monet.schedule.result import Result
    from monet.search.functions import allocate, checkpoint, checkpoint_front, explore, fuse
    from monet.training.options import TrainingOptions
    from monet.training.step import training_step

__version__ = "0.1.0"

_PUBLIC = {
    "Graph": "monet.graph",
    "MonetError": "monet.errors",
    "Request": "monet.request",
    "Result": "monet.schedule.result",
    "SystemRequest": "monet.request.system_request",
    "TrainingOptions": "monet.training.options",
    "allocate": "monet.search.functions",
    "checkpoint": "monet.search.functions",
    "checkpoint_front": "monet.search.functions",
    "evaluate": "monet.request.evaluation",
    "execute": "monet.numerics",
    "explore": "monet.search.functions",
    "fuse": "monet.search.functions",
    "load_hardware": "monet.hardware",
    "load_model": "monet.frontends",
    "plots": "monet.report.plots",
    "summarise": "monet.report.graph_summary",
    "training_step": "monet.training.step",
}

__all__ = [
    "Graph", "MonetError", "Request", "Result", "SystemRequest", "TrainingOptions", "allocate", "checkpoint",
    "checkpoint_front", "evaluate", "execute", "explore", "fuse", "load_hardware", "load_model", "plots", "summarise",
    "training_step",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that ``monet --help`` stays quick."""
    if name in _PUBLIC:
        module = import_module(_PUBLIC[name])
        return getattr(module, name, module)  # plots is a module
    raise AttributeError(f"module 'monet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
