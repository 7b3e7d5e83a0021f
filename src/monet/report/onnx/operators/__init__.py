"""Writers of every operator kind, one file per family, as the operator table has them."""

from monet.report.onnx.operators import (
    attention,
    convolution,
    elementwise,
    gather,
    loss,
    matmul,
    normalization,
    pooling,
    recurrent,
    reduction,
    scatter,
    shape,
    source,
    update,
)

__all__ = [
    "attention",
    "convolution",
    "elementwise",
    "gather",
    "loss",
    "matmul",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "scatter",
    "shape",
    "source",
    "update",
]
