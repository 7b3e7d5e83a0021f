"""Which cores run which operators: placements to choose from, rules, genetic and local search."""

from monet.search.allocation.search import Allocation, NamedPlan, allocate

__all__ = ["Allocation", "NamedPlan", "allocate"]
