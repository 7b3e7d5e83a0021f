"""From a forward graph to one training step."""

from monet.training.optimizers import OPTIMIZERS, Optimizer, optimizer_named
from monet.training.step import TrainingOptions, prepare, training_step

__all__ = ["OPTIMIZERS", "Optimizer", "TrainingOptions", "optimizer_named", "prepare", "training_step"]
