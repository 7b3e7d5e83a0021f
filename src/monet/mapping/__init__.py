"""One operator on one core: the exact cost of a mapping, the search for the best, and an operator alone with DRAM."""

from monet.mapping.alone import Alone, alone, alone_as
from monet.mapping.border import Border, border_of
from monet.mapping.cost import Access, Cost, cost
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.frame import Stream
from monet.mapping.mapping import Binding, Cut, Loop, Mapping, Unrolled
from monet.mapping.operators import OperatorCost, map_graph
from monet.mapping.search import Mapped, pareto, search
from monet.mapping.tiling import OBJECTIVES, Constraints
from monet.mapping.vector import VectorCost, vector_cost

__all__ = [
    "OBJECTIVES",
    "Access",
    "Alone",
    "Binding",
    "Border",
    "Constraints",
    "Cost",
    "Cut",
    "DoesNotFit",
    "Loop",
    "Mapped",
    "Mapping",
    "MappingError",
    "OperatorCost",
    "Stream",
    "Unrolled",
    "VectorCost",
    "alone",
    "alone_as",
    "border_of",
    "cost",
    "map_graph",
    "pareto",
    "search",
    "vector_cost",
]
