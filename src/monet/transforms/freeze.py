"""Freeze parameters by name: nothing upstream of only frozen parameters is differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from monet.errors import OptionError, nearest
from monet.graph import Graph, Tensor
from monet.graph.rewrite import map_parameters


def freeze(graph: Graph, patterns: Sequence[str]) -> Graph:
    """Mark every parameter whose name matches one of ``patterns`` (shell wildcards) as not trained."""
    names = [tensor.name for tensor in graph.parameters]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise OptionError("freeze", pattern, f"matches no parameter; {nearest(pattern, names)}")

    def change(tensor: Tensor) -> Tensor:
        frozen = any(fnmatchcase(tensor.name, pattern) for pattern in patterns)
        return replace(tensor, trainable=False) if frozen else tensor

    return map_parameters(graph, change)
