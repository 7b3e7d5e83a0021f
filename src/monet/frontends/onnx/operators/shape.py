"""Operators that move or rename elements, and those that only speak of shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from monet.errors import ModelError
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Known
from monet.frontends.onnx.translation import Translation, Unsupported, Value, reads


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise ModelError(f"axis {axis} is out of range for {rank} axes")
    return axis % rank if rank else 0


# --- reshape, with the trap of a batch size that was written into a constant -----------------------------------------


def _resolved(shape: tuple[int, ...], source: tuple[int, ...], allow_zero: bool) -> tuple[int, ...]:
    """``shape`` with zeros (copy that axis) and one -1 (whatever is left) filled in."""
    sizes = [
        source[axis] if size == 0 and not allow_zero and axis < len(source) else size for axis, size in enumerate(shape)
    ]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        if rest == 0 or math.prod(source) % rest:
            raise ModelError(f"cannot reshape {list(source)} to {list(shape)}")
        sizes[sizes.index(-1)] = math.prod(source) // rest
    return tuple(sizes)


def _rescaled(
    stored_shape: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...], grown: Mapping[int, int]
) -> tuple[int, ...] | None:
    """A reshape's stored result after its input grew from ``old`` to ``new``; None if no axis answers for the change.

    ``grown`` maps a size of the model's inputs to what it has become.
    """
    result = list(stored_shape)
    for axis, (before, after) in enumerate(zip(old, new, strict=True)):
        if before == after:
            continue
        unit = next((was for was, now in grown.items() if before % was == 0 and before * now == after * was), before)
        place = _place(stored_shape, math.prod(old[:axis]), before, unit, old[axis + 1] if axis + 1 < len(old) else 1)
        if place is None or result[place] * after % before:
            return None
        result[place] = result[place] * after // before
    return tuple(result)


def _place(stored_shape: tuple[int, ...], lead: int, before: int, unit: int, following: int) -> int | None:
    """The axis of a reshape's result that holds the factor ``unit`` of an input axis (``before``, ``lead`` in).

    An axis of just that size wins, then one that covers the input axis. A unit of one lies between two axes: it joins
    the one before it (tokens · batch), unless the one after it is part of the ``following`` input axis (batch · heads).
    """
    spans, passed = [], 1
    for size in stored_shape:
        spans.append((passed, passed * size))
        passed *= size
    end = lead * before
    exact = [p for p, (start, stop) in enumerate(spans) if stored_shape[p] == unit and lead <= start and stop <= end]
    if exact:
        return exact[0]
    left = [p for p, (_, stop) in enumerate(spans) if stop == lead]
    right = [p for p, (start, stop) in enumerate(spans) if start <= lead and stop >= lead * max(unit, 2)]
    if unit == 1 and left and lead > 1:
        splits = (
            before == 1 and right and stored_shape[right[-1]] < following and following % stored_shape[right[-1]] == 0
        )
        return right[-1] if splits and spans[right[-1]][0] == lead else left[-1]
    return right[-1] if right else None


@reads("Reshape")
def _reshape(t: Translation, node: Node) -> Value:
    x, target = t.tensor(node, 0), t.operand(node, 1)
    asked = t.integers(node, 1, "a shape", "shape") or ()
    source, allow_zero = t.shape(x), bool(node.get("allowzero", 0))
    fixed = not isinstance(target, Known) or not target.follows_shapes
    old = (t.stored_shapes or {}).get(node.input(0))
    if fixed and old is not None and old != source and len(old) == len(source):
        stored_shape = _resolved(asked, old, allow_zero)
        shape = _rescaled(stored_shape, old, source, t.grown)
        if shape is None or math.prod(shape) != math.prod(source):
            raise ModelError(
                f"the file fixes the shape {list(asked)} for an input of {list(old)}; it cannot follow {list(source)}. "
                "Export the model at that size, or with dynamic axes"
            )
        return t.reshape(node, x, shape)
    return t.reshape(node, x, _resolved(asked, source, allow_zero))


@reads("Flatten")
def _flatten(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    shape = t.shape(x)
    axis = node.get("axis", 1)
    axis = axis if axis == len(shape) else _axis(axis, len(shape))
    return t.reshape(node, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@reads("Squeeze")
def _squeeze(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    shape = t.shape(x)
    axes = t.integers(node, 1, "axes", "axes")
    chosen = {_axis(a, len(shape)) for a in axes} if axes is not None else {a for a, n in enumerate(shape) if n == 1}
    if any(shape[axis] != 1 for axis in chosen):
        raise ModelError(f"cannot squeeze axes {sorted(chosen)} of {list(shape)}")
    return t.reshape(node, x, tuple(size for axis, size in enumerate(shape) if axis not in chosen))


@reads("Unsqueeze")
def _unsqueeze(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    axes = t.integers(node, 1, "axes", "axes") or ()
    rank = len(t.shape(x)) + len(axes)
    places, rest = {_axis(axis, rank) for axis in axes}, iter(t.shape(x))
    return t.reshape(node, x, tuple(1 if axis in places else next(rest) for axis in range(rank)))


@reads("Transpose")
def _transpose(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    order = tuple(node.get("perm") or reversed(range(len(t.shape(x)))))
    if order == (3, 1, 2, 0, 4) and t.shape(x)[0] == 1 and t.shape(x)[3] in (2, 3):
        # query, key and value of a packed projection: the framework makes them contiguous before it takes them apart
        return t.emit(node, "copy", t.emit(node, "transpose", x, order=order))
    return x if order == tuple(range(len(order))) else t.emit(node, "transpose", x, order=order)


@reads("Expand")
def _expand(t: Translation, node: Node) -> str:
    x, target = t.tensor(node, 0), t.operand(node, 1)
    asked = [int(size) for size in t.required(node, 1, "a shape").ravel()]
    old = (t.stored_shapes or {}).get(node.input(0))
    if old is not None and isinstance(target, Known) and not target.follows_shapes:
        before, lead = np.broadcast_shapes(old, asked), len(asked) - len(old)
        for axis, (was, now) in enumerate(zip(old, t.shape(x), strict=True)):
            if was != now and before[axis + max(lead, 0)] == was and axis + lead >= 0:
                asked[axis + lead] = now
    x = t.thinned(node, x, tuple(asked))
    shape = np.broadcast_shapes(t.shape(x), tuple(asked))
    return x if shape == t.shape(x) else t.emit(node, "expand", x, shape=shape)


@reads("Tile")
def _tile(t: Translation, node: Node) -> str:
    x, times = t.tensor(node, 0), tuple(int(n) for n in t.required(node, 1, "repeats").ravel())
    return x if set(times) == {1} else t.emit(node, "repeat", x, times=times)


# --- cutting and joining ---------------------------------------------------------------------------------------------


@reads("Slice")
def _slice(t: Translation, node: Node) -> Value:
    x = t.tensor(node, 0)
    shape = t.shape(x)
    starts = t.integers(node, 1, "a start", "starts") or ()
    ends = t.integers(node, 2, "an end", "ends") or ()
    axes = t.integers(node, 3, "axes", "axes") or tuple(range(len(starts)))
    steps = t.integers(node, 4, "steps", "steps") or (1,) * len(starts)
    old = (t.stored_shapes or {}).get(node.input(0))
    cuts: list[tuple[int, int, int, int]] = []
    flipped: list[int] = []
    for raw, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = _axis(raw, len(shape))
        size = shape[axis]
        if old is not None and len(old) == len(shape) and old[axis] != size and (start, end) == (0, old[axis]):
            end = size  # the whole axis, with the size the file was written at
        if step < 0:
            flipped.append(axis)
            places = range(size)[slice(start, end if end >= -size else None, step)]
            start, end, step = size - 1 - places[0], size - places[-1], -step
        first, last, _ = slice(start, end, step).indices(size)
        if last <= first:
            raise ModelError(f"axis {axis} of {list(shape)} is cut down to nothing")
        if (first, last, step) != (0, size, 1):
            cuts.append((axis, first, last, step))
    if flipped:
        x = t.emit(node, "flip", x, axes=tuple(flipped))
    if not cuts:
        return x
    axes, starts, ends, steps = (tuple(column) for column in zip(*sorted(cuts), strict=True))
    return t.emit(node, "slice", x, axes=axes, starts=starts, stops=ends, steps=steps)


@reads("Split")
def _split(t: Translation, node: Node) -> tuple[Value, ...]:
    x = t.tensor(node, 0)
    axis = _axis(node.get("axis", 0), len(t.shape(x)))
    size, sizes = t.shape(x)[axis], t.integers(node, 1, "parts", "split")
    count = len(node.outputs)
    if sizes is None:
        part = -(-size // count)
        sizes = tuple(min(part, size - part * position) for position in range(count))
    elif sum(sizes) != size and len(set(sizes)) == 1 and size % len(sizes) == 0:
        sizes = (size // len(sizes),) * len(sizes)  # equal parts of an axis that has changed
    return (x,) if len(sizes) == 1 else t.emit_all(node, "split", x, sizes=sizes, axis=axis)


@reads("Concat")
def _concat(t: Translation, node: Node) -> str:
    parts = [t.operand(node, position) for position in range(len(node.inputs))]
    names = [t.make(part) for part in parts if part is not None and 0 not in t.shape_of(part)]
    axis = _axis(node.get("axis", 0), len(t.shape(names[0])))
    if t.stored_shapes is not None:
        names = _same_sizes(t, node, names, axis)
    return names[0] if len(names) == 1 else t.emit(node, "concat", *names, axis=axis)


def _same_sizes(t: Translation, node: Node, names: list[str], axis: int) -> list[str]:
    """A part that was written at another batch (a class token, say) is repeated for the new one."""
    wanted = [max(sizes) for sizes in zip(*(t.shape(name) for name in names), strict=True)]
    for position, name in enumerate(names):
        target = tuple(size if a == axis else wanted[a] for a, size in enumerate(t.shape(name)))
        if target != t.shape(name):
            thin = t.thinned(node, name, target)
            names[position] = t.emit(node, "expand", thin, shape=target) if t.shape(thin) != target else thin
    return names


@reads("Pad")
def _pad(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    rank, mode = len(t.shape(x)), node.get("mode", "constant")
    pads = t.integers(node, 1, "padding", "pads") or ()
    axes = t.integers(node, 3, "axes", "axes") or tuple(range(len(pads) // 2))
    value = t.number(node, 2, "a fill", "value")
    if mode == "wrap":
        raise Unsupported("mode wrap")
    padding = [(0, 0)] * rank
    for position, axis in enumerate(axes):
        padding[_axis(axis, rank)] = (pads[position], pads[position + len(axes)])
    if all(pair == (0, 0) for pair in padding):
        return x
    return t.emit(node, "pad", x, padding=tuple(padding), mode=mode, value=value)


@reads("DepthToSpace")
def _depth_to_space(t: Translation, node: Node) -> str:
    x, block = t.tensor(node, 0), int(node.get("blocksize"))
    n, c, h, w = t.shape(x)
    inner = c // (block * block)
    if node.get("mode", "DCR") == "CRD":
        x = t.reshape(node, x, (n, inner, block, block, h, w))
        x = t.emit(node, "transpose", x, order=(0, 1, 4, 2, 5, 3))
    else:
        x = t.reshape(node, x, (n, block, block, inner, h, w))
        x = t.emit(node, "transpose", x, order=(0, 3, 4, 1, 5, 2))
    return t.reshape(node, x, (n, inner, h * block, w * block))


@reads("SpaceToDepth")
def _space_to_depth(t: Translation, node: Node) -> str:
    x, block = t.tensor(node, 0), int(node.get("blocksize"))
    n, c, h, w = t.shape(x)
    x = t.reshape(node, x, (n, c, h // block, block, w // block, block))
    x = t.emit(node, "transpose", x, order=(0, 3, 5, 1, 2, 4))
    return t.reshape(node, x, (n, c * block * block, h // block, w // block))


@reads("Trilu")
def _trilu(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    offset = int(t.number(node, 1, "a diagonal"))
    ones = np.ones(t.shape(x)[-2:])
    kept = np.triu(ones, offset) if node.get("upper", 1) else np.tril(ones, offset)
    if t.of(x).dtype == "bool":
        mask = t.make(Known(kept.astype(np.bool_), f"{node.outputs[0]}.kept"))
        return t.emit(node, "logical_and", x, mask)
    mask = t.make(Known(kept == 0, f"{node.outputs[0]}.cut"))
    return t.emit(node, "masked_fill", x, mask, value=0.0)


# --- shapes as values ------------------------------------------------------------------------------------------------


@reads("Shape")
def _shape(t: Translation, node: Node) -> Value:
    value = t.operand(node, 0)
    if value is None:
        raise ModelError("Shape needs an input")
    sizes = np.asarray(t.shape_of(value), np.int64)
    return Known(sizes[slice(node.get("start", 0), node.get("end"))], node.outputs[0], None, True, True)


@reads("Size")
def _size(t: Translation, node: Node) -> Value:
    value = t.operand(node, 0)
    if value is None:
        raise ModelError("Size needs an input")
    return Known(np.asarray(np.prod(t.shape_of(value)), np.int64), node.outputs[0], None, True, True)


@reads("If")
def _if(t: Translation, node: Node) -> tuple[Value, ...]:
    condition = t.known(node, 0)
    if condition is None:
        raise Unsupported("a condition that depends on data")
    branches = node.get("else_branch"), node.get("then_branch")
    return t.inline(branches[bool(condition.flat[0])])
