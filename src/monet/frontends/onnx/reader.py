"""load_onnx: an ONNX file as a forward graph; onnx_values: the weights it holds, under the graph's names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from monet.errors import ModelError, ModelWarning, UnsupportedOperators
from monet.frontends.onnx import operators as _operators  # noqa: F401  fills the table of rules
from monet.frontends.onnx.file import File, read_file
from monet.frontends.onnx.folding import Array
from monet.frontends.onnx.patterns import recover
from monet.frontends.onnx.sizes import InputShape, Sizes, changed, check_names, input_shapes
from monet.frontends.onnx.translation import Translation, Unsupported
from monet.graph import Graph
from monet.graph.verify import verify


def load_onnx(
    path: str | Path,
    *,
    batch: int | None = None,
    image: int | None = None,
    sequence: int | None = None,
    dimensions: Mapping[str, int] | None = None,
) -> Graph:
    """Read a forward graph from an ONNX file. Weights need not be there; values of weights are not kept.

    ``batch``, ``image`` and ``sequence`` set or change the first, spatial and token axes of the inputs; ``dimensions``
    sets open axes by the name the file gives them (or ``"input:axis"``). Batch norm comes out in training form. Raises
    UnsupportedOperators with every operator that has no rule, ModelError for anything else that is wrong.
    """
    try:
        file = read_file(path)
        check_names(file, dimensions or {})
        inputs = input_shapes(file, Sizes(batch, image, sequence, dimensions))
        stored_shapes = _stored_shapes(file, inputs)
        translation = _translate(file, {entry.name: entry.shape for entry in inputs}, inputs, stored_shapes)
        graph = verify(recover(_graph(translation)))
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelError(f"{path}: not well formed: {type(error).__name__}: {error}") from None
    for note in _notes(translation):
        warnings.warn(f"{path}: {note}", ModelWarning, stacklevel=2)
    return graph


def _notes(translation: Translation) -> Iterator[str]:
    """What the exporter took out of the network and the file shows only in part."""
    if folded := translation.folded_norms:
        yield (
            f"{len(folded)} batch norms that the exporter folded into convolutions are put back ({next(iter(folded))}, "
            f"…); biases that those convolutions had themselves, up to {sum(folded.values()):,} parameters, cannot be "
            "told apart from them; an export in training mode keeps both"
        )
    for name, table in translation.tables.items():
        yield (
            f"{name} was looked up in a trained table at fixed positions when the file was written; its "
            f"{len(table.rows)} distinct rows are taken as that table, rows that were not looked up are missing"
        )


def onnx_values(path: str | Path, graph: Graph) -> dict[str, Array]:
    """Values the file holds of the parameters and buffers of ``graph``, which ``load_onnx`` read from ``path``."""
    file = read_file(path)
    missing = [entry.name for entry in file.graph.input if entry.name in graph.tensors]
    shapes = {name: graph.tensors[name].shape for name in missing}
    given = {f"{name}:{axis}": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
    named = {
        dim.dim_param: shapes[entry.name][axis]
        for entry in file.graph.input
        if entry.name in shapes
        for axis, dim in enumerate(entry.type.tensor_type.shape.dim)
        if dim.dim_param
    }
    inputs = input_shapes(file, Sizes(dimensions={**given, **named}))
    translation = _translate(file, shapes, inputs, _stored_shapes(file, inputs))
    values: dict[str, Array] = {}
    for name, source in translation.sources.items():
        array = translation.weights.array(source.initializer) if source.array is None else source.array
        if array is not None and name in graph.tensors:
            values[name] = source.layout(array)
    return values


def _stored_shapes(file: File, inputs: list[InputShape]) -> dict[str, tuple[int, ...]] | None:
    """Shapes of every value at the sizes the file was written with; None if nothing is changed."""
    if not any(changed(inputs)):
        return None
    shapes = {entry.name: entry.stored_shape or entry.shape for entry in inputs}
    return _translate(file, shapes, inputs, None).shapes


def _translate(
    file: File,
    shapes: Mapping[str, tuple[int, ...]],
    inputs: list[InputShape],
    stored_shapes: dict[str, tuple[int, ...]] | None,
) -> Translation:
    translation = Translation(file, file.graph.name if _is_title(file.graph.name) else file.path.stem, stored_shapes)
    for entry in inputs:
        translation.set_input(entry.name, translation.builder.input(entry.name, shapes[entry.name], entry.dtype))
    for node in file.nodes:
        translation.run(node)
    if translation.missing:
        raise UnsupportedOperators(str(file.path), translation.missing)
    return translation


def _is_title(name: str) -> bool:
    """Exporters call every graph the same; a name of its own is kept."""
    return bool(name) and name not in ("main_graph", "torch_jit", "torch-jit-export", "main", "graph")


def _graph(translation: Translation) -> Graph:
    outputs = []
    for entry in translation.file.graph.output:
        try:
            outputs.append(translation.make(translation.value(entry.name)))
        except Unsupported as reason:
            raise ModelError(f"{translation.file.path}: output {entry.name!r}: {reason}") from None
    if not outputs:
        raise ModelError(f"{translation.file.path}: the graph has no outputs")
    return translation.builder.build(outputs)
