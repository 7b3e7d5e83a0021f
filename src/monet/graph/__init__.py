"""The graph: tensors, operators, loop nests and the operator table."""

from monet.graph import operators as _operators  # fills the operator table
from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
from monet.graph.kind import KINDS, Call, Family, OpKind
from monet.graph.loop_nest import Index, LoopNest, Operand
from monet.graph.op import Attributes, Op, Phase
from monet.graph.tensor import Role, Tensor

__all__ = [
    "KINDS", "Attributes", "Call", "Family", "Graph", "GraphBuilder", "Index", "LoopNest", "Op", "OpKind",
    "Operand", "Phase", "Role", "Tensor",
]  # fmt: skip
del _operators
