"""The system file: pydantic models of devices and the network between them as people write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from monet.distributed.systems.topology import ALGORITHMS, TOPOLOGIES
from monet.errors import nearest
from monet.hardware.description import Model
from monet.hardware.fields import BytesPerSecond, Count, JoulesPerBit, Seconds
from monet.quantities import parse_quantity

MOST_DEVICES = 2**22


def _extents(value: object) -> object:
    """``8``, ``4x4x4`` or a list of numbers as extents along each dimension."""
    if isinstance(value, str) and value.strip():
        parts = value.lower().split("x")
        if not all(part.strip().isdecimal() for part in parts):
            raise ValueError("expected a number of members, or extents as in 4x4x4")
        return [int(part) for part in parts]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


Extents = Annotated[
    list[Count],
    BeforeValidator(_extents),
    Field(min_length=1, max_length=3),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"^\d+(x\d+){0,2}$"}]}),
]
Share = Annotated[float, Field(gt=0, le=1)]


class LevelModel(Model):
    """One level of the network. Its members are devices, or on outer levels groups of the level inside."""

    size: Extents = Field(description="members of the level: a number, or the extents of a torus as in 4x4x4")
    topology: Literal["switch", "fully_connected", "ring", "torus_2d", "torus_3d"] = "switch"
    bandwidth_bytes_per_s: BytesPerSecond = Field(description="of one member in each direction, all its links together")
    device_bandwidth_bytes_per_s: BytesPerSecond | None = Field(
        None, description="what one device of a member gets at most, in each direction; absent: all of the member's"
    )
    latency_s: Seconds = Field(description="of one step from member to member")
    launch_s: Seconds = Field(0.0, description="of one collective, once, however many steps it has")
    efficiency: dict[str, Share] = Field(
        {},
        description="achieved share of the bandwidth by bytes that a device sends; by their logarithm in between",
    )
    energy_j_per_bit: JoulesPerBit = Field(0.0, description="of one bit over one hop of this level")
    takes_compute: float = Field(
        0.0, ge=0, lt=1, description="share of the device's compute that is taken while it communicates on this level"
    )
    algorithms: list[str] = Field(list(ALGORITHMS), min_length=1, description="that the library chooses from")

    @field_validator("efficiency", mode="before")
    @classmethod
    def _by_size(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"1 B": value}
        return {str(size): share for size, share in value.items()} if isinstance(value, dict) else value

    @field_validator("efficiency")
    @classmethod
    def _sizes(cls, value: dict[str, float]) -> dict[str, float]:
        for size in value:
            if float(size) <= 0 if size.replace(".", "").isdecimal() else parse_quantity(size, "B") <= 0:
                raise ValueError(f"{size!r} is no message size; write bytes as in 1 MB")
        return value

    @field_validator("algorithms")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in ALGORITHMS:
                raise ValueError(f"unknown algorithm {name!r}; {nearest(name, ALGORITHMS)}")
        return names

    @model_validator(mode="after")
    def _shape(self) -> LevelModel:
        wanted = TOPOLOGIES[self.topology]
        if len(self.size) != wanted:
            given = "x".join(map(str, self.size))
            example = "x".join(["4"] * wanted)
            raise ValueError(f"size {given}: a {self.topology} has {wanted} dimension(s), for example {example}")
        return self


class DevicesModel(Model):
    """Like devices, next to each other in the order of ranks."""

    hardware: str = Field(description="preset name, or path of a hardware file from this file's folder")
    count: Count | None = Field(None, description="how many; absent: all that the network has room for")
    set: dict[str, Any] = Field({}, description="hardware parameters or paths set first, as --set does")


class SystemModel(Model):
    """A system file: what is computed on, and what is between."""

    name: str
    about: str = ""
    source: list[str] = Field([])
    devices: list[DevicesModel] = Field(min_length=1, description="in the order of ranks, which levels are filled in")
    network: dict[str, LevelModel] = Field(min_length=1, description="levels from the innermost to the outermost")

    @field_validator("source", mode="before")
    @classmethod
    def _sources(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("devices", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [{"hardware": value}]
        return [value] if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _room(self) -> SystemModel:
        room = 1
        for level in self.network.values():
            for extent in level.size:
                room *= extent
        if room > MOST_DEVICES:
            raise ValueError(f"{room:,} devices: at most {MOST_DEVICES:,} are costed")
        open_ended = [index for index, part in enumerate(self.devices) if part.count is None]
        if open_ended and len(self.devices) > 1:
            raise ValueError(f"devices.{open_ended[0]}.count: is required where there are several kinds of devices")
        given = sum(part.count or 0 for part in self.devices)
        if given > room:
            raise ValueError(f"{given:,} devices, but the network has room for {room:,}: {given - room:,} too many")
        return self
