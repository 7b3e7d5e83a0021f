"""Strided scatter as a sum of dense gathers: the phases of an input gradient.

The input gradient of a convolution with stride s is, written as the forward's nest, a scatter: x[s·o + f] += y[o]·w[f].
Positions of x that are equal modulo s are a *phase*. Only some of the taps reach a phase, and they reach all of its
positions: with f = f₀ + s·t and x position s·q + f₀, it is a plain convolution of stride one, x[q] += y[q − t]·w[t],
over a part of the filter. All phases together make the products of the scatter, each once; no array has to write two
taps to one place, or multiply inserted zeros. (Per axis; the phases of several axes are all combinations.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from monet.graph.loop_nest import Index, LoopNest, Operand
from monet.mapping.nest.footprint import Window, footprints

MOST_NESTS = 4096  # whose phases are remembered


@dataclass(frozen=True, slots=True)
class _Phase:
    """Positions a·q + c of a window's axis for q from ``first`` on, ``count`` of them, and the ``taps`` that reach
    them: v = start + step·t. A position q gets tap t from u = q − reach·t."""

    first: int
    count: int
    start: int
    step: int
    taps: int
    reach: int


@lru_cache(MOST_NESTS)
def phases(nest: LoopNest) -> tuple[LoopNest, ...]:
    """The nests of all phases, the one with the most products first; none if no output of the nest is a strided
    scatter, or one of its windows is more than that."""
    if len(nest.writes) != 1:
        return ()
    output = nest.writes[0]
    windows = [window for window in footprints(nest)[output.name].windows if window.v]
    if not any(window.a > 1 for window in windows) or not all(_is_scatter(nest, window) for window in windows):
        return ()
    found = [
        _nest_of(nest, dict(zip(windows, combination, strict=True)))
        for combination in itertools.product(*(tuple(_phases_of(nest, window)) for window in windows))
    ]
    return tuple(sorted(found, key=lambda phase: -phase.points))


def fewest_products(nest: LoopNest) -> int:
    """Products that an array has to make for a nest at least: in phases there are none with padding around the result.
    Tiles of a nest make no fewer together, as their phases cover all positions of its own."""
    return min(nest.points, sum(phase.points for phase in phases(nest)) or nest.points)


def _is_scatter(nest: LoopNest, window: Window) -> bool:
    """Whether its dimensions walk over whole axes of the inputs, each by itself."""
    for operand in nest.reads:
        for index, length in zip(operand.indices, operand.shape, strict=True):
            terms = {name: factor for name, factor in index.terms if factor and nest.sizes[name] > 1}
            if terms.keys() & set(window.dims) and (len(terms) > 1 or not _walks(terms, index.offset, length, nest)):
                return False
    return True


def _walks(terms: dict[str, int], offset: int, length: int, nest: LoopNest) -> bool:
    ((name, factor),) = terms.items()
    return nest.sizes[name] == length and (factor, offset) in ((1, 0), (-1, length - 1))


def _phases_of(nest: LoopNest, window: Window) -> Iterator[_Phase]:
    a, b, common = window.a, window.b, math.gcd(window.a, window.b)
    step, reach = a // common, b // common
    outer, taps = nest.sizes[window.u], nest.sizes[window.v]
    for start in range(min(step, taps)):
        many, at = -(-(taps - start) // step), b * start + window.offset
        low = max(0, -(at // a))  # of positions 0 ≤ a·q + at < length
        high = min(outer - 1 + reach * (many - 1), (window.length - 1 - at) // a)
        if low <= high:
            yield _Phase(low, high - low + 1, start, step, many, reach)


def _nest_of(nest: LoopNest, chosen: dict[Window, _Phase]) -> LoopNest:
    sizes = dict(nest.sizes)
    for window, phase in chosen.items():
        sizes[window.u], sizes[window.v] = phase.count, phase.taps
    return LoopNest(tuple(sizes.items()), tuple(_operand(operand, chosen, nest) for operand in nest.operands))


def _operand(operand: Operand, chosen: dict[Window, _Phase], nest: LoopNest) -> Operand:
    """An operand as a phase has it: of the output its own positions, of the filter its own taps (walked backwards, so
    that the other input is a window), of the other input whatever the window touches."""
    indices, shape = list(operand.indices), list(operand.shape)
    for axis, index in enumerate(operand.indices):
        terms = {name: factor for name, factor in index.terms if factor and nest.sizes[name] > 1}
        for window, phase in chosen.items():
            u, v, last = window.u, window.v, phase.taps - 1
            if operand.written and terms.keys() == set(window.dims):
                indices[axis], shape[axis] = Index(((u, 1),)), phase.count
            elif v in terms:  # v = start + step·t, t = last − v′
                indices[axis], shape[axis] = Index(((v, -1),), last), phase.taps
            elif u in terms:  # u = first + q′ − reach·(last − v′)
                assert terms[u] == 1, "positions of what is scattered are walked forwards"
                indices[axis] = Index(((u, 1), (v, phase.reach)), phase.first - phase.reach * last)
    return replace(operand, indices=tuple(indices), shape=tuple(shape))
