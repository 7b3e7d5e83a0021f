"""Spatial unrolling: which dimensions run side by side on which array axis, as far as the wires allow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from monet.graph.loop_nest import LoopNest
from monet.hardware.core import ArrayMode, Axis, Core
from monet.hardware.rates import Rate
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.errors import MappingError
from monet.mapping.nest.footprint import Footprint, footprints
from monet.mapping.nest.frame import UNIT, Frame, Stream
from monet.mapping.nest.mapping import Binding, Unrolled
from monet.mapping.nest.prices import known_shape, shape_of, stream_shape

MAX_UNROLLINGS = 5  # unrollings that the search looks at: those with the fewest cycles

FRAMES = Section[Frame]("frames of mappings", 4096)


def bindings(nest: LoopNest, core: Core) -> tuple[Binding, ...]:
    """Ways to put the operands of a nest into the slots of a core that it has a rate for; the nest's own order of
    inputs comes first."""
    if len(nest.reads) != 2 or len(nest.writes) != 1:
        raise MappingError(f"an array takes two inputs and one output; this nest has {nest}")
    first, second = (operand.name for operand in nest.reads)
    output = nest.writes[0].name
    straight = Binding(first, second, output)
    both = (straight, Binding(second, first, output)) if core.swappable_inputs else (straight,)
    formats = {operand.name: operand.dtype for operand in nest.reads}
    return tuple(each for each in both if _has_rate(core, formats[each.I], formats[each.W])) or both


def _has_rate(core: Core, first: str, second: str) -> bool:
    return any(rate.takes(first, second) for rate in core.rates)


def footprints_of(nest: LoopNest, binding: Binding) -> dict[str, Footprint]:
    """What each slot touches."""
    slots = {binding.I: "I", binding.W: "W", binding.O: "O"}
    return {slots[name]: touched for name, touched in footprints(nest).items()}


def is_legal(touched: dict[str, Footprint], core: Core, axis: Axis, dim: str) -> str:
    """Empty if the wires of an axis allow a dimension, else the reason why not."""
    if axis.dims is not None and dim not in axis.dims:
        return f"axis {axis.name} is wired for {', '.join(axis.dims)}, not {dim}"
    for slot in sorted(axis.multicast):
        if dim in touched[slot].dims:
            return f"axis {axis.name} multicasts {slot}, which {dim} indexes"
    if axis.reduce and dim in touched["O"].dims:
        return f"axis {axis.name} adds outputs, and {dim} indexes the output"
    if not axis.reduce and dim not in touched["O"].dims:
        return f"axis {axis.name} does not add outputs, and {dim} is summed over"
    private = any(axis.name not in level.shared_along for level in core.levels_of("O"))
    if private and any(window.v and dim in window.dims for window in touched["O"].windows):
        return f"positions along {axis.name} would scatter into each other's outputs over {dim}"
    return ""


def frame_of(
    nest: LoopNest, core: Core, mode: str, binding: Binding, unrolled: tuple[Unrolled, ...], stream: Stream | None
) -> Frame:
    """A frame, after checking that the wires allow the unrolling."""
    return _frame_of(nest, shape_of(core), mode, binding, unrolled, stream_shape(stream if core.streamed else None))


def known_frame(
    nest: LoopNest,
    core: Core,
    mode: str,
    binding: Binding,
    unrolled: tuple[Unrolled, ...],
    stream: Stream | None,
    store: CostStore,
) -> Frame:
    """``frame_of``, looked up: one object for all cores of a shape."""
    key = nest, known_shape(core, store), mode, binding, unrolled, stream_shape(stream if core.streamed else None)
    return store[FRAMES].get_or(key, lambda: _frame_of(*key))


def _frame_of(
    nest: LoopNest, core: Core, mode: str, binding: Binding, unrolled: tuple[Unrolled, ...], stream: Stream | None
) -> Frame:
    touched = footprints_of(nest, binding)
    modes = {array_mode.name: array_mode for array_mode in core.modes}
    if mode not in modes:
        raise MappingError(f"the core has no mode {mode!r}; it has {', '.join(modes) or 'no array at all'}")
    axes = {axis.name: axis for axis in modes[mode].axes}
    rate = rate_of(nest, core, binding)
    frame = Frame(nest, core, rate, mode, modes[mode].axes, binding, unrolled, stream, touched)
    used: dict[str, int] = {}
    for unrolling in unrolled:
        used[unrolling.axis] = used.get(unrolling.axis, 1) * unrolling.factor
        if unrolling.dim not in frame.sizes:
            raise MappingError(f"cannot unroll {unrolling.dim}: the nest has no such dimension longer than one")
        if unrolling.axis == UNIT:
            if unrolling.dim in frame.footprints["O"].dims:
                raise MappingError(
                    f"a unit adds its products, so {unrolling.dim}, which indexes the output, cannot be there"
                )
            continue
        if unrolling.axis not in axes:
            raise MappingError(f"the array has no axis {unrolling.axis!r}; it has {', '.join(axes)}")
        reason = is_legal(touched, core, axes[unrolling.axis], unrolling.dim)
        if reason:
            raise MappingError(f"cannot unroll {unrolling.dim}: {reason}")
    for name, factor in used.items():
        size = frame.rate.products_per_step if name == UNIT else axes[name].size
        if factor > size:
            raise MappingError(f"axis {name} has {size} positions, the mapping unrolls {factor}")
    return frame


def rate_of(nest: LoopNest, core: Core, binding: Binding) -> Rate:
    """What the array does with the element types of a binding."""
    dtypes = {operand.name: operand.dtype for operand in nest.operands}
    return core.rate(dtypes[binding.I], dtypes[binding.W])


# --- candidates -------------------------------------------------------------------------------------------------------


@lru_cache(100_000)
def factors(steps: int, room: int) -> tuple[int, ...]:
    """Useful unrollings of ``steps`` in ``room`` positions, largest first: the smallest factor for each step count."""
    found, factor = [], min(steps, room)
    while factor > 1:
        factor = -(-steps // -(-steps // factor))  # fewest positions for this number of steps
        found.append(factor)
        factor -= 1
        factor = min(factor, -(-steps // (-(-steps // found[-1]) + 1)))
    return tuple(found)


def _fits_axis(steps: dict[str, int], legal: tuple[str, ...], size: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """Ways to use one axis: one dimension as wide as it goes, or two that share the axis and together do better; where
    two leave room, a third as wide as it still goes. Nothing only if there is no other way."""
    single = {dim: factors(steps[dim], size) for dim in legal if steps[dim] > 1 and size > 1}
    if not single:
        yield ()
    fewest = {dim: -(-steps[dim] // found[0]) / steps[dim] for dim, found in single.items()}
    for dim, found in single.items():
        yield ((dim, found[0]),)
        for second in single:
            for factor in found if second != dim else ():
                rest = factors(steps[second], size // factor)
                if not rest:
                    continue
                share = -(-steps[dim] // factor) / steps[dim] * -(-steps[second] // rest[0]) / steps[second]
                if share < min(fewest[dim], fewest[second]):
                    yield ((dim, factor), (second, rest[0]))
                    room = size // (factor * rest[0])
                    for third in single if room > 1 else ():
                        if third not in (dim, second):
                            yield ((dim, factor), (second, rest[0]), (third, factors(steps[third], room)[0]))


def unrollings(
    touched: dict[str, Footprint],
    sizes: dict[str, int],
    core: Core,
    mode: ArrayMode,
    rate: Rate,
    limit: int = MAX_UNROLLINGS,
) -> tuple[tuple[Unrolled, ...], ...]:
    """The ``limit`` legal unrollings with the fewest steps, axis by axis; fewest first, mirror images left out."""
    axes = [
        (axis.name, axis.size, tuple(dim for dim in sizes if not is_legal(touched, core, axis, dim)))
        for axis in mode.axes
    ]
    if rate.products_per_step > 1:
        summed = tuple(dim for dim in sizes if dim not in touched["O"].dims)
        axes.insert(0, (UNIT, rate.products_per_step, summed))
    beam: list[tuple[int, tuple[tuple[str, str, int], ...], dict[str, int]]] = [(math.prod(sizes.values()), (), sizes)]
    for name, size, legal in axes:
        wider = {}
        known: dict[tuple[int, ...], tuple[tuple[tuple[str, int], ...], ...]] = {}  # ways, by steps left of each
        for _, chosen, steps in beam:
            left_of = tuple(steps[dim] for dim in legal)
            if left_of not in known:
                known[left_of] = tuple(_fits_axis(steps, legal, size))
            for dims in known[left_of]:
                left = dict(steps)
                for dim, factor in dims:
                    left[dim] = -(-left[dim] // factor)
                new = (*chosen, *((name, dim, factor) for dim, factor in sorted(dims)))
                wider[new] = (math.prod(left.values()), new, left)
        beam = sorted(wider.values(), key=lambda candidate: (candidate[0], len(candidate[1]), candidate[1]))[
            : 4 * limit
        ]
    mirror = mirror_of(touched, sizes)
    found: dict[tuple[tuple[str, str, int], ...], None] = {}
    for _, chosen, _ in beam:
        image = tuple(sorted((axis, mirror.get(dim, dim), factor) for axis, dim, factor in chosen))
        if image not in found:
            found[tuple(sorted(chosen))] = None
    return tuple(tuple(Unrolled(*unrolling) for unrolling in chosen) for chosen in list(found)[:limit])


def mirror_of(touched: dict[str, Footprint], sizes: dict[str, int]) -> dict[str, str]:
    """Dimensions that can change places without changing the nest: rows and columns of a square convolution."""
    for footprint in touched.values():
        if len(footprint.windows) == 2:
            first, second = footprint.windows
            same = (first.a, first.b, first.offset, first.length) == (second.a, second.b, second.offset, second.length)
            if same and all(sizes[p] == sizes[q] for p, q in zip(first.dims, second.dims, strict=False)):
                pairs = dict(zip(first.dims, second.dims, strict=False))
                return pairs | {q: p for p, q in pairs.items()}
    return {}
