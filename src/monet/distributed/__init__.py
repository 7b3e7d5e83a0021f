"""Training over many devices: systems, parallel plans as graph transforms, collectives, pipelines and their cost."""

from monet.distributed.plan import ParallelPlan
from monet.distributed.stages import RankGraphs, Stage

__all__ = ["ParallelPlan", "RankGraphs", "Stage"]
