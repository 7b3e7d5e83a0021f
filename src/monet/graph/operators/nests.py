"""Loop nests of operators that are not matrix products: element-wise with broadcasting, and reductions by axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monet.graph.kind import Call
from monet.graph.loop_nest import Index, LoopNest, Operand, Picks, index
from monet.graph.tensor import Tensor


def axis_names(rank: int) -> tuple[str, ...]:
    """Dimension names of a nest over plain axes: A0, A1, …"""
    return tuple(f"A{axis}" for axis in range(rank))


def broadcast_indices(tensor: Tensor, rank: int) -> tuple[Index, ...]:
    """Index a tensor from the dimensions of a (larger) broadcast shape; axes of extent one stay put."""
    lead = rank - len(tensor.shape)
    return tuple(index(f"A{lead + axis}") if size > 1 else Index(()) for axis, size in enumerate(tensor.shape))


def over(
    shape: tuple[int, ...],
    call: Call,
    maps: Sequence[Sequence[Index] | None] | None = None,
    picks: Mapping[int, Picks] | None = None,
) -> LoopNest:
    """A nest over ``shape``. Operands are broadcast against it unless ``maps`` (inputs, then outputs) says otherwise.

    A map of None leaves the operand out: the operator does not touch its elements. ``picks``: by slot, what is looked
    up there.
    """
    rank, tensors = len(shape), (*call.inputs, *call.outputs)
    sizes, operands = dict(zip(axis_names(rank), shape, strict=True)), []
    for slot, tensor in enumerate(tensors):
        axes = broadcast_indices(tensor, rank) if maps is None else maps[slot]
        if axes is not None:
            written = slot >= len(call.inputs)
            name = f"out{slot - len(call.inputs)}" if written else f"in{slot}"
            looked_up = (picks or {}).get(slot)
            read = looked_up.within(tensor.shape, sizes) if looked_up else tensor.shape
            bits = tensor.bits_per_element
            operands.append(Operand(name, slot, tensor.dtype, read, tuple(axes), written, bits, looked_up))
    return LoopNest(tuple(sizes.items()), tuple(operands))


def elementwise(call: Call) -> LoopNest:
    """One point per element of the first output, operands broadcast."""
    return over(call.out.shape, call)


def axis_size(call: Call) -> int:
    """Elements of the axis of its first input that an operator works along."""
    return call.inputs[0].shape[int(call.attrs["axis"])]


def axes_of(names: Sequence[int]) -> tuple[Index, ...]:
    """Indices that pick out the given axes of the nest, in order."""
    return tuple(index(f"A{axis}") for axis in names)
