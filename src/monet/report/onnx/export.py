"""export_onnx: write a graph as an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from monet.errors import MonetError
from monet.graph import Graph
from monet.graph.kind import Array
from monet.report.files import write_bytes
from monet.report.onnx.model import to_model

_PROTOBUF_LIMIT = 2**31 - 2**24  # a protobuf message ends at 2 GiB; some room for the nodes


def export_onnx(graph: Graph, path: str | Path, values: Mapping[str, Array] | None = None) -> None:
    """Write ``graph`` to ``path`` as ONNX; see ``to_model`` for what it holds.

    The file is written beside its place and renamed, so a reader never sees half of one.
    """
    size = sum(graph.tensors[name].bytes for name in values or () if name in graph.tensors)
    if size > _PROTOBUF_LIMIT:
        raise MonetError(f"{path}: {size / 2**30:.1f} GiB of values do not fit an ONNX file (2 GiB); leave them out")
    data = to_model(graph, values).SerializeToString()
    write_bytes(path, data)
