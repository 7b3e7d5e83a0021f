"""What a collective costs on a group of ranks: the fastest of the algorithms that each level of the network allows.

Sizes are bytes of the whole result of ``all_gather``, of the whole operand of ``all_reduce``, ``reduce_scatter`` and
``all_to_all``, and of the message of ``send`` and ``broadcast``. Formulas: Thakur, Rabenseifner, Gropp, Optimization of
Collective Communication Operations in MPICH, 2005; Sanders, Speck, Träff, Two-tree algorithms, 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from monet.distributed.systems.topology import Span

KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send")


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """Seconds from its begin to its end; bytes that a device sends and joules that this takes, by level."""

    seconds: float
    algorithm: str
    sent_bytes: tuple[float, ...]
    energy_j: tuple[float, ...]
    takes_compute: float  # share of the device's compute while it lasts

    @property
    def total_energy_j(self) -> float:
        """Of one device, all levels."""
        return sum(self.energy_j)


@dataclass(frozen=True, slots=True)
class _Way:
    """One algorithm on one level: seconds, and bytes that a device sends."""

    seconds: float
    algorithm: str
    sent: float


@lru_cache(maxsize=65536)
def collective_cost(kind: str, size_bytes: float, group: tuple[Span, ...]) -> CollectiveCost:
    """The cost of one collective on a group that lies on these spans; nothing for a group of one."""
    if kind not in KINDS:
        raise ValueError(f"unknown collective {kind!r}")
    used = [span for span in group if span.count > 1]
    if not used or size_bytes <= 0:
        return CollectiveCost(0.0, "none", (0.0,) * len(group), (0.0,) * len(group), 0.0)
    if kind == "send":
        return _send(size_bytes, group, used[-1])
    ways = [_by_level(kind, size_bytes, used)]
    if len(used) > 1 and kind in ("all_reduce", "reduce_scatter", "all_gather"):
        flat = _flat_ring(kind, size_bytes, used)
        ways += [flat] if flat else []
    seconds, algorithm, sent = min(ways, key=lambda way: way[0])
    launch = max(span.level.launch_s for span in used)
    bytes_by_level = tuple(sent.get(span.level.name, 0.0) for span in group)
    taken = max(span.level.takes_compute for span in used)
    return CollectiveCost(seconds + launch, algorithm, bytes_by_level, _energy(bytes_by_level, group), taken)


def _send(size_bytes: float, group: Sequence[Span], span: Span) -> CollectiveCost:
    """A message to the next member of the outermost level that the two differ in."""
    level = span.level
    seconds = level.launch_s + level.latency_s + size_bytes / (_message_bandwidth(span) * level.share(size_bytes))
    sent = tuple(size_bytes if each is span else 0.0 for each in group)
    return CollectiveCost(seconds, "send", sent, _energy(sent, group), level.takes_compute)


def _energy(sent: Sequence[float], group: Sequence[Span]) -> tuple[float, ...]:
    """Joules that a device's bytes take, by level."""
    return tuple(
        8 * amount * span.level.energy_j_per_bit * span.hops() for amount, span in zip(sent, group, strict=True)
    )


def _message_bandwidth(span: Span) -> float:
    """What one device sends to one other at: one link of several, where there is no switch."""
    level, bandwidth = span.level, span.device_bandwidth_bytes_per_s
    if level.topology == "fully_connected":
        return bandwidth / (level.size - 1)
    if level.topology == "switch":
        return bandwidth
    return bandwidth / (2 * len(level.extents)) / max(span.steps)


# --- level by level ---------------------------------------------------------------------------------------------------


def _by_level(kind: str, size: float, used: Sequence[Span]) -> tuple[float, str, dict[str, float]]:
    """Reduce-scatter from the innermost level out, the middle on the outermost, gather back in."""
    seconds, names, sent = 0.0, [], {}
    for number, span in enumerate(used):
        outermost = number == len(used) - 1
        part = size if kind in ("all_to_all", "broadcast") else size / math.prod(each.count for each in used[:number])
        if kind == "all_reduce" and not outermost:
            ways = [_best("reduce_scatter", part, span), _best("all_gather", part, span)]
        else:
            ways = [_best(kind, part, span)]
        seconds += sum(way.seconds for way in ways)
        names += [way.algorithm for way in ways[:1]]
        sent[span.level.name] = sum(way.sent for way in ways)
    return seconds, " + ".join(names), sent


def _best(kind: str, size: float, span: Span) -> _Way:
    """The fastest algorithm on one level."""
    found = [way for name in span.level.algorithms for way in _ALGORITHMS[name](kind, size, span)]
    if not found:  # the algorithms of the level are for others: everyone to everyone, or from neighbour to neighbour
        found = _direct(kind, size, span) or _ring(kind, size, span)
    return min(found, key=lambda way: way.seconds)


def _rounds(kind: str) -> int:
    return 2 if kind == "all_reduce" else 1


