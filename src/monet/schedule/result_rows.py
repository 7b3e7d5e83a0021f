"""The rows of a ``Result``: frozen, units in the names. JSON, CSV, HTML and terminal are made from their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

import numpy as np

Array = np.ndarray[Any, Any]
Row = TypeVar("Row", covariant=True)

CATEGORIES = ("weights", "activations", "gradients", "optimizer_state", "workspace")

# Where a core's time goes; the parts add up to the makespan exactly.
TIME_PARTS = (
    "useful_compute",  # every multiplier or lane has work
    "spatial_under_use",  # some of them have none
    "inner_port_stall",  # the array waits for a memory port at or below the border
    "fill_and_switch",  # first operands in, last results out, dispatch, change of mode
    "waiting_for_dram",
    "waiting_for_link",
    "waiting_for_dependency",
    "waiting_for_space",
    "waiting_for_host",  # it has not issued the operator
    "idle",  # nothing left to do, or nothing placed here yet
)

EVENT_KINDS = ("compute", "read", "write", "move", "evict", "transfer")  # the last: on a port, to what is outside


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One executed operator."""

    name: str  # in the training graph
    kind: str  # entry of the operator table
    family: str  # conv, matmul, elementwise …
    phase: str  # forward, loss, backward or update
    layer: str  # of the model that it came from
    group: int  # fusion group
    cores: tuple[str, ...]  # where it runs
    split: str  # dimension that is cut over them; empty for one core
    tiles: int  # steps it was cut into, over all cores
    start_s: float  # of its first tile, or of the transfers that lead straight to it
    end_s: float  # of its last tile, or of the transfers that follow straight on it
    latency_s: float  # end less start
    busy_s: float  # time in which cores compute it, summed over them
    cycles: int  # of the accelerator's own clock, from start to end
    macs: int  # multiply-accumulates
    work: Mapping[str, int]  # scalar operations by function
    utilisation: float  # multiply-accumulates over what its cores' arrays could do in its formats, from start to end
    energy_j: float  # dynamic energy
    dram_read_bytes: int  # read from DRAM for it
    dram_write_bytes: int  # written to DRAM by it, or to make room for it
    link_bytes: int  # moved between on-chip memories for it
    input_bytes: int  # size of what it reads
    output_bytes: int  # size of what it writes
    bound_by: str  # dram, launch (more than half of its core's time), compute, or the memory port that limits it
    recompute: bool  # whether it is done again for the backward pass
    padding_macs: int = 0  # multiply-accumulates beyond these that only fill groups of elements that share a scale

    @property
    def dram_bytes(self) -> int:
        """Read from and written to DRAM."""
        return self.dram_read_bytes + self.dram_write_bytes

    @property
    def operations(self) -> float:
        """Two per multiply-accumulate; otherwise scalar operations."""
        return 2.0 * self.macs if self.macs else float(sum(self.work.values()))


@dataclass(frozen=True, slots=True)
class CopyRow:
    """A copy of a value in a format whose elements share scales."""

    operator: str  # that makes it
    value: str  # that it is of
    of: str  # input, weight or gradient
    layer: str
    format: str
    bytes: int  # scales and padding included
    padding_bytes: int  # that only fill groups


@dataclass(frozen=True, slots=True)
class CoreRow:
    """One core over the whole step."""

    name: str
    template: str  # the entry of the hardware description that it is a copy of
    kind: str  # matrix or vector
    clock_hz: float
    busy_s: float  # time in which a tile is on it
    utilisation: float  # share of its array's unit-cycles that multiply; of a core without one the share of time
    macs: float  # multiply-accumulates done here
    energy_j: float  # dynamic energy at and below its top memory
    operators: int  # operators that ran here
    tiles: int  # tiles that ran here
    time: Mapping[str, float]  # seconds by cause (``TIME_PARTS``)
    time_ticks: Mapping[str, int]  # the same in ticks, adding up to the step exactly


