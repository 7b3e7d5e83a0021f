"""Matrix products: linear layers, batched products, einsum."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.translation import RULES, Ref, Translation, Unsupported, aten

RULES.rows(
    {
        "linear.default": lambda t, a: linear(t, a.input, a.weight, a.bias),
        "mm.default": lambda t, a: _by_matrix(t, a.self, a.mat2),
        "bmm.default": lambda t, a: product(t, a.self, a.mat2),
        "mv.default": lambda t, a: dot_rows(t, a.self, a.vec),
        "dot.default": lambda t, a: _dot(t, a.self, a.tensor),
        "vdot.default": lambda t, a: _dot(t, a.self, a.other),
        "outer.default ger.default": lambda t, a: t.emit("mul", t.reshape(a.self, (*t.shape(a.self), 1)), a.vec2),
    }
)


def linear(t: Translation, x: str, weight: str, bias: str | None) -> Ref:
    """A linear layer."""
    x = with_merged_rows(t, x)
    if t.rank(weight) == 1:
        return dot_rows(t, x, weight)
    return t.emit("linear", x, weight, *((bias,) if bias is not None else ()), transpose=False)


def with_merged_rows(t: Translation, x: str) -> Ref:
    """``x``, copied if its leading axes cannot be merged in place, as the framework does before a matrix product."""
    rows = (math.prod(t.shape(x)[:-1]), t.shape(x)[-1])
    return Ref(x) if t.rank(x) < 3 or t.can_view(x, rows) else t.emit("copy", x)


def dot_rows(t: Translation, x: str, vector: str) -> Ref:
    """Matrix times vector."""
    column = t.reshape(vector, (t.shape(vector)[0], 1))
    product = t.emit("linear", x, column, transpose=True)
    return t.reshape(product, t.shape(product)[:-1])


def _is_swap(t: Translation, x: str) -> str | None:
    """The tensor that ``x`` is the matrix transpose of, if it is one."""
    source, rank = t.source(x), t.rank(x)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return source.inputs[0] if source and source.kind == "transpose" and source.attrs["order"] == swapped else None


def product(t: Translation, left: str, right: str) -> Ref:
    """A batched product of equal batch axes, reading transposed operands where they stand."""
    a, b = _is_swap(t, left), _is_swap(t, right)
    slots = {slot for slot, x in enumerate((left, right)) if not _merges(t, x)}
    out = t.emit("matmul", a or left, b or right, transpose_a=a is not None, transpose_b=b is not None)
    t.copied[t.builder.ops[-1].name] = slots
    return out


def _merges(t: Translation, x: str) -> bool:
    """Whether the batch axes of ``x`` are one axis without copying."""
    *batch, rows, columns = t.shape(x)
    return t.can_view(x, (math.prod(batch), rows, columns))


def _by_matrix(t: Translation, x: str, matrix: str) -> Ref:
    """Rows of any number of axes times one matrix."""
    x = with_merged_rows(t, x)
    swapped = _is_swap(t, matrix)
    return t.emit("linear", x, swapped or matrix, transpose=swapped is None)


@aten("addmm.default")
def _addmm(t: Translation, a: Any) -> Ref:
    swapped = _is_swap(t, a.mat2)
    if a.beta == a.alpha == 1 and t.rank(a.self) == 1:
        return t.emit("linear", a.mat1, swapped or a.mat2, a.self, transpose=swapped is None)
    scaled = t.scale(_by_matrix(t, a.mat1, a.mat2), a.alpha)
    return scaled if a.beta == 0 else t.emit("add", scaled, t.scale(a.self, a.beta))


@aten("baddbmm.default")
def _baddbmm(t: Translation, a: Any) -> Ref:
    scaled = t.scale(product(t, a.batch1, a.batch2), a.alpha)
    return scaled if a.beta == 0 else t.emit("add", scaled, t.scale(a.self, a.beta))


def _dot(t: Translation, left: str, right: str) -> Ref:
    return t.emit("reduce_sum", t.emit("mul", left, right), axes=(0,), keepdims=False)


@aten("matmul.default", "linalg_matmul.default", "__matmul__.Tensor")
def _matmul(t: Translation, a: Any) -> Ref:
    left, right = a.self, a.other
    if t.rank(left) == 1 and t.rank(right) == 1:
        return _dot(t, left, right)
    if t.rank(right) == 1:
        return dot_rows(t, left, right)
    if t.rank(left) == 1:
        row = t.reshape(left, (1, t.shape(left)[0]))
        return t.reshape(_general(t, row, right), t.out_shape)
    return _general(t, left, right)


def _general(t: Translation, left: str, right: str) -> Ref:
    if t.rank(right) == 2:
        return _by_matrix(t, left, right)
    batch = _broadcast(t.shape(left)[:-2], t.shape(right)[:-2])
    return product(t, _materialised(t, left, batch), _materialised(t, right, batch))


def _broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    return tuple(max(pair) for pair in pairs)


def _materialised(t: Translation, x: str, batch: tuple[int, ...]) -> Ref:
    """The framework writes a broadcast operand out before a batched product, and keeps the written form."""
    shape = (*batch, *t.shape(x)[-2:])
    return Ref(x) if t.shape(x) == shape else t.emit("copy", t.expand(x, shape))


# --- einsum -----------------------------------------------------------------------------------------------------------


@aten("einsum.default")
def _einsum(t: Translation, a: Any) -> Ref:
    terms, target = _parse(t, a.equation, a.tensors)
    x, letters = a.tensors[0], terms[0]
    for position in range(1, len(a.tensors)):
        later = set(target).union(*terms[position + 1 :])
        x, letters = _contract(t, x, letters, a.tensors[position], terms[position], later)
    x, letters = _sum_out(t, x, letters, set(target))
    return t.transpose(x, [letters.index(letter) for letter in target])


def _parse(t: Translation, equation: str, tensors: list[str]) -> tuple[list[str], str]:
    """Letters of every operand and of the result; an ellipsis becomes capital letters of its own."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    spare = [chr(code) for code in range(0x391, 0x3A9)]  # letters no equation uses
    widths = [t.rank(x) - len(term.replace("...", "")) for term, x in zip(terms, tensors, strict=True) if "..." in term]
    rest = "".join(spare[: max(widths, default=0)])
    for position, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        width = t.rank(x) - len(term.replace("...", ""))
        terms[position] = term.replace("...", rest[len(rest) - width :] if width else "")
        if len(set(terms[position])) != len(terms[position]):
            raise Unsupported("an index that occurs twice in one operand")
    if arrow:
        return terms, result.replace("...", rest)
    every = "".join(terms)
    return terms, rest + "".join(sorted(letter for letter in set(every) - set(rest) if every.count(letter) == 1))


