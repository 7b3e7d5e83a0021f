"""One operator on one core: the exact cost of a mapping, the search for the best, and an operator alone with DRAM."""

from monet.mapping.cost_store import CostStore
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.mapper.search import Mapped, pareto, search
from monet.mapping.mapper.tiling import OBJECTIVES, Constraints
from monet.mapping.nest.cost import Access, Cost, cost
from monet.mapping.nest.frame import Stream
from monet.mapping.nest.mapping import Binding, Cut, Loop, Mapping, Unrolled
from monet.mapping.unfused.border import Border, border_of
from monet.mapping.unfused.model_operators import OperatorCost, map_graph
from monet.mapping.unfused.operator import Unfused, unfused, unfused_as
from monet.mapping.vector import VectorCost, vector_cost

__all__ = [
    "OBJECTIVES",
    "Access",
    "Binding",
    "Border",
    "Constraints",
    "Cost",
    "CostStore",
    "Cut",
    "DoesNotFit",
    "Loop",
    "Mapped",
    "Mapping",
    "MappingError",
    "OperatorCost",
    "Stream",
    "Unfused",
    "Unrolled",
    "VectorCost",
    "border_of",
    "cost",
    "map_graph",
    "pareto",
    "search",
    "unfused",
    "unfused_as",
    "vector_cost",
]
