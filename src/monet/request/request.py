"""Request: everything one evaluation is asked for. Its fields are the options of every command, space and result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from monet.errors import MonetError, OptionError, nearest
from monet.options import option, options_of
from monet.training.options import TrainingOptions, left_to_hardware

if TYPE_CHECKING:
    from monet.graph.graph import Graph
    from monet.hardware.accelerator import Accelerator
    from monet.hardware.description import Description
    from monet.schedule.engine import Scheduler
    from monet.schedule.plan import Placement, Plan
    from monet.schedule.result import Result


@dataclass(frozen=True)
class Request(TrainingOptions):
    """A model, how it is trained, on what hardware, scheduled how: ``Request("resnet18", "edge-tpu", batch=8)``.

    ``model`` and ``hardware`` may also be the graph and the description themselves, as plain values. The same is true
    of the plans that ``checkpoint``, ``fusion`` and ``allocation`` name.
    """

    # fmt: off
    model: str | Mapping[str, Any] = option(
        group="model", help="Zoo name, path to an ONNX file, or file.py:function that returns a torch module."
    )
    hardware: str | Mapping[str, Any] = option("", group="hardware", help="Preset name or path of a YAML file.")
    _: KW_ONLY
    batch: int | None = option(None, group="model", minimum=1, maximum=2**20, unit="samples", help="Samples per step.")
    image: int | None = option(None, group="model", minimum=1, maximum=2**16, unit="pixels", help="Image height and width.")
    sequence: int | None = option(None, group="model", minimum=1, maximum=2**24, unit="tokens", help="Tokens per sample.")
    inputs: tuple[str, ...] = option(
        (), group="model", flag="--input", help="Input of a torch module: 1x3x224x224, 1x128:int64."
    )
    dimensions: Mapping[str, int] = option(
        {}, group="model", flag="--dimension", help="Dynamic axis of an ONNX file: NAME=SIZE."
    )
    mode: str = option(
        "training", group="model", choices=("training", "inference"), help="training, or inference: forward only."
    )
    checkpoint: str | Mapping[str, Any] = option(
        "", group="checkpoint", choices="monet.transforms.checkpoint_baselines:BASELINES",
        file="a YAML file with a checkpoint plan",
        help="What is recomputed or narrowed: keep-all, recompute-all, sqrt-segments, per-block, selective-attention, cheap-operators, or a YAML file with a plan.",
        usual="keep-all",
    )
    set: Mapping[str, Any] = option(
        {}, group="hardware", flag="--set", help="Set a hardware parameter or path: NAME=VALUE; of a system, of all devices, or network.LEVEL.FIELD."
    )
    phases: tuple[str, ...] = option(
        (), group="schedule", choices="monet.graph.op:Phase", separator=",",
        help="Only some of forward,loss,backward,update.",
    )
    fusion: str | Mapping[str, Any] = option(
        "auto", group="schedule", choices="monet.schedule.planning.default_plan:FUSIONS",
        file="a YAML file with a plan", help="auto, none, or a YAML file with a plan.",
    )
    allocation: str | Mapping[str, Any] = option(
        "", group="schedule", choices=(), file="a YAML file with a plan",
        help="YAML file that says which cores run which operators; of a whole plan its cores only.",
    )
    boundary: str = option(
        "", group="schedule", choices="monet.schedule.plan:BOUNDARIES",
        help="keep: results stay on chip until evicted; local: for the core that made them only; dram: written out.",
        usual="whichever is fastest, or the plan's",
    )
    objective: str = option(
        "latency", group="schedule", choices="monet.mapping.mapper.tiling:OBJECTIVES",
        help="What mappings are chosen for: latency, energy or edp.",
    )
    # fmt: on
    model_digest: str = ""  # of a model file whose content is asked for and no other

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "inference":
            if self.micro_batches > 1:
                raise OptionError("micro_batches", self.micro_batches, "inference accumulates no gradients")
            if self.checkpoint:
                raise OptionError("checkpoint", self.checkpoint, "inference keeps nothing for a backward pass")
        if self.micro_batches > 1 and (self.batch is None or self.batch % self.micro_batches):
            raise OptionError("micro_batches", self.micro_batches, f"must divide the batch (given: {self.batch})")

    # --- what is asked for ---------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The graph: a training step, or the forward pass for inference; only of some phases if they are given."""
        from monet.request.graphs import graph_of

        return graph_of(self.settled())

    def describe(self) -> Description:
        """The checked hardware description."""
        from monet.hardware.loading import describe, load_description

        if not self.hardware:
            raise OptionError("hardware", self.hardware, "a preset name or the path of a YAML file is needed")
        if isinstance(self.hardware, str):
            return load_description(self.hardware, self.set)
        return describe(dict(self.hardware), str(self.hardware.get("name", "hardware")), self.set)

    def accelerator(self) -> Accelerator:
        """The hardware."""
        from monet.hardware.resolve import resolve

        return resolve(self.describe())

    def scheduler(self) -> Scheduler:
        """What a search asks for the cost of plans."""
        from monet.schedule.engine import Scheduler

        return Scheduler(self.graph(), self.accelerator(), self.objective)

    def plan(self) -> Plan | None:
        """The plan that is given, the boundary that is asked for in it; None for a default one."""
        from monet.schedule.plan import Plan

        values = self.inlined().fusion
        if isinstance(values, str):
            return None
        return Plan.from_dict({**values, "boundary": self.boundary} if self.boundary else values)

    def files(self) -> tuple[str, ...]:
        """What is given that may be the path of a file."""
        given = (self.model, self.hardware, self.precision, self.checkpoint, self.fusion, self.allocation)
        named = [value for value in given if isinstance(value, str) and value]
        return (*named, *(value.rpartition(":")[0] for value in named if ".py:" in value))

    def placements(self) -> dict[str, Placement]:
        """The cores that are given for operators."""
        from monet.schedule.plan import Plan

        return dict(Plan.from_dict({"allocation": self.inlined().allocation or {}}).placements)

    def evaluate(self, graph: Graph | None = None) -> Result:
        """Do it. ``graph`` saves building it when only hardware and schedule differ from a request before."""
        from monet.request.attention import evaluated
        from monet.request.evaluation import evaluate
        from monet.schedule.simulation.workspace import without_collecting

        if graph is None and left_to_hardware(self.attention):
            return evaluated(self)
        asked = self.inlined()
        with without_collecting():  # graphs too are many small objects and hardly a cycle
            return evaluate(
                asked.graph() if graph is None else graph,
                asked.accelerator(),
                asked.fusion if isinstance(asked.fusion, Mapping) else None,
                fusion=asked.fusion if isinstance(asked.fusion, str) else "",
                boundary=asked.boundary,
                allocation=asked.allocation if isinstance(asked.allocation, Mapping) else None,
                objective=asked.objective,
            )

    def settled(self) -> Self:
        """With the implementation of attention that is taken on the hardware, where it is left to that."""
        from monet.request.attention import settled

        return settled(self)

    def inlined(self, folder: Path | None = None) -> Request:
        """With plans read from their files and the model's path made absolute, from ``folder`` if it is relative."""
        from monet.request.files import inlined

        return inlined(self, folder)

    # --- plain values --------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values that mean the same later and elsewhere: the whole hardware description and whole plans instead
        of names, the attention that is taken, the digest of a model's file. ``Result.inputs``; ``from_json`` makes the
        request again."""
        from monet.frontends import digest_of

        asked = self.settled().inlined()
        given = {name: getattr(asked, name) for name in (*options_of(Request), "model_digest")}
        if self.set or (self.hardware and isinstance(self.hardware, str)):
            given |= {"hardware": self.describe()._document, "set": {}}
        if isinstance(self.model, str) and not self.model_digest:
            given["model_digest"] = digest_of(self.model)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Request:
        """The request with these values; what is absent has its default."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise MonetError(f"a request has no field {name!r}; {nearest(name, known)}")
        return cls(**values)

    @classmethod
    def of(cls, result: Result) -> Request:
        """The request that a result records."""
        values = result.inputs
        if not values.get("model"):
            raise MonetError("this result does not record its inputs, so it cannot be rerun")
        if not values.get("hardware") or isinstance(values["hardware"], str):
            raise MonetError("this result does not record its inputs: its hardware was not made from a description")
        return cls.from_json(values)
