"""Operators from the command line: a kind and its dimensions (``K=64,C=64,OY=56,…``) → a loop nest."""

from __future__ import annotations

from monet.errors import nearest
from monet.formats import format_named
from monet.graph.loop_nest import LoopNest, Operand, index
from monet.mapping.errors import MappingError

_CONV = ("N", "G", "K", "C", "OY", "OX", "FY", "FX")
_GEOMETRY = {"stride": 1, "dilation": 1, "pad": -1, "IY": 0, "IX": 0}
LARGEST = 10**9  # tiles along a dimension are spelt out one by one
OPERATORS = {
    "conv": "y",
    "conv_transpose": "x",
    "conv_weight_gradient": "w",
    "linear": "y",
    "linear_weight_gradient": "w",
    "matmul": "y",
}


def operator_nest(kind: str, text: str, dtype: str) -> LoopNest:
    """The nest of an operator; dimensions not given are one, padding keeps the size of the input unless given."""
    format_named(dtype)
    if kind.startswith("conv"):
        return _conv(OPERATORS[kind], _sizes(text, (*_CONV, *_GEOMETRY)), dtype)
    if kind == "matmul":
        return _matmul(_sizes(text, ("B", "N", "K", "C")), dtype)
    return _linear(OPERATORS[kind], _sizes(text, ("N", "K", "C")), dtype)


def with_formats(nest: LoopNest, formats: tuple[str, str]) -> LoopNest:
    """A nest of two operands that are read in these formats, whose groups lie along what it sums over."""
    channels = {"N", "K", "C"}
    read = iter(formats)
    operands = []
    for operand in nest.operands:
        dims = [next(iter({name for name, _ in axis.terms} & channels), "") for axis in operand.indices]
        name = "" if operand.written else next(read)
        if name:
            summed = next(place for place, dim in enumerate(dims) if dim in nest.reduced)
            kept = next(place for place, dim in enumerate(dims) if dim and dim not in nest.reduced)
            dtype = format_named(name).along(len(dims), summed, kept).name
            operand = Operand(operand.name, operand.slot, dtype, operand.shape, operand.indices, False)
        operands.append(operand)
    return LoopNest(nest.dims, tuple(operands))


def _sizes(text: str, allowed: tuple[str, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        if name not in allowed:
            raise MappingError(f"--dims {part!r}: unknown dimension {name!r}; {nearest(name, allowed)}")
        if not value.isdecimal() or (int(value) < 1 and name != "pad"):
            raise MappingError(f"--dims {part!r}: expected a positive whole number, got {value!r}")
        if int(value) > LARGEST:
            raise MappingError(f"--dims {part!r}: the largest size is {LARGEST:,}")
        if name in sizes:
            raise MappingError(f"--dims {part!r}: {name} is given twice")
        sizes[name] = int(value)
    if not sizes:
        raise MappingError(f"--dims is needed: some of {', '.join(allowed)}, for example K=64,C=64")
    return sizes


def _conv(written: str, given: dict[str, int], dtype: str) -> LoopNest:
    size = {name: given.get(name, 1) for name in _CONV}
    stride, dilation = given.get("stride", 1), given.get("dilation", 1)
    shape, window = [], []
    for axis in ("Y", "X"):
        reach = (size[f"O{axis}"] - 1) * stride + (size[f"F{axis}"] - 1) * dilation + 1
        pad = given.get("pad", dilation * (size[f"F{axis}"] - 1) // 2)
        shape.append(given.get(f"I{axis}", max(1, min(reach - pad, size[f"O{axis}"] * stride))))
        window.append(index((f"O{axis}", stride), (f"F{axis}", dilation), offset=-pad))
    k, c = index(("G", size["K"]), "K"), index(("G", size["C"]), "C")
    maps = {
        "x": ((size["N"], size["G"] * size["C"], *shape), (index("N"), c, *window)),
        "w": ((size["G"] * size["K"], size["C"], size["FY"], size["FX"]), (k, index("C"), index("FY"), index("FX"))),
        "y": ((size["N"], size["G"] * size["K"], size["OY"], size["OX"]), (index("N"), k, index("OY"), index("OX"))),
    }
    operands = tuple(
        Operand(name, slot, dtype, shape_of, axes, name == written)
        for slot, (name, (shape_of, axes)) in enumerate(maps.items())
    )
    return LoopNest(tuple(size.items()), operands)


def _linear(written: str, given: dict[str, int], dtype: str) -> LoopNest:
    n, k, c = (given.get(name, 1) for name in ("N", "K", "C"))
    maps = {"x": ((n, c), ("N", "C")), "w": ((k, c), ("K", "C")), "y": ((n, k), ("N", "K"))}
    operands = tuple(
        Operand(name, slot, dtype, shape, tuple(map(index, axes)), name == written)
        for slot, (name, (shape, axes)) in enumerate(maps.items())
    )
    return LoopNest((("N", n), ("K", k), ("C", c)), operands)


def _matmul(given: dict[str, int], dtype: str) -> LoopNest:
    b, n, k, c = (given.get(name, 1) for name in ("B", "N", "K", "C"))
    maps = {"x": ((b, n, c), ("B", "N", "C")), "w": ((b, c, k), ("B", "C", "K")), "y": ((b, n, k), ("B", "N", "K"))}
    operands = tuple(
        Operand(name, slot, dtype, shape, tuple(map(index, axes)), name == "y")
        for slot, (name, (shape, axes)) in enumerate(maps.items())
    )
    return LoopNest((("B", b), ("N", n), ("K", k), ("C", c)), operands)