def _ring(kind: str, size: float, span: Span) -> list[_Way]:
    """Neighbour to neighbour. On a torus along each dimension in turn, every dimension at work on a part of its own."""
    dimensions, bandwidth = span.dimension_shares(), span.device_bandwidth_bytes_per_s
    if kind == "all_to_all":
        return []
    if kind == "broadcast":
        share = min(share for _, share in dimensions)
        steps = sum(members - 1 for members, _ in dimensions)
        return [_Way(size / (bandwidth * share * span.level.share(size)) + steps * span.level.latency_s, "ring", size)]
    parts, seconds, sent = len(dimensions), 0.0, 0.0
    left = [size / parts] * parts
    amount = sum(size * (members - 1) / members for members, _ in dimensions) / parts  # near enough to look up a share
    rate = bandwidth * span.level.share(_rounds(kind) * amount)
    for phase in range(parts):
        slowest = 0.0
        for part in range(parts):
            members, share = dimensions[(part + phase) % parts]
            moved = left[part] * (members - 1) / members
            slowest = max(slowest, moved / (rate * share) + (members - 1) * span.level.latency_s)
            sent += moved
            left[part] /= members
        seconds += slowest
    rounds = _rounds(kind)
    return [_Way(rounds * seconds, "ring", rounds * sent)]


def _tree(kind: str, size: float, span: Span) -> list[_Way]:
    """Two binary trees, each with half of the message, in chunks: every member is a leaf of one of them."""
    if kind not in ("all_reduce", "broadcast") or span.level.topology != "switch":
        return []
    depth = math.ceil(math.log2(span.count + 1))
    rounds = _rounds(kind)
    rate = span.device_bandwidth_bytes_per_s * span.level.share(rounds * size)
    latency = span.level.latency_s
    # chunks of the length that costs least: every step of the pipeline waits for one
    chunked = 2 * math.sqrt(max(0.0, size / rate * latency * (depth - 1)))
    return [_Way(rounds * (size / rate + depth * latency) + chunked, "tree", rounds * size)]


def _halving_doubling(kind: str, size: float, span: Span) -> list[_Way]:
    """Pairs exchange halves, then quarters, at twice the distance: largest messages between neighbours."""
    members = span.count
    if kind not in ("all_reduce", "reduce_scatter", "all_gather") or members & (members - 1):
        return []
    level, rounds, steps = span.level, _rounds(kind), int(math.log2(members))
    moved = size * (members - 1) / members
    rate = span.device_bandwidth_bytes_per_s * level.share(rounds * moved)
    if level.topology == "switch":
        seconds = moved / rate
    elif level.topology == "fully_connected":
        seconds = moved / (rate / (level.size - 1))  # one link of each member at a time
    else:  # messages of a step lie over each other on the links between: half as large, twice as many
        one_way = rate / (2 * len(level.extents)) / max(span.steps)
        seconds = steps * (size / 2) / one_way
    return [_Way(rounds * (seconds + steps * level.latency_s), "halving_doubling", rounds * moved)]


def _direct(kind: str, size: float, span: Span) -> list[_Way]:
    """Every member to every other at once."""
    level, members, rounds = span.level, span.count, _rounds(kind)
    moved = size if kind == "broadcast" else size * (members - 1) / members
    rate = span.device_bandwidth_bytes_per_s * level.share(rounds * moved)
    if level.topology == "switch":
        sent = size * (members - 1) if kind == "broadcast" else moved
        return [_Way(rounds * (sent / rate + level.latency_s), "direct", rounds * sent)]
    if level.topology == "fully_connected":
        link = rate / (level.size - 1)
        message = size if kind == "broadcast" else size / members
        return [_Way(rounds * (message / link + level.latency_s), "direct", rounds * moved)]
    if kind != "all_to_all":
        return []
    # on a torus: half of the bytes cross the middle, over two links of each member along that dimension
    longest = max(members for members in span.members)
    link = rate / len(level.extents) / max(span.steps)
    seconds = size * longest / 8 / (link / 2)
    return [_Way(seconds + longest / 2 * level.latency_s, "direct", moved)]


_ALGORITHMS = {"ring": _ring, "tree": _tree, "halving_doubling": _halving_doubling, "direct": _direct}


# --- one ring through all levels --------------------------------------------------------------------------------------


def _flat_ring(kind: str, size: float, used: Sequence[Span]) -> tuple[float, str, dict[str, float]] | None:
    """Rings through all members, as many as leave a node by different ports; every level is passed at once."""
    if not all("ring" in span.level.algorithms for span in used):
        return None
    members, rounds = math.prod(span.count for span in used), _rounds(kind)
    moved, seconds, sent = size * (members - 1) / members, 0.0, {}
    for span in used:
        share = min(share for _, share in span.dimension_shares())
        rate = span.device_bandwidth_bytes_per_s * span.below * share * span.level.share(rounds * moved / span.below)
        seconds = max(seconds, moved / rate)
        sent[span.level.name] = rounds * moved / span.below
    latency = max(span.level.latency_s for span in used)
    return rounds * (seconds + (members - 1) * latency), "flat ring", sent
