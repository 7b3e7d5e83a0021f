"""Every mapping of a frame in the named space: all permutations of all loops, and every place for every cut."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from monet.hardware.core import OPERANDS
from monet.mapping.mapper.tiling import Constraints, candidate_tiles, compile_frame, priced, resident_price, tie_weight
from monet.mapping.nest.cost import entries, tile_elements
from monet.mapping.nest.frame import Frame
from monet.mapping.nest.mapping import Loop, trips_by_dim
from monet.mapping.nest.prices import Prices


def prime_factors(number: int) -> list[int]:
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found


def loops_of(frame: Frame) -> list[Loop]:
    return [Loop(dim, prime) for dim, steps in frame.steps.items() for prime in prime_factors(steps)]


def decompositions(steps: int) -> list[list[int]]:
    """Trip counts, outermost first: primes (all divisor chains), or a ragged outer loop over a chain of its tile."""
    found = [prime_factors(steps)]
    for tile in candidate_tiles(steps):
        if steps % tile:
            found.append([-(-steps // tile), *prime_factors(tile)])
    return found


def orders(frame: Frame) -> Iterator[tuple[Loop, ...]]:
    """Every loop order of the named space; a ragged loop stays outside the others of its dimension."""
    dims = [dim for dim, steps in frame.steps.items() if steps > 1]
    for choice in itertools.product(*(decompositions(frame.steps[dim]) for dim in dims)):
        loops = [(dim, i, trips) for dim, chain in zip(dims, choice, strict=True) for i, trips in enumerate(chain)]
        ragged = {dim for dim, chain in zip(dims, choice, strict=True) if math.prod(chain) != frame.steps[dim]}
        seen = set()
        for permutation in itertools.permutations(loops):
            first: dict[str, int] = {}
            for dim, i, _ in permutation:
                first.setdefault(dim, i)
            order = tuple(Loop(dim, trips) for dim, _, trips in permutation)
            if all(first[dim] == 0 for dim in ragged) and order not in seen:
                seen.add(order)
                yield order


def best_score(frame: Frame, prices: Prices, objective: str) -> float:
    """The least score over all permutations and cuts; infinite if nothing fits."""
    arrays = compile_frame(frame, Constraints())
    tie = tie_weight(frame, prices, objective, priced(arrays, prices).least_energy if arrays else 1.0)
    return min(_best_cuts(frame, prices, order, objective, tie) for order in orders(frame))


def _best_cuts(frame: Frame, prices: Prices, order: tuple[Loop, ...], objective: str, tie: float) -> float:
    """The best combination of cut positions in one loop order, by broadcasting over all of them."""
    cuts, places = len(frame.crossings), len(order) + 1

    def along(k: int, values) -> np.ndarray:
        return np.asarray(values, float).reshape([places if i == k else 1 for i in range(cuts)])

    shape = (places,) * cuts
    allowed = np.ones(shape, bool)
    entered, exposed = [], np.zeros(shape)
    chains = {slot: np.zeros(shape) for slot in OPERANDS}
    used: dict[str, np.ndarray] = {}
    for k, crossing in enumerate(frame.crossings):
        bits, transfer = frame.bits[crossing.slot], frame.transfer_cycles[k]
        mine, sizes, waits = [], [], []
        for position in range(places):
            tile = trips_by_dim(order[position:])
            mine.append(entries(frame, crossing, order, position))
            sizes.append(tile_elements(frame, crossing, tile))
            one_step = all(tile.get(dim, 1) == 1 for dim in frame.footprints[crossing.slot].dims)
            again = mine[-1] - frame.distinct_results if crossing.slot == "O" else 0
            overlaps = one_step or sizes[-1] * bits <= frame.overlapped_bits(crossing)
            waits.append(0.0 if overlaps else transfer * (mine[-1] + again))
        entered.append(along(k, mine))
        exposed = exposed + along(k, waits)
        chains[crossing.slot] = chains[crossing.slot] + along(k, sizes) * transfer * crossing.positions
        name = crossing.level.name
        used[name] = used.get(name, np.zeros(shape)) + along(k, sizes) * bits
        if k and frame.crossings[k - 1].slot == crossing.slot:
            allowed &= along(k - 1, range(places)) >= along(k, range(places))
    for name, bits_used in used.items():
        allowed &= bits_used <= frame.core.level(name).tile_bytes * 8
    energy = np.full(shape, frame.nest.points * prices.mac_j[frame.rate.inputs])
    ports: dict[str, np.ndarray] = {}
    for term in frame.terms:
        bits_moved = term.bits + (term.bits_per_entry * entered[term.crossing] if term.crossing >= 0 else 0)
        energy = energy + bits_moved * prices.per_bit(term.level, term.flow.is_read) * term.billed
        port, cycles = frame.cycles_per_bit(term.level, term.slot, term.flow)
        ports[port] = ports.get(port, np.zeros(shape)) + bits_moved * cycles
    joules, cycles = resident_price(frame, prices)
    energy = energy + joules
    if cycles:
        ports["stream"] = ports.get("stream", np.zeros(shape)) + cycles
    peak = np.maximum.reduce([frame.compute_cycles + exposed, *ports.values()])
    fill = chains["I"] + chains["W"] if frame.inputs_share_a_port else np.maximum(chains["I"], chains["W"])
    latency = peak + fill + chains["O"] + frame.constant_fill_cycles
    score = {"latency": latency + tie * energy, "energy": energy + tie * latency, "edp": latency * energy}[objective]
    return float(np.where(allowed, score, math.inf).min())
