"""Small loop nests built by hand: convolution forward, input gradient, weight gradient, linear, batched matmul."""

from __future__ import annotations

from dataclasses import replace

from monet.graph.loop_nest import LoopNest, Operand, index


def conv(
    written: str = "y", *, N=1, G=1, K=1, C=1, OY=1, OX=1, FY=1, FX=1, stride=1, dilation=1, pad=0, dtype="int8"
) -> LoopNest:
    """A convolution over (x, w, y); ``written`` says which of the three it computes."""
    height = (OY - 1) * stride + (FY - 1) * dilation + 1 - 2 * pad
    width = (OX - 1) * stride + (FX - 1) * dilation + 1 - 2 * pad
    maps = {
        "x": (
            (N, G * C, max(1, height), max(1, width)),
            (
                index("N"),
                index(("G", C), "C"),
                index(("OY", stride), ("FY", dilation), offset=-pad),
                index(("OX", stride), ("FX", dilation), offset=-pad),
            ),
        ),
        "w": ((G * K, C, FY, FX), (index(("G", K), "K"), index("C"), index("FY"), index("FX"))),
        "y": ((N, G * K, OY, OX), (index("N"), index(("G", K), "K"), index("OY"), index("OX"))),
    }
    operands = tuple(
        Operand(name, slot, dtype, shape, axes, name == written)
        for slot, (name, (shape, axes)) in enumerate(maps.items())
    )
    dims = (("N", N), ("G", G), ("K", K), ("C", C), ("OY", OY), ("OX", OX), ("FY", FY), ("FX", FX))
    return LoopNest(dims, operands)


def backwards(nest: LoopNest) -> LoopNest:
    """The same convolution with its filter walked backwards, as the gather form of an input gradient has it."""
    sizes = nest.sizes
    taps = tuple(index((dim, -1), offset=sizes[dim] - 1) for dim in ("FY", "FX"))
    operands = tuple(
        replace(one, indices=(*one.indices[:2], *taps)) if one.name == "w" else one for one in nest.operands
    )
    return LoopNest(nest.dims, operands)


def linear(N: int, K: int, C: int, dtype: str = "int8") -> LoopNest:
    operands = (
        Operand("x", 0, dtype, (N, C), (index("N"), index("C")), False),
        Operand("w", 1, dtype, (K, C), (index("K"), index("C")), False),
        Operand("y", 2, dtype, (N, K), (index("N"), index("K")), True),
    )
    return LoopNest((("N", N), ("K", K), ("C", C)), operands)


def matmul(B: int, N: int, K: int, C: int, dtype: str = "int8") -> LoopNest:
    operands = (
        Operand("x", 0, dtype, (B, N, C), (index("B0"), index("N"), index("C")), False),
        Operand("w", 1, dtype, (B, C, K), (index("B0"), index("C"), index("K")), False),
        Operand("y", 2, dtype, (B, N, K), (index("B0"), index("N"), index("K")), True),
    )
    return LoopNest((("B0", B), ("N", N), ("K", K), ("C", C)), operands)