@dataclass(frozen=True, slots=True)
class LinkRow:
    """One direction of a link, a port of a memory between cores and DRAM or to what is outside, or the DRAM."""

    name: str
    endpoints: tuple[str, ...]  # from, to; all of a bus; of a port its memory; the DRAM's own name
    bytes: int  # that crossed it
    busy_s: float
    utilisation: float  # share of the step in which it is booked
    energy_j: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase of the step; phases overlap where their operators do."""

    start_s: float  # of its first operator
    end_s: float  # of its last operator
    busy_s: float  # core time, summed over cores
    energy_j: float  # dynamic energy
    dram_bytes: int  # read from and written to DRAM
    macs: int  # multiply-accumulates
    operators: int  # how many it has

    @property
    def span_s(self) -> float:
        """From start to end."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class EnergyBreakdown:
    """Joules by what spends them; each ``by_…`` adds up to the whole, with static energy as an entry ``static``."""

    static: float = 0.0
    dynamic: float = 0.0
    by_level: Mapping[str, float] = field(default_factory=dict)
    by_core: Mapping[str, float] = field(default_factory=dict)
    by_phase: Mapping[str, float] = field(default_factory=dict)
    by_operator: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """Bytes in a memory by category at its fullest moment."""

    weights: int
    activations: int
    gradients: int
    optimizer_state: int
    workspace: int
    total: int


@dataclass(frozen=True, slots=True)
class DramBytes:
    """Bytes that crossed between chip and DRAM."""

    read: int = 0
    write: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why there is no schedule: what does not fit where, by how much."""

    operator: str
    core: str
    level: str
    bytes_short: int
    message: str


@dataclass(frozen=True)
class Timeline:
    """Every tile and transfer as five parallel arrays; names are looked up in ``resources`` and ``operators``.

    A transfer that books several resources appears once per resource. ``kind`` indexes ``EVENT_KINDS``.
    """

    ticks_per_second: float
    resources: tuple[str, ...]
    operators: tuple[str, ...]
    start: Array
    end: Array
    resource: Array
    operator: Array
    kind: Array

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class MemoryTrace:
    """Bytes in one memory over time. ``bytes[c, i]`` of category ``CATEGORIES[c]`` from ``time[i]`` (ticks) on.
    ``capacity_bytes``: 0 for a memory outside of the chip that takes whatever is needed."""

    name: str
    capacity_bytes: int
    time: Array
    bytes: Array
    peak_bytes: int
    peak_time_s: float
    peak_operator: str  # the operator that was starting when the peak was reached

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes by category when it is fullest."""
        at = int(self.bytes.sum(axis=0).argmax())
        return dict(zip(CATEGORIES, self.bytes[:, at].tolist(), strict=True))

    @property
    def full(self) -> float:
        """Share of the capacity that the peak takes; 0 where none is said."""
        return self.peak_bytes / self.capacity_bytes if self.capacity_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds of every plan of a graph on an accelerator, whatever the plan at hand."""

    compute_s: float = 0.0  # work over the peak of all cores that can do it
    ports_s: float = 0.0  # operands over the ports of all memories that cores compute from
    links_s: float = 0.0  # what crosses from DRAM to the cores and back, over the links in between
    dram_s: float = 0.0  # the same, over DRAM's bandwidth
    endpoints_s: float = 0.0  # transfers to and from what is outside of the chip, one after another over their port
    dram_bytes: int = 0  # off-chip bytes: read from the start, written to stay, and ``forced_bytes``
    forced_bytes: int = 0  # of these, what no memory can keep between its write and its use
    memory_bytes: int = 0  # what is in DRAM before the step begins
    energy_j: float = 0.0  # work at its cheapest, off-chip bytes, static power; 0 where it is not known

    @property
    def latency_s(self) -> float:
        """The strongest of those on time."""
        return max(self.compute_s, self.ports_s, self.links_s, self.dram_s, self.endpoints_s)


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """One link of the chain that sets the makespan, in order of time; neighbours of one operator are merged."""

    operator: str
    resource: str
    kind: str
    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


class Rows(Sequence[Row], Generic[Row]):
    """Many rows of one kind, made once somebody asks for one: most results are asked for figures."""

    def __init__(self, make: Callable[[], tuple[Row, ...]]) -> None:
        self._make: Callable[[], tuple[Row, ...]] | None = make

    @cached_property
    def _rows(self) -> tuple[Row, ...]:
        assert self._make is not None
        rows, self._make = self._make(), None  # what they were made of is not needed any more
        return rows

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._rows,)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self._rows[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._rows == tuple(other)

    __hash__ = None  # type: ignore[assignment]
