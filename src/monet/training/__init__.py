"""From a forward graph to one training step."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from monet.training.options import TrainingOptions

if TYPE_CHECKING:
    from monet.training.optimizers import OPTIMIZERS, Optimizer, optimizer_named
    from monet.training.step import prepare, training_step

__all__ = ["OPTIMIZERS", "Optimizer", "TrainingOptions", "optimizer_named", "prepare", "training_step"]


def __getattr__(name: str) -> Any:
    """Import the work when it is first used: the options alone need no arrays."""
    if name in __all__:
        return getattr(import_module("monet.training." + ("optimizers" if "ptimi" in name.lower() else "step")), name)
    raise AttributeError(f"module 'monet.training' has no attribute {name!r}")
