"""Small cores built by hand."""

from __future__ import annotations

from monet.hardware.core import ArrayMode, Axis, Core, CoreKind, MemoryLevel, Port, TransposedRead, flows_of
from monet.hardware.rates import Rate


def level(
    name: str,
    operands: str,
    size_bytes: int,
    shared: tuple[str, ...] = (),
    instances: int = 1,
    read_bits: int = 64,
    write_bits: int = 64,
    energy: float = 1e-12,
    double: bool = False,
) -> MemoryLevel:
    """A level with one read and one write port that all its operands share."""
    pairs = [(operand, flow) for operand in operands for flow in flows_of(operand)]
    ports = (
        Port("read", "read", read_bits, frozenset(pair for pair in pairs if pair[1].is_read)),
        Port("write", "write", write_bits, frozenset(pair for pair in pairs if not pair[1].is_read)),
    )
    return MemoryLevel(
        name, tuple(operands), size_bytes, shared, instances, ports, 8, 64, energy, 1.2 * energy, 0.0, 0.0, double
    )


def core(axes: tuple[Axis, ...], levels: tuple[MemoryLevel, ...], *, swappable=True, products=1, skipping=True) -> Core:
    return Core(
        CoreKind.MATRIX,
        1e9,
        (ArrayMode("default", axes),),
        (Rate(("int8", "int8"), "int16", products, 1, 0.1e-12),),
        0,
        (),
        (),
        levels,
        next(one.name for one in levels if "O" in one.operands),
        swappable,
        skipping,
        TransposedRead(),
        0,
        0,
        0.0,
        0.0,
        0.0,
    )


def two_level(
    a: int = 2,
    b: int = 2,
    w_bytes: int = 4,
    o_bytes: int = 2,
    i_bytes: int = 0,
    *,
    double=False,
    sram_bits=64,
    dims=None,
    products=1,
) -> Core:
    """Weight-stationary style array (a multicasts I, b adds outputs) with registers per unit below one scratchpad."""
    first = Axis("a", a, frozenset({"I"}), False, dims[0] if dims else None)
    second = Axis("b", b, frozenset(), True, dims[1] if dims else None)
    axes = (first, second)
    levels = [level("w_reg", "W", w_bytes, (), a * b, 8, 8, 0.1e-12, double)]
    if i_bytes:
        levels.append(level("i_reg", "I", i_bytes, ("a",), b, 8, 8, 0.1e-12, double))
    levels += [
        level("o_reg", "O", o_bytes, (), a * b, 32, 32, 0.05e-12),
        level("sram", "IWO", 1 << 20, ("a", "b"), 1, sram_bits, sram_bits, 4e-12),
    ]
    return core(axes, tuple(levels), products=products)


def streaming(a: int = 2, b: int = 2, w_bytes: int = 4) -> Core:
    """Weights go from outside the core straight into registers; inputs and outputs have a scratchpad."""
    axes = (Axis("a", a, frozenset({"I"})), Axis("b", b, frozenset(), True))
    return core(
        axes,
        (
            level("w_reg", "W", w_bytes, (), a * b, 8, 8, 0.1e-12),
            level("o_reg", "O", 2, (), a * b, 32, 32, 0.05e-12),
            level("sram", "IO", 1 << 20, ("a", "b"), 1, 64, 64, 4e-12),
        ),
    )


def three_level(local_bytes: int = 64, *, double=False, a=2, b=2) -> Core:
    """Registers, a local buffer shared by all three operands, and a scratchpad."""
    axes = (Axis("a", a, frozenset({"I"})), Axis("b", b, frozenset(), True))
    return core(
        axes,
        (
            level("w_reg", "W", 2, (), a * b, 8, 8, 0.1e-12),
            level("o_reg", "O", 4, ("b",), a, 32, 32, 0.05e-12),
            level("local", "IWO", local_bytes, ("a", "b"), 1, 64, 64, 1e-12, double),
            level("sram", "IWO", 1 << 20, ("a", "b"), 1, 32, 32, 8e-12),
        ),
    )
