"""Templates: parameterised accelerators with legal ranges and limits, from YAML. With workloads they become a space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from monet.errors import MonetError, nearest
from monet.hardware.description import Model
from monet.hardware.document import Document, read_document, shipped_names, shipped_or_own
from monet.hardware.loading import problems_of
from monet.search.hardware.description import ParameterModel
from monet.search.hardware.space import Space, SpaceError, make_space
from monet.search.hardware.workload import Workload, read_workload

TEMPLATES = Path(__file__).parent / "templates"


class LimitsModel(Model):
    """What a design may take."""

    area_mm2: float | None = Field(None, gt=0, description="chip area, DRAM not included")
    tdp_w: float | None = Field(None, gt=0, description="power at full use, DRAM included")


class HandDesignModel(Model):
    """A design as people build it, in the template's parameters; scaled to the limits in the parameters named."""

    about: str = ""
    values: dict[str, int | float | str]
    scaled: list[str] = Field(min_length=1, description="parameters that grow and shrink together, numbers of cores")
    shrunk: list[str] = Field([], description="parameters that shrink where one core of each is too much")


class TemplateModel(Model):
    """A template as written."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^\w[\w .+()-]*$")
    about: str = ""
    source: list[str] = Field([], description="where ranges and figures come from")
    limits: LimitsModel = Field(default_factory=lambda: LimitsModel.model_validate({}))
    workload: dict[str, Any] = Field(
        {}, description="how workloads run unless they say otherwise: precision, optimizer"
    )
    parameters: dict[str, ParameterModel] = Field(min_length=1)
    derived: dict[str, str] = Field({}, description="paths set by what parameters come to")
    tables: dict[str, dict[int | str, float]] = Field({}, description="that derived values look up")
    designs: dict[str, HandDesignModel] = Field({}, description="hand-made designs to compare with")
    hardware: dict[str, Any]

    @field_validator("source", mode="before")
    @classmethod
    def _source(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Limits:
    """Area in mm² and power at full use in W that a design may take at most; none: any."""

    area_mm2: float | None = None
    tdp_w: float | None = None

    def over(self, area_mm2: float, tdp_w: float) -> tuple[str, ...]:
        """The limits that a design is over."""
        found = (("area", area_mm2, self.area_mm2), ("power", tdp_w, self.tdp_w))
        return tuple(name for name, value, limit in found if limit is not None and value > limit)

    @property
    def constraints(self) -> list[str]:
        """The same as constraints of a space."""
        given = (("area_mm2", self.area_mm2), ("full_use_power_w", self.tdp_w))
        return [f"{name} <= {limit!r}" for name, limit in given if limit is not None]


@dataclass(frozen=True, slots=True)
class Template:
    """A checked template."""

    model: TemplateModel
    source: str

    @property
    def name(self) -> str:
        """Its name."""
        return self.model.name

    @property
    def limits(self) -> Limits:
        """Limits it comes with."""
        return Limits(self.model.limits.area_mm2, self.model.limits.tdp_w)

    def with_ranges(self, chosen: Mapping[str, Sequence[Any]]) -> Template:
        """The template with other values of some parameters: fewer designs, or others."""
        known = self.model.parameters
        for name in chosen:
            if name not in known:
                raise MonetError(f"template {self.name}: no parameter {name!r}; {nearest(name, known)}")
        changed = {
            name: ParameterModel.model_validate(
                {"sets": known[name].sets, "values": list(values), "about": known[name].about}
            )
            for name, values in chosen.items()
        }
        return replace(self, model=self.model.model_copy(update={"parameters": {**known, **changed}}))

    def workload(self, given: Mapping[str, Any]) -> Workload:
        """A workload with what the template sets unless it says otherwise."""
        try:
            return read_workload({**self.model.workload, **given})
        except ValidationError as error:
            raise SpaceError("workload", problems_of(error)) from None

    def space(
        self,
        workloads: Mapping[str, Workload],
        limits: Limits | None = None,
        objective: str = "latency",
        further: Sequence[str] = (),
        pipeline: Mapping[str, Any] | None = None,
        joint: Mapping[str, Sequence[Any]] | None = None,
    ) -> Space:
        """Designs within limits (its own unless given), for some workloads. ``further``: more constraints;
        ``pipeline``: designs are the devices of a system; ``joint``: options of the workloads that are chosen too."""
        document: Document = {
            "name": self.name,
            "about": self.model.about,
            "hardware": self.model.hardware,
            "parameters": {
                **{name: each.model_dump(exclude_none=True) for name, each in self.model.parameters.items()},
                **{name: {"sets": f"workloads.*.{name}", "values": list(each)} for name, each in (joint or {}).items()},
            },
            "derived": self.model.derived,
            "tables": self.model.tables,
            "constraints": [*(limits or self.limits).constraints, *further],
            "workloads": dict(workloads),
            "objectives": [objective],
            **({"pipeline": dict(pipeline)} if pipeline else {}),
        }
        return make_space(document, self.source, Path())


def template_names() -> tuple[str, ...]:
    """Names of the templates that come with monet."""
    return shipped_names(TEMPLATES)


def load_template(name_or_path: str | Path) -> Template:
    """A checked template from a YAML file or the name of a shipped one."""
    text, path = str(name_or_path), shipped_or_own(name_or_path, TEMPLATES, "template")
    document = read_document(path, "a template file is a mapping with at least name, parameters, hardware")
    try:
        return Template(TemplateModel.model_validate(document), text)
    except ValidationError as error:
        raise SpaceError(text, problems_of(error, TemplateModel)) from None
