"""Training over many devices: systems, parallel plans as graph transforms, collectives, pipelines and their cost."""

from monet.distributed.execution import execute_plan
from monet.distributed.plan import ParallelPlan
from monet.distributed.transform.ranks import rank_graphs
from monet.distributed.transform.stages import RankGraphs, Stage

__all__ = ["ParallelPlan", "RankGraphs", "Stage", "execute_plan", "rank_graphs"]
