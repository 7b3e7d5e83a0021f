"""The table of ONNX operators: operator name → the rule that emits ours. One file holds one family."""

from __future__ import annotations

from monet.frontends.onnx.operators.attention import ATTENTION
from monet.frontends.onnx.operators.elementwise import ELEMENTWISE
from monet.frontends.onnx.operators.gather import GATHER
from monet.frontends.onnx.operators.layers import LAYERS
from monet.frontends.onnx.operators.matmul import MATMUL
from monet.frontends.onnx.operators.pooling import POOLING
from monet.frontends.onnx.operators.recurrent import RECURRENT
from monet.frontends.onnx.operators.reduction import REDUCTION
from monet.frontends.onnx.operators.scatter import SCATTER
from monet.frontends.onnx.operators.shape import SHAPE
from monet.frontends.onnx.translation import Rule

RULES: dict[str, Rule] = {
    **ELEMENTWISE,
    **SHAPE,
    **GATHER,
    **SCATTER,
    **MATMUL,
    **LAYERS,
    **POOLING,
    **REDUCTION,
    **ATTENTION,
    **RECURRENT,
}
