"""The table of rules: one small function per ATen operator. Importing this package registers them all."""

from monet.frontends.torch.operators import (
    attention,
    convolution,
    creation,
    elementwise,
    indexing,
    loss,
    matmul,
    normalization,
    pooling,
    recurrent,
    reduction,
    scatter,
    views,
    windows,
)

__all__ = [
    "attention",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "loss",
    "matmul",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "scatter",
    "views",
    "windows",
]
