"""export_onnx: write a graph as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from monet.errors import MonetError
from monet.graph import Graph
from monet.graph.dtypes import storage_bytes
from monet.graph.kind import Array
from monet.report.onnx.model import to_model

_PROTOBUF_LIMIT = 2**31 - 2**24  # a protobuf message ends at 2 GiB; some room for the nodes


def export_onnx(graph: Graph, path: str | Path, values: Mapping[str, Array] | None = None) -> None:
    """Write ``graph`` to ``path`` as ONNX; see ``to_model`` for what it holds.

    The file is written beside its place and renamed, so a reader never sees half of one.
    """
    size = sum(
        storage_bytes(graph.tensors[n].elements, graph.tensors[n].dtype) for n in values or () if n in graph.tensors
    )
    if size > _PROTOBUF_LIMIT:
        raise MonetError(f"{path}: {size / 2**30:.1f} GiB of values do not fit an ONNX file (2 GiB); leave them out")
    data = to_model(graph, values).SerializeToString()
    _write_whole(Path(path), data)


def _write_whole(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise MonetError(f"cannot write {path}: {error.strerror or error}") from None
