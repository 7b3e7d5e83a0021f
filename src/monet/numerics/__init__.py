"""Running graphs in NumPy."""

from monet.numerics.executor import execute, random_values

__all__ = ["execute", "random_values"]
