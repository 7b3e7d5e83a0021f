"""The hardware file: pydantic models of an accelerator as people write it. ``resolve`` turns one into an Accelerator.

Units are in the names; a value is a plain number in that unit or text with one (``size_bytes: 2 MiB``). What is left
out is derived from the technology, except where nothing published would support a guess.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from monet.errors import nearest
from monet.formats import FORMATS, is_format, unknown_format
from monet.hardware.fields import (
    Bytes,
    BytesPerSecond,
    Count,
    Cycles,
    Hertz,
    Joules,
    JoulesPerBit,
    Metres,
    NotNegative,
    Positive,
    Seconds,
    SquareMetres,
    Watts,
)
from monet.hardware.fields import (
    Model as Model,  # for descriptions of other things
)
from monet.hardware.functions import DEFAULT_CYCLES
from monet.hardware.interfaces import DRAM_KINDS, SERIAL_KINDS
from monet.hardware.technology import MAX_NODE_NM, MIN_NODE_NM
from monet.hardware.tiles_description import OutputTilesModel, ThreadBlocksModel

Operand = Literal["I", "W", "O"]
_DIMENSION = re.compile(r"^(N|G|K|C|[OF][XYZ]|B\d*|M)$")
SUMS = tuple(name for name, number_format in FORMATS.items() if number_format.may_accumulate)
_PORTS = re.compile(r"^(?:(\d+)r)?(?:(\d+)w)?(?:(\d+)rw)?$")


MOST_PORTS = 64
MOST_COPIES = 16_384  # of a core: where they work together they are one in a schedule, but every one has a name
MOST_IN_MESH = 1024  # every pair of their memories has a route, and each is scheduled on its own
_COPIES = (
    f"at most {MOST_COPIES:,} copies of a core are scheduled, {MOST_IN_MESH:,} in a mesh; give a larger array instead"
)


def _known_format(name: str) -> str:
    if not is_format(name):
        raise ValueError(unknown_format(name))
    return name


class AxisModel(Model):
    """One axis of an array: its size, its wires, and the loop dimensions it may take (none listed: any legal one)."""

    size: Count
    multicast: list[Literal["I", "W"]] = Field([], description="inputs that all positions along the axis receive alike")
    reduce: bool = Field(False, description="outputs of all positions along the axis are added")
    dims: list[str] | None = Field(
        None, description="loop dimensions the axis is wired for; any that is legal if absent"
    )
    systolic: bool = Field(False, description="data ripples through: (used size - 1) cycles to fill and drain")

    @field_validator("dims")
    @classmethod
    def _dimensions(cls, dims: list[str] | None) -> list[str] | None:
        for name in dims or ():
            if not _DIMENSION.match(name):
                raise ValueError(
                    f"unknown loop dimension {name!r}; allowed: N, G, K, C, OZ, OY, OX, FZ, FY, FX, M, B, B0 …"
                )
        return dims


class WiresModel(Model):
    """Wires of an axis in another mode of the array; its size stays."""

    multicast: list[Literal["I", "W"]] = Field([])
    reduce: bool = False
    dims: list[str] | None = None


class RateModel(Model):
    """What one array unit does with a pair of number formats."""

    products_per_cycle: Positive = Field(
        1.0, description="a whole number (summed inside the unit), or one over a whole number"
    )
    products_per_step: Count | None = Field(
        None,
        description="products that a unit takes in together and sums, in as many cycles as it needs for them; "
        "sums of fewer are padded. Absent: those of a cycle",
    )
    accumulator: str | None = Field(None, description="number format of partial sums")
    energy_j: Joules | None = Field(None, description="of one multiply-accumulate, memories not included")

    @field_validator("accumulator")
    @classmethod
    def _accumulator(cls, name: str | None) -> str | None:
        if name is not None and not FORMATS[_known_format(name)].may_accumulate:
            raise ValueError(f"{name} cannot hold sums; allowed: {', '.join(SUMS)}")
        return name

    @field_validator("products_per_cycle")
    @classmethod
    def _whole(cls, rate: float) -> float:
        ratio = rate if rate >= 1 else 1 / rate
        if abs(ratio - round(ratio)) > 1e-6 * ratio:
            raise ValueError("must be a whole number or one over a whole number (4, 1, 0.25)")
        return rate


class LaneRateModel(Model):
    """What one vector lane does with a number format."""

    elements_per_cycle: Positive = 1.0
    energy_j: Joules | None = Field(None, description="of one lane-cycle, memories not included")


class VectorModel(Model):
    """Vector lanes of a core. In short form (a list of dtypes) 64-bit types run at a quarter of the rate."""

    lanes: Count
    dtypes: dict[str, LaneRateModel] = Field(min_length=1)
    functions: dict[str, Positive] = Field({}, description="cycles per element and lane that differ from the usual")
    only: list[str] | None = Field(None, description="the functions the lanes have; absent: all")

    @field_validator("dtypes", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        wide = {name for name, number_format in FORMATS.items() if number_format.bits == 64}
        return {str(name): {"elements_per_cycle": 0.25} if str(name) in wide else {} for name in value}

    @field_validator("dtypes")
    @classmethod
    def _dtypes(cls, value: dict[str, LaneRateModel]) -> dict[str, LaneRateModel]:
        for name in value:
            _known_format(name)
        return value

    @field_validator("functions", "only")
    @classmethod
    def _functions(cls, value: Any) -> Any:
        for name in value or ():
            if name not in DEFAULT_CYCLES:
                raise ValueError(f"unknown function {name!r}; {nearest(name, DEFAULT_CYCLES)}")
        return value


class PortModel(Model):
    """One port of a memory."""

    name: str | None = None
    direction: Literal["read", "write", "read_write"]
    bandwidth_bits_per_cycle: Count
    carries: list[str] | None = Field(
        None, description="what uses it: 'I.fill', 'O.drain', 'O' or 'feed'; absent: by direction"
    )

    @field_validator("carries")
    @classmethod
    def _carries(cls, value: list[str] | None) -> list[str] | None:
        for text in value or ():
            if not re.match(r"^([IWO]|fill|feed|collect|drain|[IWO]\.(fill|feed|collect|drain))$", text):
                raise ValueError(
                    f"{text!r} is not an operand (I, W, O), a flow (fill, feed, collect, drain) or operand.flow"
                )
        return value


class StorageModel(Model):
    """What every on-chip memory has, private or shared."""

    size_bytes: Bytes
    kind: Literal["register", "sram"] | None = Field(None, description="absent: register up to 1 KiB, else sram")
    bandwidth_bits_per_cycle: Count | None = Field(None, description="of every port given in short form")
    ports: list[PortModel] = Field(description="short form: '1r1w', '2rw' …, with bandwidth_bits_per_cycle")
    min_access_bits: Count | None = Field(None, description="smallest access; absent: the widest port")
    access_bits: Count | None = Field(None, description="width the energies are of; absent: the widest port")
    read_energy_j: Joules | None = None
    write_energy_j: Joules | None = None
    area_m2: SquareMetres | None = None
    leakage_w: Watts | None = None
    double_buffered: bool = False
    latency_cycles: Cycles = 1
    banks: Count | None = Field(None, description="that words lie in by turns; output tiles wait where streams meet")
    bank_bits: Count = Field(64, description="width of a bank")

    @model_validator(mode="before")
    @classmethod
    def _short_ports(cls, data: Any) -> Any:
        return _expand_ports(data) if isinstance(data, dict) else data


def _expand_ports(data: dict[str, Any]) -> dict[str, Any]:
    """Write ports given as '1r1w' (the default) out in full."""
    short = data.get("ports", "1r1w")
    if short == [] and not data.get("memory"):
        raise ValueError("ports is empty: a memory has at least one, as '1r1w' or a list with a bandwidth each")
    if not isinstance(short, str) or (data.get("memory") and "ports" not in data):
        return data
    match = _PORTS.match(short)
    if not match or not any(match.groups()):
        raise ValueError(f"ports {short!r} is not of the form '1r1w', '2r2w', '1rw'")
    width = data.get("bandwidth_bits_per_cycle")
    if width is None:
        raise ValueError("give bandwidth_bits_per_cycle, or ports with a bandwidth each")
    if not 1 <= sum(int(count or 0) for count in match.groups()) <= MOST_PORTS:
        raise ValueError(
            f"ports {short!r}: 1 to {MOST_PORTS} are allowed (a macro has one or two, a register file tens)"
        )
    directions = zip(("read", "write", "read_write"), ("r", "w", "rw"), match.groups(), strict=True)
    ports = [
        {"name": f"{letter}{number}", "direction": direction, "bandwidth_bits_per_cycle": width}
        for direction, letter, count in directions
        for number in range(int(count or 0))
    ]
    return data | {"ports": ports}


class SharedMemoryModel(StorageModel):
    """A memory that cores attach to, or a buffer between cores and DRAM."""

    clock_hz: Hertz | None = None
    policy: Literal["managed", "lru"] = Field(
        "managed",
        description="of a buffer between cores and DRAM: managed (evicts what is used last) or a cache that evicts "
        "what was not used for longest",
    )
    resident: list[Literal["weights", "optimizer_state"]] = Field(
        [], description="what stays in a buffer between cores and DRAM from one step to the next, and is not in DRAM"
    )

    @field_validator("resident", mode="before")
    @classmethod
    def _one_kind(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class LevelModel(StorageModel):
    """A memory level of a core, or (with ``memory``) its attachment to a shared memory."""

    name: str
    operands: list[Operand] = Field(["I", "W", "O"], min_length=1)
    per: list[str] = Field([], description="axes along which it is replicated; 'mac': all, 'core': none")
    memory: str | None = Field(None, description="name of the shared memory this level is")
    size_bytes: Bytes | None = None  # type: ignore[assignment]  # a shared memory brings its own
    ports: list[PortModel] = Field([])

    @field_validator("per", mode="before")
    @classmethod
    def _per(cls, value: Any) -> Any:
        return {"mac": ["*"], "core": []}.get(value, [value]) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _private_or_shared(self) -> LevelModel:
        if self.memory is None and self.size_bytes is None:
            raise ValueError("give size_bytes, or name a shared memory in memory")
        if self.memory is not None and (self.size_bytes is not None or self.per):
            raise ValueError("a level that is a shared memory takes its size from there and is not replicated")
        return self


class MeshModel(Model):
    """A grid of cores."""

    x: Count
    y: Count


class TransposedReadModel(Model):
    """Price of reading an input transposed."""

    kind: Literal["free", "per_element", "explicit"]
    cycles_per_element: NotNegative = 0.0


class QuantiserModel(Model):
    """An output stage that turns wide values into a format whose elements share a scale, a block at a time."""

    block: Count = Field(description="elements that it takes at once")
    cycles_per_block: Positive = 1.0
    energy_j: Joules = Field(description="of a block, memories not included")
    dtypes: list[str] = Field(["fp32", "bf16"], min_length=1, description="of what it takes")

    @field_validator("dtypes")
    @classmethod
    def _dtypes(cls, value: list[str]) -> list[str]:
        return [_known_format(name) for name in value]


class CoreModel(Model):
    """A core design and how many of it there are."""

    use: str | None = Field(None, description="start from another core: its name here, or 'preset:core'")
    kind: Literal["matrix", "vector", "analog"]
    count: Count = 1
    mesh: MeshModel | None = Field(None, description="'4x4', or x and y")
    clock_hz: Hertz | None = None
    axes: dict[str, AxisModel] = Field({})
    modes: dict[str, dict[str, WiresModel]] = Field({}, description="further modes: wires by axis")
    mode_switch_cycles: Cycles = 0
    format_switch_cycles: Cycles = Field(0, description="to go on with products of other number formats")
    rates: dict[str, RateModel] = Field({}, description="by number format ('int8') or pair ('int8*int4')")
    vector: VectorModel | None = None
    quantiser: QuantiserModel | None = Field(
        None, description="of a core without lanes: what it quantises results with"
    )
    memories: list[LevelModel] = Field(min_length=1, description="innermost first")
    swappable_inputs: bool = Field(True, description="either input of an operator may take the W slot")
    zero_skipping: bool = Field(False, description="strided input gradients skip the inserted zeros")
    transposed_read: TransposedReadModel = TransposedReadModel(kind="free")
    dispatch_cycles: Cycles | None = Field(None, description="in place of the device's, of cycles of this core")
    refill: Literal["operator", "tile"] = Field(
        "operator",
        description="when a fused tile loads the array from the top memories and empties it again: if the core did "
        "another operator before (what the array holds stays), or always",
    )
    output_tiles: OutputTilesModel | None = Field(
        None, description="the array works output tile by output tile; systolic axes are paid for in each of them"
    )
    thread_blocks: ThreadBlocksModel | None = Field(
        None, description="products that are not fused run as kernels: tiles of results dealt out to all cores in waves"
    )
    tile_buffers: Count | None = Field(
        None,
        description="tiles whose operands it can hold at once: it asks for those of a tile when it is done with the "
        "tile so many before. Not given: as many as its memories have room for",
    )
    compute_area_m2: SquareMetres | None = None
    compute_leakage_w: Watts | None = None

    @field_validator("mesh", mode="before")
    @classmethod
    def _mesh(cls, value: Any) -> Any:
        if isinstance(value, str):
            match = re.match(r"^(\d+)x(\d+)$", value)
            if not match:
                raise ValueError("a mesh is written '4x4', or with x and y")
            value = {"x": int(match[1]), "y": int(match[2])}
        return value

    @field_validator("count", "mesh")
    @classmethod
    def _copies(cls, value: int | MeshModel | None) -> int | MeshModel | None:
        copies = value.x * value.y if isinstance(value, MeshModel) else value
        if copies is not None and copies > (MOST_IN_MESH if isinstance(value, MeshModel) else MOST_COPIES):
            raise ValueError(_COPIES)
        return value

    @field_validator("transposed_read", mode="before")
    @classmethod
    def _transposed(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("rates", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return {str(name): {} for name in value} if isinstance(value, list) else value

    @field_validator("rates")
    @classmethod
    def _pairs(cls, value: dict[str, RateModel]) -> dict[str, RateModel]:
        for pair in value:
            for name in pair.split("*"):
                _known_format(name)
            if pair.count("*") > 1:
                raise ValueError(f"{pair!r} is not a number format or a pair of them such as 'int8*int4'")
        return value


class EfficiencyModel(Model):
    """What a DRAM achieves of its peak in transfers of some size."""

    bytes: Bytes
    share: Positive = Field(le=1)


class DramModel(Model):
    """Off-chip memory. A ``custom`` kind must give everything but the chip's side of it."""

    kind: str
    capacity_bytes: Bytes
    channels: Count = 1
    bandwidth_bytes_per_s: BytesPerSecond | None = Field(None, description="of all channels together")
    bandwidth_bits_per_cycle: Positive | None = Field(None, description="the same per cycle of the chip's clock")
    latency_s: Seconds | None = None
    burst_bytes: Bytes | None = None
    read_energy_j_per_bit: JoulesPerBit | None = None
    write_energy_j_per_bit: JoulesPerBit | None = None
    static_power_w: Watts | None = None
    interface: str | None = Field(
        None, description="kind whose PHY and controller the chip has; absent: the kind itself, of a custom one none"
    )
    interface_area_m2: SquareMetres | None = Field(None, description="of PHY and controller, in place of the kind's")
    efficiency: list[EfficiencyModel] = Field(
        [],
        description="share of the peak bandwidth by size of a transfer, smallest first; one number: the same for all. "
        "Between sizes, time is interpolated",
    )

    @field_validator("efficiency", mode="before")
    @classmethod
    def _one_share(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [{"bytes": 1, "share": value}]

    @field_validator("efficiency")
    @classmethod
    def _rising(cls, value: list[EfficiencyModel]) -> list[EfficiencyModel]:
        for first, second in pairwise(value):
            if second.bytes <= first.bytes or second.share < first.share:
                raise ValueError(f"sizes and shares must rise: {second.bytes} bytes at {second.share} come too late")
            if second.bytes / second.share < first.bytes / first.share:
                raise ValueError(f"{second.bytes} bytes would take less time than {first.bytes}")
        return value

    @field_validator("interface")
    @classmethod
    def _interface(cls, value: str | None) -> str | None:
        if value is not None and value not in DRAM_KINDS:
            raise ValueError(f"unknown kind of DRAM {value!r}; {nearest(value, DRAM_KINDS)}")
        return value

    @field_validator("kind")
    @classmethod
    def _kind(cls, value: str) -> str:
        if value not in (*DRAM_KINDS, "custom"):
            raise ValueError(f"unknown kind of DRAM {value!r}; {nearest(value, (*DRAM_KINDS, 'custom'))}")
        return value

    @model_validator(mode="after")
    def _complete(self) -> DramModel:
        if self.bandwidth_bytes_per_s is not None and self.bandwidth_bits_per_cycle is not None:
            raise ValueError("give bandwidth_bytes_per_s or bandwidth_bits_per_cycle, not both")
        needed = ("latency_s", "burst_bytes", "read_energy_j_per_bit", "write_energy_j_per_bit", "static_power_w")
        missing = [name for name in needed if getattr(self, name) is None]
        if self.bandwidth_bytes_per_s is None and self.bandwidth_bits_per_cycle is None:
            missing.append("a bandwidth")
        if self.kind == "custom" and missing:
            raise ValueError(f"a custom DRAM must also give {', '.join(missing)}")
        return self


class ConnectionModel(Model):
    """Wires between cores, shared memories and DRAM. One of ``mesh``, ``ring``, ``chain``, ``bus``, ``link``."""

    mesh: str | None = Field(None, description="the core whose grid gets links between neighbours")
    ring: list[str] | None = None
    chain: list[str] | None = Field(None, description="one after another")
    bus: list[str] | None = Field(None, description="all on the same wires")
    link: list[str] | None = Field(
        None, min_length=2, max_length=2, description="two ends; a core stands for all its copies"
    )
    bandwidth_bits_per_cycle: Positive | None = None
    bandwidth_bytes_per_s: BytesPerSecond | None = None
    clock_hz: Hertz | None = None
    latency_cycles: Cycles = 1
    energy_j_per_bit: JoulesPerBit | None = None
    length_m: Metres | None = Field(None, description="absent: the pitch of its cores; of a bus, the side of the chip")
    area_m2: SquareMetres | None = None
    shared_directions: bool | None = Field(None, description="absent: true for a bus, false for links")
    directed: bool = Field(False, description="links lead one way only, in the order given")
    hub: str | None = Field(None, description="a bus that only carries data to and from this member")

    @model_validator(mode="after")
    def _one_shape(self) -> ConnectionModel:
        given = [name for name in ("mesh", "ring", "chain", "bus", "link") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of mesh, ring, chain, bus, link; given: {', '.join(given) or 'none'}")
        if self.hub is not None and self.hub not in (self.bus or ()):
            raise ValueError("hub must be a member of the bus")
        if (self.bandwidth_bits_per_cycle is None) == (self.bandwidth_bytes_per_s is None):
            raise ValueError("give either bandwidth_bits_per_cycle or bandwidth_bytes_per_s")
        return self

    @property
    def members(self) -> list[str]:
        """Names as written, whatever the shape."""
        if self.mesh is not None:
            return [self.mesh]
        return self.ring or self.chain or self.bus or self.link or []


class ParameterModel(Model):
    """A named knob of this file: the paths it sets, and the values a study would sweep."""

    sets: list[str] = Field(min_length=1)
    values: list[Any] = Field([])
    about: str = ""

    @field_validator("sets", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class HostModel(Model):
    """The host's memory behind DRAM, and the link to it: where activations can be paged out to."""

    bandwidth_bytes_per_s: BytesPerSecond = Field(description="of the port; transfers follow each other")
    latency_s: Seconds = Field(0.0, description="of every transfer")
    energy_j_per_bit: JoulesPerBit = Field(0.0, description="of the link, both ends, and of what is behind it")
    capacity_bytes: Bytes | None = Field(None, description="of the memory behind it; absent: whatever is needed")


class EndpointModel(HostModel):
    """Something outside of the chip that data is sent to and comes from, over a port of its own. The port lies beside
    DRAM; if a connection of the network names it, there."""

    kind: Literal["host", "network"] = Field(description="a memory that keeps what is sent, or other devices")

    @model_validator(mode="after")
    def _no_memory(self) -> EndpointModel:
        if self.kind == "network" and self.capacity_bytes is not None:
            raise ValueError("a network keeps nothing: capacity_bytes is for an endpoint of kind host")
        return self


class SerialModel(Model):
    """A serial link to other chips or the host: what it takes of the chip. Nothing is sent over it."""

    kind: str
    bandwidth_bytes_per_s: BytesPerSecond = Field(description="one way; as much goes the other way")

    @field_validator("kind")
    @classmethod
    def _kind(cls, value: str) -> str:
        if value not in SERIAL_KINDS:
            raise ValueError(f"unknown kind of serial link {value!r}; {nearest(value, SERIAL_KINDS)}")
        return value


class Description(Model):
    """A whole accelerator as written."""

    name: str
    about: str = ""
    source: list[str] = Field([], description="where the figures come from")
    node_nm: Positive = Field(ge=MIN_NODE_NM, le=MAX_NODE_NM)
    process: Literal["low_power", "high_performance"] = Field("low_power", description="leakage flavour")
    clock_hz: Hertz
    stated_clock_hz: Hertz | None = Field(
        None, description="of the peak rates that the maker states, where power does not let products hold it"
    )
    dispatch_cycles: Cycles = Field(
        0, description="launch gap: cycles that cores wait at the start of a group of operators, or of one alone"
    )
    host_dispatch_s: Seconds = Field(
        0.0,
        description="that an eager framework's host takes to issue a group of operators, or one alone; it runs ahead "
        "of the device, which waits where the host is behind; 0: a compiled program, no host",
    )
    parameters: dict[str, ParameterModel] = Field({})
    other_area_m2: SquareMetres = Field(
        0.0, description="chip area that no core or memory here stands for: control, I/O"
    )
    cores: dict[str, CoreModel] = Field(min_length=1)
    memories: dict[str, SharedMemoryModel] = Field(
        {}, description="memories shared by cores, or between cores and DRAM"
    )
    dram: dict[str, DramModel] = Field(min_length=1)
    serial: dict[str, SerialModel] = Field({}, description="links to other chips and the host: area and power")
    clock_power_w: Watts | None = Field(None, description="of the clock network; absent: by area of logic and clock")
    tdp_w: Watts | None = Field(
        None, description="power that the maker designs cooling for, memory included; not a limit here"
    )
    clock_gating: bool | None = Field(
        None, description="cores that wait are not clocked; absent: in a low-power process only"
    )
    endpoints: dict[str, EndpointModel] = Field(
        {}, description="outside of the chip: memory of a host that activations can be paged out to, other devices"
    )
    host: HostModel | None = Field(None, description="short for an endpoint of this name and kind")
    network: dict[str, ConnectionModel] = Field(min_length=1)
    _document: dict[str, Any] = PrivateAttr(default_factory=dict)  # as written, for ``replace``

    @field_validator("source", mode="before")
    @classmethod
    def _source(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def outside(self) -> dict[str, EndpointModel]:
        """All endpoints, the one in short form among them."""
        short = {"host": EndpointModel(kind="host", **dict(self.host))} if self.host else {}
        return short | self.endpoints


def default_accumulator(first: str, second: str) -> str:
    """Element type of partial sums where a rate does not name one: wide enough for the products."""
    names = (first, second)
    if "fp64" in names:
        return "fp64"
    return "fp32" if any(FORMATS[name].is_float for name in names) else "int32"
