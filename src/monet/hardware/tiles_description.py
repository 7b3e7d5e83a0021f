"""Parts of the hardware file: how arrays and cores work tile of results by tile of results."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from monet.hardware.fields import Bytes, Count, Cycles, Model

_TILE = re.compile(r"^(\d+)x(\d+)$")


class OutputTilesModel(Model):
    """An array that works output tile by output tile, each over all that is summed."""

    flatten: bool = Field(
        False, description="C·FY·FX and N·OY·OX count as one dimension each, as after im2col; else as unrolled"
    )
    col2im: bool = Field(
        False,
        description="input gradients of convolutions are dY·Wᵀ, its columns added up afterwards (not charged); "
        "else products over windows of dY where that is possible",
    )
    queue_steps: Count | None = Field(None, description="steps that wait at the edge of a systolic array; absent: all")
    overhead_cycles: Cycles = Field(0, description="of every tile, in which results leave and nothing is taken in")
    setup_cycles: Cycles = Field(0, description="to program the array for what lies in the core's memory")
    first_fill_bytes: Bytes | None = Field(None, description="that come from DRAM before an operator can begin")


class ThreadBlocksModel(Model):
    """A core that runs matrix products as blocks of threads, each of which makes one tile of the results."""

    tiles: list[str] = Field(min_length=1, description="sizes that kernels come in, rows x columns: '128x128'")
    fp32_tiles: list[str] = Field([], description="of kernels that multiply fp32 as it is; absent: as tiles")
    fp32_batched_tiles: list[str] = Field([], description="of those that multiply many pairs; absent: as fp32_tiles")
    fp32_clock_share: float = Field(
        1.0, gt=0, le=1, description="of the clock that such kernels hold within the power of the board"
    )
    warp: str = Field("64x64", description="of a tile, what one warp makes: it reads both of its inputs for itself")
    slice_bytes: Bytes = Field(64, description="of a row of an input in one slice of what is summed")
    stages: Count = Field(2, description="slices that are held at once: one in use, the others on their way")
    latency_cycles: Cycles = Field(0, description="until a slice arrives that was asked for")
    fetch_bits_per_cycle: Count | None = Field(
        None, description="at which a core gets slices while all cores ask for some; absent: as its memory takes them"
    )

    @field_validator("tiles", "fp32_tiles", "fp32_batched_tiles", "warp")
    @classmethod
    def _tiles(cls, value: list[str] | str) -> list[str] | str:
        for text in [value] if isinstance(value, str) else value:
            match = _TILE.match(text)
            if not match or not all(map(int, match.groups())):
                raise ValueError(f"{text!r} is not rows x columns such as '128x64'")
        return value

    @staticmethod
    def sizes(text: str) -> tuple[int, int]:
        """'128x64' as numbers."""
        rows, columns = text.split("x")
        return int(rows), int(columns)
