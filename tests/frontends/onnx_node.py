"""One ONNX node as a file: what onnxruntime computes of it, and what the imported graph does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.numpy_helper import from_array

from monet.frontends.onnx import load_onnx, onnx_values
from monet.numerics import execute

Array = np.ndarray[Any, Any]
F, I = np.float32, np.int64  # noqa: E741
NONE = np.zeros(0, F)  # an input that is left out


def weight(*shape: int) -> Array:
    """Reproducible numbers."""
    return np.random.default_rng(0).standard_normal(shape).astype(F)


def value_info(name: str, dtype: Any, shape: tuple[int, ...] | None) -> Any:
    """An input or output of a file."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def node_file(
    path: Path,
    op: str,
    arrays: Sequence[Array],
    attributes: Mapping[str, Any],
    opset: int,
    data: Sequence[int] = (0,),
    outputs: Sequence[type] = (F,),
) -> dict[str, Array]:
    """Write a file of one node; inputs in ``data`` are fed, all others stored. Returns what to feed."""
    names = [f"x{position}" if array.size else "" for position, array in enumerate(arrays)]
    results = [f"y{position}" for position in range(len(outputs))]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        "one",
        [value_info(names[place], arrays[place].dtype, arrays[place].shape) for place in data],
        [value_info(name, np.dtype(kind), None) for name, kind in zip(results, outputs, strict=True)],
        [from_array(arrays[place], name) for place, name in enumerate(names) if name and place not in data],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), str(path))
    return {names[place]: arrays[place] for place in data}


def runtime_results(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return list(onnxruntime.InferenceSession(str(path), options).run(None, dict(feeds)))


def imported_results(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """What the imported graph computes."""
    imported = load_onnx(path)
    results = execute(imported, {**onnx_values(path, imported), **feeds}, want=imported.outputs)
    return [results[name] for name in imported.outputs]


def assert_same(ours: Sequence[Array], theirs: Sequence[Array], note: str = "") -> None:
    """Same shapes, same numbers."""
    assert [one.shape for one in ours] == [one.shape for one in theirs], note
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5, err_msg=note)
