"""Layers the zoo is written with: each declares its parameters, emits its operators and returns its output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monet.graph import Graph, GraphBuilder


class Layers:
    """A thin vocabulary over GraphBuilder, in the framework's words and with its defaults."""

    def __init__(self, name: str) -> None:
        from monet.graph import GraphBuilder  # here, so that models can be listed without loading it

        self.builder: GraphBuilder = GraphBuilder(name)

    def build(self, *outputs: str) -> Graph:
        """The finished graph."""
        return self.builder.build(outputs)

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Name what is emitted inside below ``name``."""
        return self.builder.scope(name)

    def shape(self, x: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.builder.tensors[x].shape

    # --- layers with parameters ---------------------------------------------------------------------------------------

    def conv(
        self, name: str, x: str, out: int, kernel: int, stride: int = 1, padding: int = 0, groups: int = 1,
        bias: bool = False,
    ) -> str:  # fmt: skip
        """A two-dimensional convolution with square window."""
        channels = self.shape(x)[1]
        with self.scope(name):
            operands = [x, self.builder.parameter("weight", (out, channels // groups, kernel, kernel))]
            if bias:
                operands.append(self.builder.parameter("bias", (out,)))
        return self.builder.emit(
            "conv", *operands, name=name, stride=(stride,) * 2, padding=((padding,) * 2,) * 2, dilation=(1, 1),
            groups=groups,
        )  # fmt: skip

    def conv_transpose(self, name: str, x: str, out: int, kernel: int, stride: int) -> str:
        """A transposed convolution without padding, with bias."""
        channels, spatial = self.shape(x)[1], self.shape(x)[2:]
        with self.scope(name):
            weight = self.builder.parameter("weight", (channels, out, kernel, kernel))
            bias = self.builder.parameter("bias", (out,))
        sizes = tuple((size - 1) * stride + kernel for size in spatial)
        return self.builder.emit(
            "conv_transpose", x, weight, bias, name=name, stride=(stride,) * 2, padding=((0, 0),) * 2,
            dilation=(1, 1), groups=1, spatial=sizes,
        )  # fmt: skip

    def batch_norm(self, name: str, x: str) -> str:
        """Batch norm in training form, running statistics included."""
        channels = (self.shape(x)[1],)
        with self.scope(name):
            parameters = [self.builder.parameter(part, channels) for part in ("weight", "bias")]
            running = [self.builder.buffer(part, channels) for part in ("running_mean", "running_var")]
        return self.builder.emit("batch_norm", x, *parameters, *running, name=name, epsilon=1e-5, momentum=0.1)

    def linear(self, name: str, x: str, out: int, bias: bool = True) -> str:
        """A linear layer; its weight is stored (out, in)."""
        with self.scope(name):
            operands = [x, self.builder.parameter("weight", (out, self.shape(x)[-1]))]
            if bias:
                operands.append(self.builder.parameter("bias", (out,)))
        return self.builder.emit("linear", *operands, name=name, transpose=False)

    def layer_norm(self, name: str, x: str, epsilon: float = 1e-5) -> str:
        """Layer norm over the last axis."""
        with self.scope(name):
            parameters = [self.builder.parameter(part, self.shape(x)[-1:]) for part in ("weight", "bias")]
        return self.builder.emit("layer_norm", x, *parameters, name=name, axes=1, epsilon=epsilon)

    def rms_norm(self, name: str, x: str, epsilon: float = 1e-5) -> str:
        """Root-mean-square norm over the last axis."""
        with self.scope(name):
            weight = self.builder.parameter("weight", self.shape(x)[-1:])
        return self.builder.emit("rms_norm", x, weight, name=name, axes=1, epsilon=epsilon)

    def embedding(self, name: str, rows: str, count: int, width: int) -> tuple[str, str]:
        """A look-up table; returns (output, the table) so that a head can be tied to it."""
        with self.scope(name):
            table = self.builder.parameter("weight", (count, width))
        return self.builder.emit("embedding", table, rows, name=name), table

    # --- layers without parameters --------------------------------------------------------------------------------

    def activation(self, kind: str, x: str, name: str = "", inplace: bool = False, **attrs: float | bool) -> str:
        """An element-wise function."""
        return self.builder.emit(kind, x, name=name, inplace=inplace, **attrs)

    def relu(self, x: str, name: str = "relu", inplace: bool = True) -> str:
        """ReLU, in place as image models write it."""
        return self.builder.emit("relu", x, name=name, inplace=inplace)

    def gelu(self, x: str, tanh: bool = False, name: str = "gelu") -> str:
        """GELU, exact or by tanh."""
        return self.builder.emit("gelu", x, name=name, approximate=tanh)

    def dropout(self, name: str, x: str, p: float) -> str:
        """Zero a share ``p`` of the elements, each time others than the layers before; nothing at all for 0."""
        return self.builder.emit("dropout", x, name=name, p=p, seed=len(self.builder.ops)) if p else x

    def add(self, x: str, y: str, name: str = "add", inplace: bool = False) -> str:
        """Sum of two tensors."""
        return self.builder.emit("add", x, y, name=name, inplace=inplace)

    def max_pool(self, name: str, x: str, kernel: int, stride: int, padding: int = 0) -> str:
        """Max-pooling with 64-bit indices, as the framework keeps them."""
        return self.builder.emit(
            "max_pool", x, name=name, kernel=(kernel,) * 2, stride=(stride,) * 2, padding=((padding,) * 2,) * 2,
            dilation=(1, 1), ceil=False, index_dtype="int64",
        )  # fmt: skip

    def global_average(self, x: str, name: str = "avgpool") -> str:
        """Mean over all positions of an image, flattened to (batch, channels)."""
        return self.builder.emit("reduce_mean", x, name=name, axes=(2, 3), keepdims=False)

    def reshape(self, x: str, *shape: int) -> str:
        """View (or copy) with another shape; one size may be -1."""
        sizes = list(shape)
        if -1 in sizes:
            known = math.prod(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = self.builder.tensors[x].elements // known
        return self.builder.emit("reshape", x, shape=tuple(sizes))

    def transpose(self, x: str, *order: int) -> str:
        """View with permuted axes."""
        return self.builder.emit("transpose", x, order=order)

    def select(self, x: str, axis: int, position: int) -> str:
        """One position of an axis, which disappears."""
        cut = self.builder.emit("slice", x, axes=(axis,), starts=(position,), stops=(position + 1,), steps=(1,))
        shape = self.shape(cut)
        return self.reshape(cut, *shape[:axis], *shape[axis + 1 :])

    def split(self, x: str, sizes: Sequence[int], axis: int) -> tuple[str, ...]:
        """Views of consecutive parts of an axis."""
        return self.builder.emit_all("split", x, sizes=tuple(sizes), axis=axis)

    # --- attention ------------------------------------------------------------------------------------------------

    def heads(self, x: str, heads: int) -> str:
        """(batch, tokens, width) → (batch, heads, tokens, width / heads), as views."""
        batch, tokens, width = self.shape(x)
        return self.transpose(self.reshape(x, batch, tokens, heads, width // heads), 0, 2, 1, 3)

    def merge_heads(self, x: str) -> str:
        """The inverse of ``heads``; the framework copies here."""
        batch, heads, tokens, width = self.shape(x)
        return self.reshape(self.transpose(x, 0, 2, 1, 3), batch, tokens, heads * width)

    def attention(self, query: str, key: str, value: str, causal: bool, dropout: float = 0.0) -> str:
        """Explicit scaled dot-product attention over heads; fusing it is an option applied to the finished graph.

        ``dropout`` is the share of the probabilities that is dropped."""
        width, tokens, keys = self.shape(query)[-1], self.shape(query)[-2], self.shape(key)[-2]
        emit = self.builder.emit
        scores = emit("matmul", query, key, name="scores", transpose_a=False, transpose_b=True)
        scores = emit("scale", scores, name="scaled", factor=1.0 / math.sqrt(width))
        if causal:
            mask = emit("causal_mask", rows=tokens, columns=keys)
            scores = emit("masked_fill", scores, mask, name="masked", value=-math.inf)
        weights = self.dropout("dropout", emit("softmax", scores, axis=-1), dropout)
        return emit("matmul", weights, value, name="context", transpose_a=False, transpose_b=False)
