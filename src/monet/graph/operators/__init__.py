"""The operator table. Importing this package registers every kind; one file holds one family of operators."""

from monet.graph.operators import (
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
