"""The bias of a linear layer or a convolution. It is no part of the loop nest: results take it up as they leave."""

from __future__ import annotations

import math

from monet.formats import format_named, whole_bytes
from monet.graph.kind import Call
from monet.graph.loop_nest import LoopNest, Operand
from monet.hardware.core import Core
from monet.mapping.unfused.dram_route import OperandCost


def bias_of(call: Call, nest: LoopNest) -> Operand | None:
    """The bias of a matrix operator, one element for every output channel; None if it has none."""
    if len(call.inputs) != 3 or any(operand.slot == 2 for operand in nest.operands):
        return None
    bias = call.inputs[2]
    return Operand("bias", 2, bias.dtype, bias.shape, (nest.writes[0].indices[1],), False)


def bias_cost(nest: LoopNest, dtype: str, core: Core) -> tuple[OperandCost, dict[str, float]]:
    """What a bias crosses the border with, and its joules below: it comes in once, is read from the memory once, and
    every output takes one addition, at the price of a multiply-accumulate of the array, or of the lanes where these do
    the work. Results leave one by one anyway, so that it takes no longer."""
    bits, (first, second) = bias_bits(nest, dtype), (operand.dtype for operand in nest.reads)
    on_lanes = core.cannot_multiply(first, second)
    rate = core.lane_rate(first, second) if on_lanes else core.rate(first, second, either_way=True)
    top = core.top("O")
    joules = {"compute": math.prod(nest.writes[0].shape) * rate.energy_j}
    joules[top.name] = joules.get(top.name, 0.0) + bits * top.read_energy_j_per_bit
    return OperandCost("O", whole_bytes(bits), 0, 0, 0, False), joules


def bias_elements(nest: LoopNest) -> int:
    """Elements of a bias: one for every output channel."""
    return math.prod(nest.sizes[name] for name, factor in nest.writes[0].indices[1].terms if factor)


def bias_bits(nest: LoopNest, dtype: str) -> float:
    """Bits of a bias."""
    channels = bias_elements(nest)
    return channels * format_named(dtype).bits_per_element((channels,))
