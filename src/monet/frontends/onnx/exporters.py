"""What exporters take out of a network while they write it, and what the file still shows of it.

- a batch norm folded into the convolution before it (``folded_norm``);
- a bias that starts at zero, dropped from its layer (``removed_bias``): the dynamo exporter says so in the metadata;
- a table looked up at fixed positions (relative position biases), written as what was found there
  (``Weights.looked_up``).
"""

from __future__ import annotations

import numpy as np

from monet.frontends.onnx.file import Node
from monet.frontends.onnx.translation import Translation

_RULES = "pkg.onnxscript.rewriter.rule_name"


def rewritten_by(node: Node, rule: str) -> bool:
    """Whether the dynamo exporter's optimizer wrote this node by a rule of that name."""
    return any(rule in entry.value for entry in node.proto.metadata_props if entry.key == _RULES)


def folded_norm(t: Translation, node: Node) -> str:
    """The module of a batch norm that the exporter folded into this convolution, or "".

    The dynamo exporter says so in the node's metadata. The tracing one leaves weight and bias under made-up names,
    which nothing else does to both.
    """
    if rewritten_by(node, "FuseBatchNorm"):
        return node.scope or "batch_norm"
    names = (node.input(1), node.input(2))
    if all(name in t.weights and name.startswith("onnx::Conv") for name in names):
        return ".".join(part for part in (t.weights.module(node), "batch_norm") if part)
    return ""


def bias_of(t: Translation, node: Node, size: int, dtype: str) -> str:
    """The bias of a layer, also one of zeros that the exporter dropped; "" if it has none."""
    if node.input(2):
        return t.weight(node, 2)
    if not rewritten_by(node, "RemoveOptionalBias"):
        return ""
    title = ".".join(part for part in (_layer(t, node), "bias") if part)
    return t.declare(title, (size,), dtype, "", np.asarray, np.zeros(size, np.float32))


def _layer(t: Translation, node: Node) -> str:
    """The module of a layer: that of its weight, where the file names it."""
    weight = node.input(1)
    return weight.removesuffix(".weight") if weight.endswith(".weight") else t.weights.module(node)
