"""Numbers for people: three to four digits and a unit. Files and JSON carry the exact value."""

from __future__ import annotations


def _scaled(value: float, step: float, prefixes: tuple[str, ...]) -> str:
    position = 0
    while abs(value) >= step and position < len(prefixes) - 1:
        value, position = value / step, position + 1
    digits = f"{value:.0f}" if position == 0 else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{digits} {prefixes[position]}".rstrip()


def count(value: float) -> str:
    """A plain count: 1.814 G."""
    return _scaled(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def flops(value: float) -> str:
    """Floating-point operations: 3.628 GFLOP."""
    return _scaled(value, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"))


def size(value: float) -> str:
    """Bytes in decimal units, as the reference figures are: 21.62 MB."""
    return _scaled(value, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))
