"""Vector functions: what a lane can be asked to do, and its cycles per element unless a core says otherwise."""

from __future__ import annotations

# Cycles per element and lane, after the vector core of the WHAM library (arXiv 2404.14632, released with Phaze): one
# cycle for an addition, multiplication, comparison or table look-up, ten for a division; the rest are compositions
# of these. A core with faster units overrides them in its ``functions``.
DEFAULT_CYCLES: dict[str, float] = {
    "copy": 1,
    "cast": 1,
    "neg": 1,
    "abs": 1,
    "add": 1,
    "sub": 1,
    "mul": 1,
    "mac": 1,  # a lane is a multiply-adder
    "max": 1,
    "min": 1,
    "compare": 1,
    "select": 1,
    "and": 1,
    "round": 1,
    "quantize": 3,  # to a format whose elements share a scale: compared, scaled and rounded
    "random": 2,  # WHAM: dropout takes 2, one of which is the masking
    "exp": 1,  # table look-up: their sigmoid is exp 1 + add 1 + divide 10 = 12
    "log": 1,
    "div": 10,
    "reciprocal": 10,
    "sqrt": 15,
    "rsqrt": 25,  # sqrt and divide
    "pow": 15,
    "erf": 15,
    "sigmoid": 12,
    "tanh": 27,
    "sin": 13,
    "cos": 13,
}
