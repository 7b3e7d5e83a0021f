"""Matrix products: a product with a stored matrix is a linear layer; sums over named axes become batched products."""

from __future__ import annotations

import math

from monet.errors import ModelError
from monet.frontends.onnx.exporters import bias_of
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.translation import Translation, Unsupported, reads
from monet.graph.op import Op
from monet.graph.tensor import Role, view_strides


def stored_matrix(t: Translation, name: str) -> tuple[str, bool] | None:
    """(parameter, whether ``name`` is its transpose) if ``name`` is a stored matrix, seen through a transposition."""
    tensor = t.of(name)
    if len(tensor.shape) != 2 or t.of(tensor.storage).role is not Role.PARAMETER:
        return None
    if tensor.storage == name:
        return name, False
    producer = _producer(t, name)
    if producer is not None and producer.kind == "transpose" and producer.inputs[0] == tensor.storage:
        return tensor.storage, True
    return None


def _producer(t: Translation, name: str) -> Op | None:
    return next((op for op in reversed(t.builder.ops) if name in op.outputs), None)


@reads("MatMul")
def _matmul(t: Translation, node: Node) -> str:
    left, right = t.tensor(node, 0), t.weight(node, 1)
    matrix = stored_matrix(t, right)
    if matrix is not None:
        return _linear(t, node, left, *matrix)
    return product(t, node, left, right)


def _linear(t: Translation, node: Node, x: str, parameter: str, transposed: bool) -> str:
    """A linear layer; the framework first copies an input whose rows do not lie one after the other."""
    tensor = t.of(x)
    rows = (math.prod(tensor.shape[:-1]), tensor.shape[-1])
    if view_strides(tensor.shape, tensor.strides, rows) is not None or len(tensor.shape) < 3:
        return t.emit(node, "linear", x, parameter, transpose=not transposed)
    y = t.emit(node, "linear", t.reshape(node, x, rows), parameter, transpose=not transposed)
    return t.reshape(node, y, (*tensor.shape[:-1], t.shape(y)[-1]))


def product(t: Translation, node: Node, left: str, right: str) -> str:
    """A batched product with the vector cases of ``numpy.matmul``."""
    vector_left, vector_right = len(t.shape(left)) == 1, len(t.shape(right)) == 1
    if vector_left:
        left = t.reshape(node, left, (1, *t.shape(left)))
    if vector_right:
        right = t.reshape(node, right, (*t.shape(right), 1))
    out = t.emit(node, "matmul", left, right, transpose_a=False, transpose_b=False)
    shape = list(t.shape(out))
    if vector_left:
        del shape[-2]
    if vector_right:
        del shape[-1]
    return t.reshape(node, out, tuple(shape))


@reads("Gemm")
def _gemm(t: Translation, node: Node) -> str:
    x, w = t.tensor(node, 0), t.weight(node, 1)
    alpha, beta = float(node.get("alpha", 1.0)), float(node.get("beta", 1.0))
    if node.get("transA", 0):
        x = t.emit(node, "transpose", x, order=(1, 0))
    matrix, transpose_b = stored_matrix(t, w), bool(node.get("transB", 0))
    bias = bias_of(t, node, t.shape(w)[0 if transpose_b else 1], t.of(w).dtype)
    if matrix is None:
        y = t.emit(node, "matmul", x, w, transpose_a=False, transpose_b=transpose_b)
    else:
        parameter, transposed = matrix
        plain = bias and alpha == beta == 1.0 and t.shape(bias) == (t.shape(w)[0 if transpose_b else 1],)
        operands = (x, parameter, bias) if plain else (x, parameter)
        y = t.emit(node, "linear", *operands, transpose=transpose_b == transposed)
        bias = "" if plain else bias
    if alpha != 1.0:
        y = t.emit(node, "scale", y, factor=alpha)
    if bias:
        y = t.emit(node, "add", y, t.emit(node, "scale", bias, factor=beta) if beta != 1.0 else bias)
    return y


# --- einsum ----------------------------------------------------------------------------------------------------------


def _labels(term: str, rank: int, ellipsis_rank: int) -> list[str]:
    """Axis labels of one term; the axes of an ellipsis are called by number."""
    before, dots, after = term.partition("...")
    middle = [str(position) for position in range(ellipsis_rank)] if dots else []
    labels = [*before, *middle, *after]
    if len(labels) != rank or len(set(labels)) != len(labels):
        raise Unsupported("a repeated axis")
    return labels


@reads("Einsum")
def _einsum(t: Translation, node: Node) -> str:
    equation = str(node.get("equation")).replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    names = [t.tensor(node, position) for position in range(len(terms))]
    if len(names) > 2:
        raise Unsupported(f"{len(names)} operands")
    spare = max(
        (
            len(t.shape(name)) - len(term.replace("...", ""))
            for term, name in zip(terms, names, strict=True)
            if "..." in term
        ),
        default=0,
    )
    axes = [_labels(term, len(t.shape(name)), spare) for term, name in zip(terms, names, strict=True)]
    if not arrow:
        counts = "".join(terms)
        out = ("..." if "..." in left else "") + "".join(sorted(c for c in set(counts) - {"."} if counts.count(c) == 1))
    wanted = [*out.partition("...")[0], *(map(str, range(spare)) if "..." in out else ()), *out.partition("...")[2]]
    for position, name in enumerate(names):
        others = set(wanted) | {label for other, labels in enumerate(axes) if other != position for label in labels}
        names[position], axes[position] = _summed(t, node, name, axes[position], others)
    if len(names) == 1:
        return _arranged(t, node, names[0], axes[0], wanted)
    return _contracted(t, node, names, axes, wanted)


def _summed(t: Translation, node: Node, name: str, labels: list[str], kept: set[str]) -> tuple[str, list[str]]:
    """Sum over the axes that nothing else names."""
    summed = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    if summed:
        name = t.emit(node, "reduce_sum", name, axes=summed, keepdims=False)
    return name, [label for label in labels if label in kept]


def _arranged(t: Translation, node: Node, name: str, labels: list[str], wanted: list[str]) -> str:
    order = tuple(labels.index(label) for label in wanted)
    return name if order == tuple(range(len(order))) else t.emit(node, "transpose", name, order=order)


def _contracted(t: Translation, node: Node, names: list[str], axes: list[list[str]], wanted: list[str]) -> str:
    first, second = axes
    sizes = {
        label: size
        for name, labels in zip(names, axes, strict=True)
        for label, size in zip(labels, t.shape(name), strict=True)
    }
    batch = [label for label in wanted if label in first and label in second]
    summed = [label for label in first if label in second and label not in wanted]
    rows = [label for label in first if label not in second]
    columns = [label for label in second if label not in first]

    def size(labels: list[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    lead = tuple(sizes[label] for label in batch)
    a = _arranged(t, node, names[0], first, [*batch, *rows, *summed])
    b = _arranged(t, node, names[1], second, [*batch, *summed, *columns])
    a = t.reshape(node, a, (*lead, size(rows), size(summed)))
    b = t.reshape(node, b, (*lead, size(summed), size(columns)))
    matrix = stored_matrix(t, b) if not batch else None
    if matrix is not None:
        y = t.emit(node, "linear", a, matrix[0], transpose=not matrix[1])
    else:
        y = t.emit(node, "matmul", a, b, transpose_a=False, transpose_b=False)
    labels = [*batch, *rows, *columns]
    y = t.reshape(node, y, tuple(sizes[label] for label in labels))
    if set(labels) != set(wanted):
        raise ModelError(f"cannot form the axes {''.join(wanted)}")
    return _arranged(t, node, y, labels, wanted)
