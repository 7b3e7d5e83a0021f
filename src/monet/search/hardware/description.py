"""The space file: pydantic models of a space as people write it. ``space`` checks one and makes it explorable."""

from __future__ import annotations

import math
from typing import Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from monet.hardware.fields import Model
from monet.quantities import plain_number
from monet.search.hardware.workload import Workload

WHOLE_LIMIT = 100_000  # values that one parameter may have


class RangeModel(Model):
    """Numbers from ``low`` to ``high``, both included. Whole numbers without a step are one apart; others are any.

    So are whole numbers where there are more than 100,000 of them; they stay whole.
    """

    low: float | str
    high: float | str
    step: float | str | None = Field(None, description="distance between values; with log, their ratio")
    log: bool = Field(False, description="equal ratios rather than equal distances")

    @model_validator(mode="after")
    def _not_empty(self) -> RangeModel:
        low, high, step = (plain_number(bound) for bound in (self.low, self.high, self.step))
        for name, bound in (("low", low), ("high", high)):
            if not isinstance(bound, int | float) or not math.isfinite(bound):
                raise ValueError(f"{name} {bound!r} is not a number, with or without a unit ('512 KiB', '25.6 GB/s')")
        if low > high:
            raise ValueError(f"is empty: low {self.low} is above high {self.high}")
        if self.log and low <= 0:
            raise ValueError(f"a log range starts above 0, not at {self.low}")
        if step is not None and (not isinstance(step, int | float) or step <= (1 if self.log else 0)):
            raise ValueError(f"step {self.step!r}: {'a ratio above 1' if self.log else 'a number above 0'} is needed")
        return self

    def values(self) -> tuple[int | float, ...]:
        """Every value; none if any number between the bounds will do."""
        low, high, step = (plain_number(bound) for bound in (self.low, self.high, self.step))
        whole = all(float(bound).is_integer() for bound in (low, high))
        if step is None:
            listed = whole and high - low < WHOLE_LIMIT
            return tuple(range(int(low), int(high) + 1)) if listed else ()
        if self.log:
            count = min(math.floor(math.log(high / low) / math.log(step) + 1e-9), WHOLE_LIMIT)
            exact = [low * step**number for number in range(count + 1)]
        else:
            count = min(math.floor((high - low) / step + 1e-9), WHOLE_LIMIT)
            exact = [low + number * step for number in range(count + 1)]
        whole = whole and float(step).is_integer()
        return tuple(round(value) if whole else float(f"{value:.9g}") for value in exact)


class ParameterModel(Model):
    """A named choice. What it sets: paths of the hardware, one of its named parameters, or ``workloads.NAME.KNOB``."""

    sets: list[str] = Field([], description="absent: the parameter of this name in the hardware file")
    values: list[int | float | str | bool] | None = Field(None, description="the choices")
    range: RangeModel | None = None
    about: str = ""

    @field_validator("sets", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _choices(self) -> ParameterModel:
        if (self.values is None) == (self.range is None):
            raise ValueError("give either values or range")
        if self.values is not None:
            if not self.values:
                raise ValueError("values is empty: nothing to choose from")
            twice = [value for number, value in enumerate(self.values) if value in self.values[:number]]
            if twice:
                raise ValueError(f"the value {twice[0]!r} is listed twice")
        return self

    def chosen(self) -> tuple[tuple[int | float | str | bool, ...], float, float]:
        """Values, and for a continuous parameter (no values) its bounds."""
        if self.values is not None:
            return tuple(self.values), 0.0, 0.0
        assert self.range is not None
        return self.range.values(), float(plain_number(self.range.low)), float(plain_number(self.range.high))


class PipelineModel(Model):
    """Every design is all devices of a system: what is costed is a step of the workload under a parallel plan."""

    system: str | dict[str, Any] = Field(description="a system whose network joins the designs")
    batch: int = Field(gt=0, description="samples of a step over all replicas")
    plan: dict[str, Any] = Field({}, description="a parallel plan: pipeline, tensor, data, micro_batch, cuts …")


class SpaceModel(Model):
    """A whole space as written."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    name: str = Field(min_length=1, max_length=100, pattern=r"^\w[\w .+()-]*$", description="also of its store")
    about: str = ""
    source: list[str] = Field([], description="where the ranges come from")
    hardware: str | dict[str, Any] = Field(description="preset name, YAML file, or the description itself")
    set_values: dict[str, Any] = Field({}, alias="set", description="paths of the hardware set for every point")
    parameters: dict[str, ParameterModel] = Field(min_length=1)
    derived: dict[str, str] = Field(
        {}, description="paths of the hardware set by what parameters come to: max(1024, rows * columns / 64)"
    )
    tables: dict[str, dict[int | str, float]] = Field({}, description="that derived values look up: area_um2[rows]")
    constraints: list[str] = Field([], description="comparisons: area_mm2 <= 100, x_pes * y_pes >= 2")
    workloads: dict[str, Workload] = Field(min_length=1)
    objectives: list[str] = Field(
        ["latency", "energy"], min_length=1, description="latency, energy, edp, memory or area; training.latency"
    )
    pipeline: PipelineModel | None = Field(None, description="designs as the devices of a system")

    @field_validator("source", mode="before")
    @classmethod
    def _source(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("workloads")
    @classmethod
    def _names(cls, value: dict[str, Workload]) -> dict[str, Workload]:
        for name, workload in value.items():
            if not name.isidentifier():
                raise ValueError(f"the workload name {name!r} is not a plain word (letters, digits, _)")
            if name in ("training", "inference") and workload.mode != name:
                raise ValueError(f"the workload called {name!r} has mode {workload.mode}: take another name")
        return value