def _sum_out(t: Translation, x: str, letters: str, kept: set[str]) -> tuple[Ref, str]:
    axes = tuple(axis for axis, letter in enumerate(letters) if letter not in kept)
    return t.reduce("reduce_sum", x, axes), "".join(letter for letter in letters if letter in kept)


def _contract(t: Translation, x: str, xs: str, y: str, ys: str, kept: set[str]) -> tuple[Ref, str]:
    """One product of two operands: shared and kept letters are batch axes, shared and dropped ones are contracted."""
    x, xs = _sum_out(t, x, xs, kept | set(ys))
    y, ys = _sum_out(t, y, ys, kept | set(xs))
    batch = [letter for letter in xs if letter in ys and letter in kept]
    inner = [letter for letter in xs if letter in ys and letter not in kept]
    rows = [letter for letter in xs if letter not in ys]
    columns = [letter for letter in ys if letter not in xs]
    sizes = {**dict(zip(ys, t.shape(y), strict=True)), **dict(zip(xs, t.shape(x), strict=True))}
    lead = tuple(sizes[letter] for letter in batch)
    row, column, depth = (math.prod(sizes[letter] for letter in group) for group in (rows, columns, inner))
    left = t.reshape(t.transpose(x, [xs.index(n) for n in (*batch, *rows, *inner)]), (*lead, row, depth))
    plain = "".join(batch + columns + inner) == ys
    if plain:  # already (batch, columns, contracted): read it transposed instead of moving it
        right = t.reshape(y, (*lead, column, depth))
    else:
        right = t.reshape(t.transpose(y, [ys.index(n) for n in (*batch, *inner, *columns)]), (*lead, depth, column))
    out = t.emit("matmul", left, right, transpose_a=False, transpose_b=plain)
    letters = "".join(batch + rows + columns)
    return t.reshape(out, tuple(sizes[letter] for letter in letters)), letters


@aten("bilinear.default")
def _bilinear(t: Translation, a: Any) -> Ref:
    """y[…, o] = Σ x1[…, i] · w[o, i, j] · x2[…, j] + b[o]."""
    *lead, left = t.shape(a.input1)
    out, _, right = t.shape(a.weight)
    wide = t.transpose(a.weight, (1, 0, 2))
    halves = t.emit("linear", a.input1, t.reshape(wide, (left, out * right)), transpose=True)
    halves = t.emit("reshape", halves, shape=(*lead, out, right))
    other = t.reshape(a.input2, (*lead, 1, right))
    y = t.emit("reduce_sum", t.emit("mul", halves, other), axes=(len(lead) + 1,), keepdims=False)
    return y if a.bias is None else t.emit("add", y, a.bias)
